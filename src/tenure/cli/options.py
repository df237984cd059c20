"""The options of `tenure work` as a value, and as the command line of another process."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import click
from click.core import ParameterSource

from tenure.worker.lane import RunnerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """What the person asked for; None where the settings decide."""

    queues: tuple[str, ...]
    lanes: tuple[str, ...]
    burst: bool
    once: bool
    most: int | None
    runner: RunnerKind | None
    concurrency: int | None
    with_cron: bool
    processes: int | None
    stop_grace: float | None
    recycle_after: int | None
    max_memory: float | None
    reload: bool
    detach: bool
    pid_file: str | None
    log_file: str | None
    metrics_port: int | None
    metrics_host: str
    metrics_folder: str | None
    quiet: bool

    @property
    def is_bounded(self) -> bool:
        """Whether the worker ends by itself; then it is neither restarted nor recycled."""
        return self.burst or self.once or self.most is not None

    @property
    def is_supervised(self) -> bool:
        return self.processes is not None or self.reload

    def settings(self) -> dict[str, float]:
        """The settings that were given as options."""
        names = ("stop_grace", "recycle_after", "max_memory")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def command_line(ctx: click.Context, leaving_out: Collection[str], more: Sequence[str] = ()) -> list[str]:
    """The arguments that this command was given, but for some options, and with some more."""
    return [*_given(ctx.find_root(), ()), "work", *_given(ctx, leaving_out), *more, "--", *ctx.params["queues"]]


def _given(ctx: click.Context, leaving_out: Collection[str]) -> Iterator[str]:
    for option in ctx.command.params:
        name = option.name or ""
        if not isinstance(option, click.Option) or name in leaving_out or name not in ctx.params:
            continue
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            word, value = option.opts[-1], ctx.params[name]
            if option.multiple:
                yield from (each for part in value for each in (word, str(part)))
            else:
                yield from [word] * int(value) if option.is_flag or option.count else [word, str(value)]
