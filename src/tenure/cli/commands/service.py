"""`tenure service`: configurations for systemd and supervisor, made for this app, folder and Python interpreter."""

import getpass
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from tenure.app.doctor.checks import STOP_MARGIN
from tenure.cli.app_loader import app_location
from tenure.settings import load

_SYSTEMD = """\
# /etc/systemd/system/{name}.service
[Unit]
Description=Tenure workers of {app}
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
User={user}
WorkingDirectory={folder}
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
# The worker asks for more time itself; this limit is for a hanging worker: stop_grace of {grace:g} s and a margin.
TimeoutStopSec={stop:g}
KillMode=mixed
WatchdogSec=30
Restart=always
RestartSec=2
# Put keys and URLs into a file that only root can read: TENURE_URL=..., TENURE_KEYS=...
EnvironmentFile=-/etc/{name}.env

NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={quoted_folder}
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
LockPersonality=yes
UMask=0077

[Install]
WantedBy=multi-user.target
"""
_SUPERVISOR = """\
; /etc/supervisor/conf.d/{name}.conf
[program:{name}]
command={command}
directory={folder}
user={user}
autostart=true
autorestart=true
startsecs=5
stopsignal=TERM
; The stop grace of {grace:g} s and a margin: a worker that is killed earlier has not settled its jobs.
stopwaitsecs={stop:.0f}
; Only the parent gets the stop signal; after stopwaitsecs it is killed with its children.
stopasgroup=false
killasgroup=true
umask=077
redirect_stderr=true
stdout_logfile=/var/log/{name}.log
"""


@click.group()
def service() -> None:
    """Print configurations for systemd and supervisor."""


def _options(command: click.decorators.FC) -> click.decorators.FC:
    for option in (
        click.argument("queues", nargs=-1, metavar="[QUEUE]..."),
        click.option("--name", default="tenure", show_default=True, help="The name of the service."),
        click.option("--user", help="The user that it runs as; by default you."),
        click.option(
            "--processes", type=click.IntRange(min=1), default=1, show_default=True, help="How many worker processes."
        ),
    ):
        command = option(command)
    return command


@service.command()
@_options
def systemd(queues: tuple[str, ...], name: str, user: str | None, processes: int) -> None:
    """Print a hardened unit for systemd, for workers of these queues, or else of those in the settings."""
    click.echo(
        _configuration(_SYSTEMD, name, user, ["--processes", str(processes), "--quiet", *queues], _systemd_word),
        nl=False,
    )


@service.command()
@_options
def supervisor(queues: tuple[str, ...], name: str, user: str | None, processes: int) -> None:
    """Print a program section for supervisor, for workers of these queues, or else of those in the settings."""
    words = ["--processes", str(processes), "--quiet", *queues]
    click.echo(_configuration(_SUPERVISOR, name, user, words, _supervisor_word), nl=False)


def _configuration(
    template: str, name: str, user: str | None, arguments: Sequence[str], quote: Callable[[str], str]
) -> str:
    settings = load(environment=os.environ)
    app, user, folder = app_location() or "module:app", user or getpass.getuser(), str(Path.cwd())
    start = _start(app)
    _check("name", name, _NAME, "letters, digits, '_', '.', ':', '@' and '-'")
    _check("user", user, _NAME, "letters, digits, '_', '.', ':', '@' and '-'")
    places = [("folder", folder), *(("path of the command", word) for word in start), ("location of the app", app)]
    for what, text in (*places, *(("queue", queue) for queue in arguments)):
        _check(what, text, _PLAIN, "no quote, '$', ';', backslash or control character")
    words = [*start, "work", *arguments]
    return template.format(
        name=name,
        app=_literal(app),
        user=user,
        folder=_literal(folder),
        quoted_folder=quote(folder),
        command=" ".join(map(quote, words)),
        grace=settings.stop_grace,
        stop=settings.stop_grace + STOP_MARGIN,
    )


def _start(app: str) -> list[str]:
    """The words before the command: those that a framework gave to its command line, or else `tenure`."""
    given = click.get_current_context().find_root().obj
    return given if isinstance(given, list) else [str(Path(sys.executable).with_name("tenure")), "--app", app]


_NAME = re.compile(r"[A-Za-z0-9_.:@-]+")
_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f\"'\\$;\u2028\u2029]+")


def _check(what: str, text: str, allowed: re.Pattern[str], rule: str) -> None:
    """Refuse what could end a line or a word: the file is read by a program that runs as root."""
    if not allowed.fullmatch(text):
        raise click.UsageError(f"the {what} {text!r:.200} cannot be written into this file; use {rule}")


def _literal(text: str) -> str:
    """Both programs replace what follows a single percent sign."""
    return text.replace("%", "%%")


def _systemd_word(text: str) -> str:
    return f'"{_literal(text)}"' if " " in text else _literal(text)


def _supervisor_word(text: str) -> str:
    return _literal(shlex.quote(text))
