"""The Django project of the tests, run by processes of its own: settings of Django are set once for each process."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parent / "django_project"


@dataclass(frozen=True)
class DjangoProject:
    """The project on a database, with this `TENURE`; it runs in a folder of its own."""

    database: str
    folder: Path
    tenure: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    interpreter: str = sys.executable

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "PROJECT_"))}
        own = {"PROJECT_DATABASE": self.database, "PROJECT_TENURE": json.dumps(self.tenure), "NO_COLOR": "1"}
        return {**kept, **own, **self.variables}

    def manage(self, *arguments: str, expect: int | None = 0) -> str:
        """Run manage.py; returns what it printed, on both streams."""
        return self._run([str(PROJECT / "manage.py"), *arguments], expect)

    def python(self, script: str) -> str:
        """Run a script in the project, after `django.setup()`; returns what it printed."""
        setup = "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'project.settings'; import django; django.setup()\n"
        return self._run(["-c", setup + script], 0)

    def _run(self, arguments: list[str], expect: int | None) -> str:
        environment = {**self.environment, "PYTHONPATH": str(PROJECT)} if arguments[0] == "-c" else self.environment
        done = subprocess.run(
            [self.interpreter, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert expect is None or done.returncode == expect, f"{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def mysql(url: str) -> str:
    return url.replace("mariadb://", "mysql://")
