"""Progress: how far a running attempt says it is."""

from msgspec import Struct


class Progress(Struct, frozen=True, gc=False):
    """So much is done, of so much in all when that is known; reads as `40 of 100 (40 %)`."""

    done: float
    total: float | None = None

    def __str__(self) -> str:
        if self.total is None:
            return _number(self.done)
        percent = f" ({100 * self.done / self.total:.0f} %)" if self.total else ""
        return f"{_number(self.done)} of {_number(self.total)}{percent}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"
