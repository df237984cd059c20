"""Access: who a user is, and what this user may see and do; closed by default."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from tenure.definition.job_info import JobInfo
from tenure.errors import AccessDenied

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

# Every action, and the lowest role that may do it.
ACTIONS: dict[str, Role] = {
    "jobs.retry": "operator",
    "jobs.edit": "operator",
    "jobs.cancel": "operator",
    "jobs.reschedule": "operator",
    "jobs.delete": "admin",
    "dead.replay": "operator",
    "dead.export": "operator",
    "dead.delete": "admin",
    "queue.pause": "operator",
    "queue.resume": "operator",
    "queue.drain": "operator",
    "schedule.pause": "operator",
    "schedule.resume": "operator",
    "schedule.run": "operator",
    "worker.drain": "operator",
    "worker.resume": "operator",
    "guard.reset": "operator",
    "bulk.stop": "operator",
}
# The pages that show more than the jobs of some queues, and the lowest role that may read them.
PAGES_OF_ALL_QUEUES: dict[str, Role] = {
    "guards": "viewer",
    "doctor": "viewer",
    "audit": "operator",
    "settings": "admin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one user may see and do.

    `queues` are the only queues whose jobs the user sees and changes, None: all. `actions` are the only actions of the
    role that are allowed, None: all. `redact` is called with each job before its payload, meta and result are shown,
    after the values that the setting `sensitive` names were masked; it returns the job to show.
    """

    user: str
    role: Role = "viewer"
    queues: tuple[str, ...] | None = None
    actions: frozenset[str] | None = None
    redact: Callable[[JobInfo], JobInfo] | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"the role of user {self.user!r} must be one of {', '.join(ROLES)}, not {self.role!r}")
        if unknown := sorted(set(self.actions or ()) - set(ACTIONS)):
            raise ValueError(
                f"user {self.user!r} has unknown actions: {', '.join(unknown)}; known are {', '.join(ACTIONS)}"
            )

    def may(self, action: str) -> bool:
        """Whether the user may do this action, on the queues that the user sees."""
        return self._reaches(ACTIONS[action]) and (self.actions is None or action in self.actions)

    def may_read(self, page: str) -> bool:
        """Whether the user may read this page."""
        role = PAGES_OF_ALL_QUEUES.get(page)
        return role is None or (self.queues is None and self._reaches(role))

    def sees(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues

    def check_action(self, action: str, queue: str | None = None) -> None:
        """Raise AccessDenied unless the user may do this action, and sees the queue; None: no single queue."""
        if not self.may(action):
            raise AccessDenied(f"user {self.user!r} with the role {self.role!r} may not do {action!r}")
        if queue is not None:
            self.check_queue(queue)

    def check_page(self, page: str) -> None:
        if not self.may_read(page):
            raise AccessDenied(f"user {self.user!r} with the role {self.role!r} may not read the page {page!r}")

    def check_queue(self, queue: str) -> None:
        if not self.sees(queue):
            raise AccessDenied(f"user {self.user!r} may not see queue {queue!r}")

    def check_all_queues(self, action: str) -> None:
        """For an action that concerns more than some queues."""
        if self.queues is not None:
            raise AccessDenied(f"user {self.user!r} sees some queues only, and {action!r} concerns all of them")

    def _reaches(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


def everything(user: str) -> Access:
    """The access of a user who may do all, such as the owner of the process."""
    return Access(user=user, role="admin")
