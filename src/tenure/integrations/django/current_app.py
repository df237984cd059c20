"""The Tenure app of a Django project: built at its first use, and moved when Django's tests rename the database.

There is one app for a process, as there is one `django.conf.settings`. In a test it works on the test database of its
alias. Where there is none, and for a backend outside of the database, it works on TENURE["TEST_URL"], in memory by
default: a test never writes to a real backend.
"""

import threading
from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.db import connections
from django.utils.module_loading import autodiscover_modules
from msgspec import structs

from tenure.app.override import Placement
from tenure.app.tenure import Tenure
from tenure.integrations.django.configuration import IN_PROCESS, Configuration, configuration
from tenure.integrations.django.database_url import is_test
from tenure.integrations.django.job_connections import around, around_async
from tenure.integrations.django.tasks.discovery import load_tasks
from tenure.integrations.django.transactions import DjangoTransactions

_JOBS_MODULE = "jobs"
_WATCHED_SETTINGS = {"TENURE", "DATABASES", "SECRET_KEY", "SECRET_KEY_FALLBACKS"}


def get_app() -> Tenure:
    """The app of this project, with the jobs of the `jobs.py` modules of all installed apps."""
    app = project.app()
    project.discover()
    project.move()
    return app


def app_without_jobs() -> Tenure:
    """The app, also while `jobs.py` modules are being imported."""
    return project.app()


def current_configuration() -> Configuration:
    """What Django's settings say now."""
    return project.configuration()


class Project:
    """The app, what it was built from, and whether its jobs are known."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._app: Tenure | None = None
        self._configuration: Configuration | None = None
        self._seen: tuple[Any, ...] = ()
        self._names: dict[str, Any] = {}
        self._is_discovered = False
        self._is_discovering = False
        self._failure: Exception | None = None
        self._move: Callable[[], None] | None = None

    def app(self) -> Tenure:
        if self._app is not None:
            return self._app
        with self._lock:
            if self._app is None:
                found = self.configuration()
                app = Tenure(**found.arguments)
                app.middleware(around)
                app.middleware(around_async)
                app.join(DjangoTransactions(app, lambda: self.configuration().options))
                self._move = app.follow(self._placement)
                self._app = app
            return self._app

    def move(self) -> None:
        """Let the app work where Django's settings say now, so that its own settings can be read."""
        if self._move is not None:
            self._move()

    def discover(self) -> None:
        """Import the `jobs.py` modules, once all apps are ready; an error is raised again by every later call."""
        if self._is_discovered or not apps.ready:
            return
        with self._lock:  # other threads wait here until all modules are imported
            if self._failure is not None:
                raise self._failure
            if not self._is_discovering:
                self._import_jobs()

    def _import_jobs(self) -> None:
        self._is_discovering = True  # the modules may ask for the app
        try:
            autodiscover_modules(_JOBS_MODULE)
            load_tasks(self.app())
            self._is_discovered = True
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._is_discovering = False

    def configuration(self) -> Configuration:
        with self._lock:
            if self._configuration is None:
                self._configuration = configuration()
            return self._configuration

    def close(self) -> None:
        """Close what the app has opened, unless it lives in this process."""
        if self._app is not None and not self._app.settings.url.startswith(IN_PROCESS):
            self._app.close()

    def remember_names(self) -> None:
        """Note the names of the databases, before tests rename them."""
        for alias, database in _databases().items():
            self._names.setdefault(alias, database.get("NAME"))

    def has_test_database(self, alias: str) -> bool:
        """Whether Django's tests have made a database for this alias: its name has changed."""
        name = _databases()[alias]["NAME"]
        return alias in self._names and str(name) != str(self._names[alias])

    def setting_changed(self, setting: str, **_: Any) -> None:
        """For the signal of that name, which tests send."""
        if setting in _WATCHED_SETTINGS:
            with self._lock:
                self._configuration, self._seen = None, ()

    def _placement(self) -> Placement | None:
        seen = self._state()
        if seen == self._seen:
            return None
        with self._lock:
            self._configuration = None
            found, self._seen = self.configuration(), seen
        if not is_test() or found.settings.is_overridden:
            return Placement(found.settings)
        options = found.options
        if found.in_database and self.has_test_database(options.database):
            return Placement(_redirected(found, found.settings.url), is_test=True)
        return Placement(_redirected(found, options.test_url), is_test=True)

    def _state(self) -> tuple[Any, ...]:
        """What the place of the app depends on; it is compared at each enqueue."""
        if not self._seen:
            self._configuration = None
        database = _databases()[self.configuration().options.database]
        return is_test(), database["NAME"], database["HOST"], database["PORT"], database["USER"]


def _databases() -> dict[str, dict[str, Any]]:
    """The settings that all connections of an alias share, and that tests change in place."""
    found: Any = connections.settings
    return found  # type: ignore[no-any-return]


def _redirected(found: Configuration, url: str) -> Any:
    """The settings for a test: all named backends are its one backend, and there is no store beside it."""
    settings = found.settings
    return structs.replace(settings, url=url, backends=dict.fromkeys(settings.backends, url), store=None)


project = Project()
