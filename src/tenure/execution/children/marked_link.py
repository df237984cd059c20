"""MarkedLink: a job's link to the parent process, through its slot in the marks."""

from tenure.execution.children.marks import Marks


class MarkedLink:
    """Good for one ticket: what a job leaves running cannot speak for the next one in its slot."""

    __slots__ = ("_marks", "_slot", "_ticket")

    def __init__(self, marks: Marks, slot: int, ticket: int) -> None:
        self._marks = marks
        self._slot = slot
        self._ticket = ticket

    @property
    def cancelled(self) -> bool:
        return self._marks.is_asked(self._slot, self._ticket)

    def tell(self, done: float, total: float | None) -> None:
        self._marks.tell(self._slot, self._ticket, done, total)
