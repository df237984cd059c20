"""`tenure service`: configurations for systemd and supervisor, made for this app, folder and Python interpreter."""

import getpass
import os
import sys
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
ReadWritePaths={folder}
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
def systemd(name: str, user: str | None, processes: int) -> None:
    """Print a hardened unit for systemd."""
    click.echo(_configuration(_SYSTEMD, name, user, processes), nl=False)


@service.command()
@_options
def supervisor(name: str, user: str | None, processes: int) -> None:
    """Print a program section for supervisor."""
    click.echo(_configuration(_SUPERVISOR, name, user, processes), nl=False)


def _configuration(template: str, name: str, user: str | None, processes: int) -> str:
    settings = load(environment=os.environ)
    app = app_location() or "module:app"
    tenure = Path(sys.executable).with_name("tenure")
    return template.format(
        name=name,
        app=app,
        user=user or getpass.getuser(),
        folder=Path.cwd(),
        command=f"{tenure} --app {app} work --processes {processes} --quiet",
        grace=settings.stop_grace,
        stop=settings.stop_grace + STOP_MARGIN,
    )
