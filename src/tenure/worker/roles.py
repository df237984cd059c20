"""Roles: threads that must not die quietly."""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)


class Role(Protocol):
    """Something that runs in a thread of its own until it is told to stop."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


class RoleThread:
    """A role on its thread; an error that ends it is kept, and told to whoever watches."""

    def __init__(
        self, role: Role, on_death: Callable[[BaseException], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._role = role
        self._on_death = on_death
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name=f"tenure-{type(role).__name__.lower()}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience: float | None = None) -> None:
        """Tell it to stop and wait until it has, or for this long."""
        self._role.stop()
        self._thread.join(patience)

    def _run(self) -> None:
        try:
            self._role.run()
        except BaseException as error:
            logger.exception("the %s died", type(self._role).__name__.lower())
            self._on_death(error)
        finally:
            self._on_end()
