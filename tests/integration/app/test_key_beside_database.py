"""The key file beside a SQLite database: refused where other users could replace it, missed loudly when it is lost."""

import logging

import pytest

from tenure import Tenure
from tenure.errors import UntrustedKeyFile
from tenure.wire.signing import new_key


def greet() -> None: ...


@pytest.fixture
def shared(tmp_path):
    """A folder that every user can write."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_in_a_folder_of_all_users_nothing_is_created(shared):
    with pytest.raises(UntrustedKeyFile, match=r"every user can write to '.*/shared'"):
        _ = Tenure(f"sqlite:///{shared}/jobs.db").backend

    assert names_in(shared) == []


def test_beside_a_key_file_that_others_can_read_no_database_is_created(tmp_path):
    (tmp_path / "jobs.db.key").write_text(new_key().dump())
    (tmp_path / "jobs.db.key").chmod(0o644)

    with pytest.raises(UntrustedKeyFile, match="other users can read it; run chmod 600"):
        _ = Tenure(f"sqlite:///{tmp_path}/jobs.db").backend

    assert names_in(tmp_path) == ["jobs.db.key"]


def test_a_key_that_another_user_put_there_is_not_believed(shared):
    """The attack: unlink the key of the database, and write one's own."""
    shared.chmod(0o700)
    with Tenure(f"sqlite:///{shared}/jobs.db") as app:
        app.backend.queues.counts()
    (shared / "jobs.db.key").unlink()
    (shared / "jobs.db.key").write_text(new_key("mine").dump())
    (shared / "jobs.db.key").chmod(0o600)
    shared.chmod(0o777)

    with pytest.raises(UntrustedKeyFile):
        _ = Tenure(f"sqlite:///{shared}/jobs.db").backend


def test_with_keys_in_the_settings_the_folder_does_not_matter(shared):
    with Tenure(f"sqlite:///{shared}/jobs.db", keys=[new_key().dump()]) as app:
        assert app.backend.queues.counts() == {}

    assert "jobs.db.key" not in names_in(shared)


@pytest.fixture
def app_of(tmp_path):
    def opened():
        app = Tenure(f"sqlite:///{tmp_path}/jobs.db")
        app.job(greet)
        return app

    return opened


def test_a_lost_key_file_is_told_once_and_loudly(tmp_path, app_of, caplog):
    with app_of() as app:
        app.define("greet", {}).dispatch()
        lost = app.open_backend().wire.ring.kid
    (tmp_path / "jobs.db.key").unlink()

    for _ in range(2):
        with app_of() as app:
            made = app.open_backend().wire.ring.kid

    (told,) = [each for each in caplog.records if "is missing" in each.getMessage()]
    assert told.levelno == logging.WARNING
    assert f"jobs.db.key' is missing, but its database has jobs: Tenure now signs with the new key '{made}'" in (
        told.getMessage()
    )
    assert made != lost


def test_the_first_key_of_a_database_is_made_without_a_word(app_of, caplog):
    with app_of() as app:
        app.define("greet", {}).dispatch()

    assert caplog.records == []
