"""The `shell` handler: runs a program from an allowlist of paths, by its argv and never through a shell."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tenure.builtin import launcher
from tenure.builtin.authorisation import CheckedShape, check_arguments, check_texts
from tenure.builtin.program import program_limits, run_program
from tenure.definition.context import Context
from tenure.definition.handler import Handler
from tenure.definition.payload import Shape
from tenure.errors import Refused
from tenure.permissions import MEGABYTE, Shell
from tenure.trusted_files import path_fault

_LAUNCHER = [sys.executable, "-I", "-S", "-B", launcher.__file__]


def shell_handler(permitted: Shell) -> Handler:
    """Payload: the argv as a list of texts; result: what the program wrote to stdout."""

    def call(context: Context, argv: list[str]) -> str:
        entry = authorise(permitted, argv)
        executable = _executable(entry)
        from tempfile import TemporaryDirectory  # most apps run no programs

        with TemporaryDirectory(prefix="tenure-shell-") as folder:
            result = run_program(
                repr(entry),
                [*_LAUNCHER, _limits(permitted), executable, entry, *argv[1:]],
                program_limits(context, permitted.timeout, permitted.max_output),
                environment=_environment(permitted, folder),
                folder=folder,
                umask=0o077,
            )
        result.check(repr(entry))
        return result.out.text()

    shape = CheckedShape(Shape(list[str]), lambda argv: authorise(permitted, argv))
    return Handler(key="shell", shape=shape, call=call, is_async=False)


def authorise(permitted: Shell, argv: Sequence[str]) -> str:
    """The entry of the allowlist for this argv; argv[0] of the program is this entry, not the text in the message."""
    if not argv or not argv[0].startswith("/"):
        raise Refused("a shell job needs a list that begins with an absolute path; nothing is looked up on PATH")
    check_texts(repr(argv[0]), argv)
    if not permitted.allow:
        if permitted.allow_all:
            return argv[0]
        raise Refused(
            f"{argv[0]!r:.200} may not run: no program is allowed; name those that are in the setting 'shell.allow', "
            'such as allow = ["/usr/bin/convert"] in the table [tool.tenure.shell]'
        )
    entry = _entry(permitted, argv[0])
    if entry in permitted.arguments:
        check_arguments(repr(entry), argv[1:], permitted.arguments[entry])
    return entry


def _entry(permitted: Shell, path: str) -> str:
    """The entry with exactly this path, or else the only one with the same real file.

    Entries that share a file are different programs, with rules of their own: busybox acts by the name it is given.
    """
    if path in permitted.allow:
        return path
    real = os.path.realpath(path)
    same = [entry for entry in dict.fromkeys(permitted.allow) if os.path.realpath(entry) == real]
    if not same:
        raise Refused(f"{path!r:.200} may not run: the setting 'shell.allow' does not name it")
    if len(same) > 1:
        raise Refused(f"{path!r:.200} may not run: it is the file of {' and '.join(map(repr, same))}; name one of them")
    return same[0]


def _executable(entry: str) -> str:
    """The file of an entry; refused if users other than its owner can change it, or put another in its place."""
    try:
        fault = path_fault(Path(entry), any_owner=True)
    except OSError as error:
        raise FileNotFoundError(f"{entry!r} is not on this machine: {error.strerror}") from error
    if fault:
        raise Refused(f"{entry!r} may not run, because others could replace it: {fault}")
    return os.path.realpath(entry)


def _environment(permitted: Shell, folder: str) -> dict[str, str]:
    """A few safe variables and those from the settings; not the worker's environment, which may hold secrets."""
    clean = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": folder, "TMPDIR": folder}
    return clean | permitted.environment


def _limits(permitted: Shell) -> str:
    limits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": permitted.cpu_seconds,
        "RLIMIT_FSIZE": permitted.file_size * MEGABYTE,
        "RLIMIT_NOFILE": permitted.open_files,
        "RLIMIT_NPROC": permitted.processes,
        "RLIMIT_AS": None if permitted.memory is None else permitted.memory * MEGABYTE,
    }
    return " ".join(f"{name}={value}" for name, value in limits.items() if value is not None)
