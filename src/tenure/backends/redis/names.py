"""Names: the keys of one Tenure on a server, all below its prefix; those of a queue share its hash tag."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """`tenure:{emails}` and whatever a script appends to it live in one slot of a cluster."""

    prefix: str

    def queue(self, name: str) -> str:
        return f"{self.prefix}:{{{name}}}"

    def wakes(self, names: Iterable[str]) -> list[str]:
        return [f"{self.queue(name)}:wake" for name in names]

    @property
    def queues(self) -> str:
        """The set of all queues that ever had a job."""
        return f"{self.prefix}:queues"

    @property
    def guards(self) -> str:
        return f"{self.prefix}:{{{self.prefix}}}:guards"

    @property
    def uniques(self) -> str:
        return f"{self.prefix}:{{{self.prefix}}}:uniques"

    @property
    def tallies(self) -> str:
        return f"{self.prefix}:tallies:{{{self.prefix}}}"

    @property
    def records(self) -> str:
        """Of jobs that live elsewhere."""
        return f"{self.prefix}:records:{{{self.prefix}}}"

    @property
    def workers(self) -> str:
        return f"{self.prefix}:workers:{{{self.prefix}}}"

    @property
    def ledger(self) -> str:
        return f"{self.prefix}:ledger:{{{self.prefix}}}"
