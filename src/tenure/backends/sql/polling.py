"""Polling: for servers that tell nobody of new work."""

import time

LOOK = 0.025  # 40 looks a second cost about half a percent of a core


class Polling:
    """A wait that is a short sleep."""

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, LOOK))

    def close(self) -> None:
        """Nothing was opened."""
