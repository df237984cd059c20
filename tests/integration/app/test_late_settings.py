"""`app.configure`: settings that come after the app was made."""

import sqlite3
from pathlib import Path

import pytest

from tenure import Tenure
from tenure.app.outbox import create_table
from tenure.errors import SettingsError


def test_an_app_works_on_the_url_that_it_gets_later(tmp_path: Path) -> None:
    with Tenure(f"sqlite:///{tmp_path}/first.db") as app:
        ping = app.job(ping_once)
        ping.enqueue()

        app.configure(url=f"sqlite:///{tmp_path}/second.db")
        ping.enqueue()

        assert app.settings.url == f"sqlite:///{tmp_path}/second.db"
        assert app.jobs.counts()["default"]["ready"] == 1
        assert (tmp_path / "first.db").exists()


def test_the_outboxes_may_be_named_later(tmp_path: Path) -> None:
    with Tenure(f"sqlite:///{tmp_path}/jobs.db") as app, sqlite3.connect(tmp_path / "shop.db") as shop:
        ping = app.job(ping_once)
        create_table(shop)
        app.outbox(shop).enqueue(ping.build())
        shop.commit()

        app.configure(outboxes=[f"sqlite:///{tmp_path}/shop.db"])

        assert app.outboxes.move().relayed == 1
        assert app.jobs.counts()["default"]["ready"] == 1
    shop.close()


def test_a_setting_that_has_shaped_handlers_is_refused(tmp_path: Path) -> None:
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")

    with pytest.raises(SettingsError, match=r"'max_retries' is read when the app is made.*give it to Tenure"):
        app.configure(max_retries=3)


def test_an_unknown_setting_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")

    with pytest.raises(SettingsError, match="there is no setting 'backend'; did you mean 'backends'"):
        app.configure(backend={})


def test_an_override_goes_before_the_settings_that_come_later(tmp_path: Path) -> None:
    with Tenure(f"sqlite:///{tmp_path}/jobs.db") as app, app.override(url="memory://"):
        app.configure(url=f"sqlite:///{tmp_path}/other.db")

        assert app.settings.url == "memory://"
        assert not (tmp_path / "other.db").exists()


def ping_once() -> None: ...
