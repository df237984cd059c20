"""Signatures of Celery tasks, which become follow-up jobs: `link`, `link_error` and chains."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from tenure.definition.job import Job, new_id
from tenure.definition.parent import PARENT_ERROR, PARENT_RESULT
from tenure.errors import NotSupported
from tenure.integrations.celery.result import AsyncResult
from tenure.wire.envelope import follower_id

if TYPE_CHECKING:
    from tenure.integrations.celery.task import CeleryTask

Link = Any


@dataclass(frozen=True, slots=True)
class Signature:
    """A call of a task that is not made yet."""

    task: "CeleryTask[..., Any]"
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Mapping[str, Any]
    immutable: bool

    def set(self, **options: Any) -> "Signature":
        """The same signature with more options, such as `countdown`; unlike Celery's, it is a copy."""
        return replace(self, options={**self.options, **options})

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult[Any]:
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult[Any]:
        """Enqueue it; further arguments go before its own, as in Celery."""
        if self.immutable:
            args, kwargs = (), {}
        return self.task.apply_async(
            (*args, *self.args), {**self.kwargs, **(kwargs or {})}, **{**self.options, **options}
        )

    def __or__(self, other: "Signature | Chain") -> "Chain":
        return chain(self, other)

    def job(self) -> Job:
        """The job of this call."""
        return self.task.described(self.args, dict(self.kwargs), self.options)

    def follower(self, filled: Any) -> Job:
        """The job that follows another; if it is not immutable, its first argument is `filled` by the worker."""
        if self.immutable:
            return self.job()
        first = self.task.first_argument()
        if first is None or first.default is not filled:
            shown = "PARENT_RESULT" if filled is PARENT_RESULT else "PARENT_ERROR"
            name = "value" if first is None else first.name
            raise NotSupported(
                f"s() of {self.task.name!r} takes its first argument from the task before it, and the function must "
                f"say so: write {name}=tenure.{shown} as its first parameter, or use si(...)"
            )
        names = self.task.argument_names()[1:]
        if len(self.args) > len(names):
            raise NotSupported(f"{self.task.name!r} was given {len(self.args)} arguments beside {first.name!r}")
        return self.task.described((), {**dict(zip(names, self.args, strict=False)), **self.kwargs}, self.options)


class Chain:
    """Tasks that run one after the other, each after the success of the one before."""

    def __init__(self, steps: Sequence[Signature]) -> None:
        if not steps:
            raise NotSupported("chain() needs at least one signature")
        self.steps = tuple(steps)

    def __or__(self, other: "Signature | Chain") -> "Chain":
        return chain(self, other)

    def __call__(self) -> AsyncResult[Any]:
        return self.apply_async()

    def delay(self) -> AsyncResult[Any]:
        return self.apply_async()

    def apply_async(self, **options: Any) -> AsyncResult[Any]:
        """Enqueue the chain; the result is that of the last task, as in Celery, and `parent` that of the one before."""
        first, *rest = self.steps
        job = first.set(**options).job().replace(chain=[step.follower(PARENT_RESULT) for step in rest])
        app = first.task.app
        result: AsyncResult[Any] = AsyncResult(app.enqueue(job.replace(id=new_id())))
        for _ in rest:
            result = AsyncResult(app.handle(follower_id(result.id, "chain")), parent=result)
        return result


def chain(*steps: Signature | Chain) -> Chain:
    """A chain of signatures, or of chains."""
    flat: list[Signature] = []
    for step in steps:
        flat += step.steps if isinstance(step, Chain) else (step,)
    return Chain(flat)


def group(*_: Any, **__: Any) -> NoReturn:
    raise NotSupported("group() has no counterpart here; write app.enqueue_many([task.job.build(...), ...])")


def chord(*_: Any, **__: Any) -> NoReturn:
    raise NotSupported(
        "chord() has no counterpart; let each job record in your database that it is done, and let the job that "
        "records the last one enqueue the next"
    )


def link_jobs(link: Signature | Sequence[Signature]) -> list[Job]:
    """The jobs of `link=`, which follow a success."""
    return [each.follower(PARENT_RESULT) for each in _signatures(link)]


def link_error_jobs(link: Signature | Sequence[Signature]) -> list[Job]:
    """The jobs of `link_error=`, which follow a failure; the text of the error is what they may take."""
    return [each.follower(PARENT_ERROR) for each in _signatures(link)]


def _signatures(link: Signature | Sequence[Signature]) -> Iterable[Signature]:
    found = (link,) if isinstance(link, Signature) else tuple(link)
    for each in found:
        if not isinstance(each, Signature):
            raise NotSupported(f"link and link_error take signatures, task.s(...) or task.si(...), got {each!r:.80}")
    return found
