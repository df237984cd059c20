"""Dashboard: `read(query, access)` returns a model, `act(command, access, why)` changes something and records it.

Queries, commands and models are plain values; the web page, the JSON API and the command line all use them.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeVar

from msgspec import Struct, structs

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.audit_trail import AuditTrail
from tenure.app.dashboard.background import Background
from tenure.app.dashboard.figures import Figures, Recorder, read_figures
from tenure.app.dashboard.series import SlotHistory
from tenure.app.tenure import Tenure
from tenure.backends.contract import Parts
from tenure.backends.records import AuditRecord
from tenure.clock import to_datetime
from tenure.errors import ActionRefused, JobNotFound, TenureError
from tenure.redaction import Redactor, one_line

logger = logging.getLogger(__name__)

M_co = TypeVar("M_co", covariant=True)
M = TypeVar("M")
SAVE_INTERVAL_SECONDS = 0.5  # between two records of the progress of one action


@dataclass(frozen=True)
class Sources:
    """What queries read and commands change: the app, and what was read for all viewers."""

    app: Tenure
    has_handlers: bool
    recorder: Recorder
    redactor: Redactor
    cache: dict[str, Any] = field(default_factory=dict)  # slow answers that viewers share until the next action
    kept: dict[str, Any] = field(default_factory=dict)  # the same, but they outlive actions
    background: Background = field(default_factory=Background)
    history: SlotHistory = field(default_factory=SlotHistory)

    @property
    def parts(self) -> Parts:
        return self.app.parts()

    @property
    def figures(self) -> Figures:
        return self.recorder.latest()

    @property
    def now(self) -> datetime:
        return to_datetime(self.app.clock.now())

    def queue_name(self, name: str) -> str:
        """The name of a queue, from an alias or another spelling; an unknown queue has the name that was given."""
        return self.app.queues.find(name) or name

    def shared(self, name: str, seconds: float, read: Callable[[], M]) -> M:
        """The answer of `read`, which all viewers share for some seconds."""
        known = self.cache.get(name)
        if known is not None and time.monotonic() < known[0]:
            answer: M = known[1]
            return answer
        answer = read()
        self.cache[name] = (time.monotonic() + seconds, answer)
        return answer


class Query(Protocol[M_co]):
    """What a page asks. `page` names the page, and is its path in the web and in the API."""

    page: ClassVar[str]

    def read(self, sources: Sources, access: Access) -> M_co:
        """The model; raises AccessDenied for what the user may not see."""
        ...


class Effect(Struct, frozen=True):
    """What an action does to the jobs of one state, or to something else; `count` is None where it is not counted."""

    text: str
    state: str | None = None
    count: int | None = None


class Preview(Struct, frozen=True, kw_only=True):
    """What an action would do, for a user who must confirm it.

    `verb` is the text of the button. `is_final` actions cannot be undone. `total` is how many jobs are concerned.
    """

    question: str
    verb: str
    effects: tuple[Effect, ...] = ()
    notes: tuple[str, ...] = ()
    total: int | None = None
    is_final: bool = False
    counted_at: datetime | None = None

    @property
    def must_type(self) -> bool:
        """Whether the user must type the number to confirm it."""
        return self.total is not None and self.total > 100


class Command(Protocol):
    """What a user wants to change. `action` names it in access rules and in the audit log."""

    action: ClassVar[str]

    def target(self) -> str:
        """What it concerns, for the audit log: a name, ids, or a filter."""
        ...

    def check(self, sources: Sources, access: Access) -> None:
        """Raise AccessDenied or ActionRefused if it cannot be done; changes nothing."""
        ...

    def preview(self, sources: Sources, access: Access) -> Preview: ...

    def steps(self, sources: Sources, access: Access) -> Iterator[Mapping[str, int]]:
        """Do it, in one step or several; yields how many had each result. The user may stop it between two steps."""
        ...

    def outcome(self, counts: Mapping[str, int]) -> str:
        """What was done, in a sentence for the user."""
        ...

    def undo(self) -> "Command | None":
        """The command that takes it back, None if there is none."""
        ...


class Dashboard:
    """What people see and do in one app."""

    def __init__(self, app: Tenure, *, has_handlers: bool = True) -> None:
        """Without `has_handlers` the app was built from settings only, so a missing handler proves nothing."""
        recorder = Recorder(lambda: read_figures(app), app.clock.now)
        self.sources = Sources(app, has_handlers, recorder, Redactor(app.settings.sensitive))
        self.trail = AuditTrail(app)
        self.changes = 0  # grows with every action, so that layers above know when to forget what they cached
        self._running: set[threading.Thread] = set()
        self._stopping = threading.Event()

    def read(self, query: Query[M], access: Access) -> M:
        """The model that answers a query."""
        access.check_page(query.page)
        return query.read(self.sources, access)

    def preview(self, command: Command, access: Access) -> Preview:
        """What a command would do; raises as `act` would."""
        self._check(command, access)
        return command.preview(self.sources, access)

    def act(self, command: Command, access: Access, why: str | None = None, *, origin: str = "python") -> AuditRecord:
        """Do it, and return the audit record; an error is recorded too, and raised."""
        self._check(command, access)
        return self._run(command, access, self._begin(command, access, why, origin))

    def start(
        self, command: Command, access: Access, why: str | None = None, *, origin: str = "web", total: int | None = None
    ) -> AuditRecord:
        """As `act`, but goes on in the background after a moment: the state of the record is then `running`.

        `total` is how many jobs the user was told; the progress of the action is shown as a share of it.
        """
        self._check(command, access)
        record = self._begin(command, access, why, origin, total)
        done: list[AuditRecord] = []
        errors: list[TenureError] = []

        def run() -> None:
            try:
                done.append(self._run(command, access, record))
            except TenureError as error:
                errors.append(error)
            finally:
                self._running.discard(threading.current_thread())

        thread = threading.Thread(target=run, name=f"tenure-{command.action}", daemon=True)
        self._running.add(thread)
        thread.start()
        thread.join(SAVE_INTERVAL_SECONDS)
        if errors:
            raise errors[0]
        return done[0] if done else record

    def record(self, id: str, access: Access) -> AuditRecord:
        """The audit record of an action, with its progress; without the audit page, a user sees only own ones."""
        record = self.trail.find(id)
        if record is None or (record.actor != access.user and not access.may_read("audit")):
            raise JobNotFound(f"no action {id!r} is known, or another user did it")
        return record

    def stop(self, id: str, access: Access, *, origin: str = "web") -> AuditRecord:
        """Ask a running action to stop after its current step, also one that runs in another process."""
        access.check_action("bulk.stop")
        record = self.trail.find(id)
        if record is None or record.state != "running":
            raise ActionRefused(f"no running action {id!r} is known: it may have ended meanwhile")
        access.check_action(record.action)
        if record.actor != access.user:
            access.check_page("audit")  # a user who does not see all queues stops only own actions
        asked = self.trail.begin(access.user, "bulk.stop", id, None, origin, id=_stop_id(id))
        self.trail.end(asked, "done", Counter())
        return record

    def stop_running(self) -> None:
        """Let the actions of this process stop after their current step, which their records then say."""
        self._stopping.set()

    def close(self) -> None:
        """Wait for running actions, and stop reading."""
        for thread in list(self._running):
            thread.join()
        self.sources.recorder.close()
        self.sources.background.close()

    def _check(self, command: Command, access: Access) -> None:
        try:
            access.check_action(command.action)
            command.check(self.sources, access)
        except TenureError as error:
            logger.warning("%s was refused: %s", command.action, one_line(str(error)), extra={"user": access.user})
            raise

    def _begin(
        self, command: Command, access: Access, why: str | None, origin: str, total: int | None = None
    ) -> AuditRecord:
        return self.trail.begin(access.user, command.action, command.target(), why, origin, total=total)

    def _run(self, command: Command, access: Access, record: AuditRecord) -> AuditRecord:
        command = _with_reason(command, record.why)
        counts: Counter[str] = Counter()
        state, error, saved = "done", None, time.monotonic()
        try:
            for step in command.steps(self.sources, access):
                counts.update(step)
                if self._stopping.is_set():
                    state = "stopped"
                    break
                if time.monotonic() - saved >= SAVE_INTERVAL_SECONDS:
                    self.trail.save(structs.replace(record, counts=dict(counts)))
                    saved = time.monotonic()
                    if self.trail.find(_stop_id(record.id)) is not None:
                        state = "stopped"
                        break
        except BaseException as failure:
            state, error = "failed", str(failure) or type(failure).__qualname__
            raise
        finally:
            self.changes += 1
            self.sources.cache.clear()
            record = self.trail.end(record, state, counts, error)
        return record


def _with_reason(command: Command, why: str | None) -> Command:
    """The words of the user are the reason of a command that keeps one, such as the pause of a queue."""
    if not why or getattr(command, "reason", "") is not None:
        return command
    given: Any = command
    changed: Command = structs.replace(given, reason=why)
    return changed


def _stop_id(id: str) -> str:
    return f"{id}-stop"
