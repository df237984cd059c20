"""The URL of Tenure for an entry of Django's DATABASES."""

import pytest

from tenure.errors import SettingsError
from tenure.integrations.django.database_url import url_of

SERVER = {"NAME": "shop", "USER": "ada", "PASSWORD": "", "HOST": "db.example", "PORT": ""}


@pytest.mark.parametrize(
    ("vendor", "given", "url"),
    [
        ("sqlite", {"NAME": "db.sqlite3"}, "sqlite:///db.sqlite3"),
        ("sqlite", {"NAME": "/srv/my shop/db.sqlite3"}, "sqlite:////srv/my%20shop/db.sqlite3"),
        ("postgresql", SERVER, "postgresql://ada@db.example/shop"),
        ("postgresql", {**SERVER, "PORT": 5433}, "postgresql://ada@db.example:5433/shop"),
        ("postgresql", {**SERVER, "PASSWORD": "a:b/c@d%"}, "postgresql://ada:a%3Ab%2Fc%40d%25@db.example/shop"),
        ("postgresql", {**SERVER, "HOST": "::1"}, "postgresql://ada@[::1]/shop"),
        (
            "postgresql",
            {**SERVER, "HOST": "/run/postgresql", "PORT": "5433"},
            "postgresql://ada@/shop?host=%2Frun%2Fpostgresql&port=5433",
        ),
        ("postgresql", {**SERVER, "USER": "", "HOST": ""}, "postgresql:///shop"),
        (
            "postgresql",
            {"NAME": "", "OPTIONS": {"service": "shop", "passfile": ".pgpass"}},
            "postgresql:///?service=shop&passfile=.pgpass",
        ),
        (
            "postgresql",
            {**SERVER, "OPTIONS": {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}},
            "postgresql://ada@db.example/shop?sslmode=verify-full&sslrootcert=%2Fca.pem",
        ),
        (
            "postgresql",
            {**SERVER, "OPTIONS": {"pool": {"min_size": 2}, "isolation_level": 3, "server_side_binding": True}},
            "postgresql://ada@db.example/shop",
        ),
        (
            "postgresql",
            {**SERVER, "OPTIONS": {"options": "-c search_path=shop", "assume_role": "owner"}},
            "postgresql://ada@db.example/shop?options=-c%20search_path%3Dshop%20-c%20role%3Downer",
        ),
        ("mysql", {**SERVER, "PORT": "3307"}, "mysql://ada@db.example:3307/shop"),
        ("mysql", {**SERVER, "HOST": "/run/mysqld.sock"}, "mysql://ada@/shop?socket=%2Frun%2Fmysqld.sock"),
        (
            "mysql",
            {**SERVER, "OPTIONS": {"charset": "utf8mb4", "ssl": {"ca": "/ca.pem"}}},
            "mysql://ada@db.example/shop?ssl_ca=%2Fca.pem",
        ),
    ],
)
def test_the_url_has_all_that_the_entry_says(vendor: str, given: dict[str, object], url: str) -> None:
    assert url_of("default", vendor, given) == url


@pytest.mark.parametrize(
    ("vendor", "given", "message"),
    [
        ("oracle", {"ENGINE": "django.db.backends.oracle"}, "'django.db.backends.oracle': it needs PostgreSQL"),
        ("sqlite", {"NAME": "file:db?mode=rwc"}, "give its NAME in DATABASES as a path"),
        (
            "mysql",
            {**SERVER, "OPTIONS": {"read_default_file": "my.cnf"}},
            "does not know the option 'read_default_file'",
        ),
        ("mysql", {**SERVER, "OPTIONS": {"ssl_mode": "REQUIRED"}}, "does not know the option 'ssl_mode'"),
    ],
)
def test_what_tenure_cannot_use_is_refused(vendor: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        url_of("default", vendor, given)


def test_a_password_is_decoded_to_itself_by_the_driver() -> None:
    from psycopg.conninfo import conninfo_to_dict

    url = url_of("default", "postgresql", {**SERVER, "PASSWORD": "p@ss w/ö:%?#&+"})
    assert conninfo_to_dict(url)["password"] == "p@ss w/ö:%?#&+"
