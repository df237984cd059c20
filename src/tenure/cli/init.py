"""`tenure init`: a settings file with what people change first, and an app to begin with; nothing is overwritten."""

from pathlib import Path

import click

from tenure.cli.failures import CommandError

_SETTINGS = """\
# Settings of Tenure; a line that begins with # shows a default. All of them: docs/reference/settings.md.
# The environment overrides them: TENURE_URL, TENURE_RETENTION__DONE, and TENURE_KEYS_FILE for what is secret.

app = "jobs:app"

# Where jobs wait: sqlite:///tenure.db, postgresql://host/name, mysql://host/name, redis://host
# url = "sqlite:///tenure.db"

# The queues that `tenure work` serves, the first one first.
# queues = ["default"]

# How often a job that failed is tried again, unless it says so itself, and how long one attempt may take.
# max_retries = 0
# default_timeout = 60.0

# How long running jobs may go on after a worker was told to stop.
# stop_grace = 30.0

# Days that ended jobs are kept; 0 keeps them for ever.
# [retention]
# done = 7.0
# dead = 30.0
"""
_APP = '''\
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
    """Write a commented settings file and an example of an app into a folder, this one unless given."""
    files = {folder / "tenure.toml": _SETTINGS, folder / "jobs.py": _APP}
    there = [str(path) for path in files if path.exists()]
    if there:
        raise CommandError(f"{' and '.join(there)} exist already, and nothing is overwritten; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, "utf-8")
        click.echo(f"wrote {path}")
    click.echo('next: tenure enqueue greet --payload \'{"name": "Ada"}\' and tenure work --burst')
