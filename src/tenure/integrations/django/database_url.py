"""The URL of Tenure for a database of Django: PostgreSQL, MySQL, MariaDB and SQLite.

Options that concern only Django's own connections are left out. Options that Tenure cannot honour, and that would
weaken a connection if they were left out, are refused.
"""

import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from django.db import connections

from tenure.backends.url import sqlite_file
from tenure.errors import SettingsError

IN_MEMORY = "memory://"
VENDORS = ("sqlite", "postgresql", "mysql")
_PORTS = {"postgresql": 5432, "mysql": 3306}
# Of django.db.backends.postgresql, and of the cursors and prepared statements of psycopg; all others are libpq's.
_ONLY_DJANGO = {
    "postgresql": {"assume_role", "isolation_level", "pool", "server_side_binding", "cursor_factory", "client_encoding",
                   "prepare_threshold", "row_factory", "context", "autocommit"},
    "mysql": {"charset", "init_command", "sql_mode", "isolation_level", "conv", "use_unicode", "autocommit",
              "connect_timeout", "read_timeout", "write_timeout", "local_infile", "collation"},
}  # fmt: skip
_SSL_FILES = {"ca": "ssl_ca", "cert": "ssl_cert", "key": "ssl_key"}


def database_url(alias: str) -> str:
    """The URL for the database of an alias as its settings are now, also while Django's tests have renamed it."""
    connection = connections[alias]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        return IN_MEMORY
    url = url_of(alias, connection.vendor, connection.settings_dict)
    # Django copies the file of a test database, and deletes it, without its write-ahead log.
    return f"{url}?journal=keep" if connection.vendor == "sqlite" and is_test() else url


def url_of(alias: str, vendor: str, given: Mapping[str, Any]) -> str:
    """The URL for one entry of DATABASES; `vendor` is what its engine calls itself."""
    if vendor == "sqlite":
        return _sqlite_url(str(given["NAME"]))
    if vendor == "postgresql":
        return _server_url(given, vendor, _postgresql_options(given))
    if vendor == "mysql":
        return _server_url(given, vendor, _mysql_options(alias, given))
    raise SettingsError(
        f"Tenure cannot keep jobs in the database {alias!r}, whose engine is {given['ENGINE']!r}: it needs PostgreSQL, "
        "MySQL, MariaDB or SQLite; name another database in TENURE['DATABASE'], or another backend in TENURE['url'], "
        "such as redis://localhost"
    )


def is_test() -> bool:
    """Whether Django's test environment is set up: what `setup_test_environment` has saved says so, and nothing else.

    An outbox of `django.core.mail` is no sign: the e-mail backend `locmem` makes one outside of tests too.
    """
    return hasattr(getattr(sys.modules.get("django.test.utils"), "_TestState", None), "saved_data")


def is_same_database(url: str, alias: str) -> bool:
    """Whether a URL names the database of an alias, also if it is spelled otherwise."""
    if connections[alias].vendor not in VENDORS:
        return False
    own = database_url(alias)
    return url == own or (_identity(url) is not None and _identity(url) == _identity(own))


def _identity(url: str) -> tuple[Any, ...] | None:
    parts = urlsplit(url)
    kind = {"postgres": "postgresql", "mariadb": "mysql"}.get(parts.scheme, parts.scheme)
    if kind == "sqlite":
        return kind, str(sqlite_file(parts).resolve())
    if kind not in _PORTS:
        return None
    host = (parts.hostname or "localhost").replace("127.0.0.1", "localhost")
    sockets = sorted(part for part in parts.query.split("&") if part.startswith(("host=", "socket=", "service=")))
    return kind, host, parts.port or _PORTS[kind], parts.path.strip("/"), tuple(sockets)


def _sqlite_url(name: str) -> str:
    if name.startswith("file:"):
        raise SettingsError(
            f"Tenure cannot open the SQLite database {name!r}: give its NAME in DATABASES as a path, "
            "or name the file in TENURE['url'], as sqlite:////folder/file.sqlite3"
        )
    return f"sqlite:///{quote(name)}"


def _server_url(given: Mapping[str, Any], scheme: str, options: Mapping[str, Any]) -> str:
    host, user, password = (str(given.get(key) or "") for key in ("HOST", "USER", "PASSWORD"))
    port, query = str(given.get("PORT") or ""), dict(options)
    if host.startswith("/"):  # the folder or the file of a socket
        query["host" if scheme == "postgresql" else "socket"] = host
        if scheme == "postgresql" and port:
            query["port"] = port
        host = port = ""
    login = f"{quote(user, safe='')}{':' if password else ''}{quote(password, safe='')}"
    shown = f"[{host}]" if ":" in host else host
    place = f"{login}{'@' if login else ''}{shown}{f':{port}' if port else ''}"
    name = quote(str(given.get("NAME") or ""), safe="")
    return f"{scheme}://{place}/{name}{'?' if query else ''}{urlencode(query, quote_via=quote)}"


def _postgresql_options(given: Mapping[str, Any]) -> dict[str, str]:
    options = given.get("OPTIONS") or {}
    found = {name: str(value) for name, value in options.items() if name not in _ONLY_DJANGO["postgresql"]}
    if role := options.get("assume_role"):
        found["options"] = f"{found.get('options', '')} -c role={role}".strip()
    return found


def _mysql_options(alias: str, given: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in (given.get("OPTIONS") or {}).items():
        if name == "unix_socket":
            found["socket"] = str(value)
        elif name == "ssl" and isinstance(value, Mapping) and not value.keys() - _SSL_FILES.keys():
            found |= {_SSL_FILES[key]: str(path) for key, path in value.items()}
        elif name not in _ONLY_DJANGO["mysql"]:
            raise SettingsError(
                f"Tenure does not know the option {name!r} in DATABASES[{alias!r}]['OPTIONS']; name the database in "
                "TENURE['url'], as mysql://user:password@host/database?ssl_ca=file"
            )
    return found
