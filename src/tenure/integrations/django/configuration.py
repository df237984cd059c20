"""What `settings.TENURE` says, and what follows from the other settings of Django: the URL and the signing keys.

Names in lower case are settings of Tenure. Names in upper case are about Django. The order of Tenure holds: files,
then TENURE_* variables, then `settings.TENURE`; the URL and keys from Django are used where none of these says it.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from django.conf import settings as django_settings

from tenure.errors import SettingsError
from tenure.integrations.django.database_url import IN_MEMORY, database_url, is_same_database
from tenure.settings import Settings, load_with_origins
from tenure.settings.environment import COMMAND_URL
from tenure.suggestions import nearest

Deferral = Literal["outbox", "on_commit", "never"]
DEFERRALS: tuple[Deferral, ...] = get_args(Deferral)
IN_PROCESS = ("memory:", "sync:")  # they serve tests and development: an enqueue there waits for nothing
_DOMAIN = b"tenure.integrations.django signing key v1"
_FIELDS = {"DATABASE": "database", "DEFER": "defer", "TEST_URL": "test_url"}


@dataclass(frozen=True, slots=True)
class DjangoOptions:
    """The names in upper case."""

    database: str = "default"
    defer: Deferral = "outbox"
    test_url: str = IN_MEMORY

    def __post_init__(self) -> None:
        if self.database not in django_settings.DATABASES:
            known = ", ".join(django_settings.DATABASES)
            raise SettingsError(f"TENURE['DATABASE'] names {self.database!r}, which DATABASES does not have: {known}")
        if self.defer not in DEFERRALS:
            raise SettingsError(f"TENURE['DEFER'] must be one of {', '.join(DEFERRALS)}, not {self.defer!r}")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The arguments of the app.

    `in_database` means that its URL follows from DATABASES, `derives_keys` that its keys follow from SECRET_KEY.
    `own_url` is the URL without the option `--url` of a command.
    """

    options: DjangoOptions
    arguments: dict[str, Any]
    in_database: bool
    derives_keys: bool
    settings: Settings
    own_url: str

    @property
    def uses_database(self) -> bool:
        """Whether jobs are kept in the database of the alias."""
        urls = (self.settings.url, self.settings.store or "", *self.settings.backends.values())
        return self.in_database or any(is_same_database(url, self.options.database) for url in urls)

    @property
    def uses_outbox(self) -> bool:
        """Whether jobs for other backends wait in the outbox of the database of the alias."""
        urls = {self.settings.url, *self.settings.backends.values()}
        elsewhere = [url for url in urls if not is_same_database(url, self.options.database)]
        return self.options.defer == "outbox" and any(not url.startswith(IN_PROCESS) for url in elsewhere)

    @property
    def moves_outbox(self) -> bool:
        """Whether a worker may move the jobs of the outbox: those without a name of a backend go to its own URL."""
        own = self.settings.url == self.own_url or is_same_database(self.own_url, self.options.database)
        return self.uses_outbox and own


def configuration() -> Configuration:
    """Read Django's settings; raises SettingsError for a name that no setting has, and for a wrong value."""
    given = getattr(django_settings, "TENURE", {})
    if not isinstance(given, Mapping):
        raise SettingsError(f"TENURE must be a dict of settings, not {type(given).__name__}")
    options = django_options(given)
    arguments = {name: value for name, value in given.items() if name not in _FIELDS}
    _check_names(arguments)
    loaded = load_with_origins(arguments, os.environ)
    in_database = "url" not in loaded.origins
    if in_database:
        arguments["url"] = database_url(options.database)
    derives_keys = "keys" not in loaded.origins
    if derives_keys:
        arguments["keys"] = derived_keys()
    settings = _loaded(arguments)
    own_url = _own_url(arguments, options.database) if COMMAND_URL in os.environ else settings.url
    found = Configuration(options, arguments, in_database, derives_keys, settings, own_url)
    if not found.uses_outbox or "outboxes" in loaded.origins:
        return found
    arguments["outboxes"] = (database_url(options.database),)
    return replace(found, settings=_loaded(arguments))


def _loaded(arguments: Mapping[str, Any]) -> Settings:
    return load_with_origins(arguments, os.environ).settings


def _own_url(arguments: Mapping[str, Any], alias: str) -> str:
    without_option = {name: value for name, value in os.environ.items() if name != COMMAND_URL}
    loaded = load_with_origins(arguments, without_option)
    if "url" not in loaded.origins:
        loaded = load_with_origins({**arguments, "url": database_url(alias)}, without_option)
    return loaded.settings.url


def django_options(given: Mapping[str, Any]) -> DjangoOptions:
    return DjangoOptions(**{field: given[name] for name, field in _FIELDS.items() if name in given})


def derived_keys() -> tuple[str, ...]:
    """A signing key from SECRET_KEY, and one from each of SECRET_KEY_FALLBACKS, which only verify."""
    secrets = [django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS]
    found = [_derived_key(each.encode() if isinstance(each, str) else each) for each in secrets if each]
    return tuple(dict.fromkeys(found))


def _derived_key(secret: bytes) -> str:
    """The id is derived too, so that processes with the keys in another order still agree on it."""
    key = hmac.digest(secret, _DOMAIN, "sha256")
    kid = hashlib.sha256(b"id of " + key).hexdigest()[:12]
    return f"django-{kid}:{base64.urlsafe_b64encode(key).decode().rstrip('=')}"


def _check_names(arguments: Mapping[str, Any]) -> None:
    known = [*Settings.__struct_fields__, *_FIELDS]
    for name in arguments:
        if name not in known:
            guess = nearest(str(name), [each for each in known if each != name])
            advice = f"did you mean {guess!r}?" if guess else "see the settings reference for what exists"
            raise SettingsError(f"TENURE has the unknown setting {name!r}; {advice}")
