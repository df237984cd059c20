"""`tenure init`: write a settings file with the most used settings, and an example app; never overwrite a file."""

from pathlib import Path

import click

from tenure.cli.errors import CommandError

SETTINGS_TEMPLATE = """\
# Settings of Tenure; a line that begins with # shows a default. All settings: docs/reference/settings.md.
# Environment variables override them: TENURE_URL, TENURE_RETENTION__DONE, and TENURE_KEYS_FILE for the secret keys.

app = "jobs:app"

# Where jobs are stored: sqlite:///tenure.db, postgresql://host/name, mysql://host/name, redis://host
# url = "sqlite:///tenure.db"

# The queues that `tenure work` serves, in this order.
# queues = ["priority", "default"]

# How often a failed job is retried; a job can set its own number.
# max_retries = 0

# How many seconds one attempt may take. There is no limit unless you set one, here or in a job, such as:
# default_timeout = 60.0

# How many seconds running jobs may take to finish after a worker gets a signal to stop.
# stop_grace = 30.0

# How many days ended jobs are kept; 0 keeps them for ever.
# [retention]
# done = 7.0
# dead = 30.0
"""
_APP_TEMPLATE = '''\
"""Jobs: enqueue one with `tenure enqueue greet --payload '{"name": "Ada"}'`, run them with `tenure work`."""

from tenure import Tenure

app = Tenure()


@app.job(max_retries=3)
def greet(name: str) -> str:
    return f"hello {name}"
'''


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
def init(folder: Path) -> None:
    """Write a commented settings file and an example app into FOLDER, by default the current one."""
    files = {folder / "tenure.toml": SETTINGS_TEMPLATE, folder / "jobs.py": _APP_TEMPLATE}
    existing = [str(path) for path in files if path.exists()]
    if existing:
        raise CommandError(f"{' and '.join(existing)} already exist; nothing is overwritten, choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, "utf-8")
        click.echo(f"wrote {path}")
    click.echo('next: tenure enqueue greet --payload \'{"name": "Ada"}\' and tenure work --burst')
