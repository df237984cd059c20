"""The settings page: values, origins, and no secrets."""

import pytest

from tenure import Tenure
from tenure.app.dashboard.access import Access, everything
from tenure.app.dashboard.settings_page import SettingsQuery
from tenure.errors import AccessDenied
from tenure.wire.signing import new_key

ADMIN = everything("ada")
SECRETS = ("hunter2", "T00/B00/XXXX", "s3cret-value", "pa55")


@pytest.fixture
def app(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tenure.toml").write_text("stop_grace = 45\n[retention]\ndone = 3\n")
    monkeypatch.setenv("TENURE_RETENTION__DEAD", "90")
    monkeypatch.setenv("TENURE_MAIL", '{"host": "smtp.example.com", "user": "bot", "password": "hunter2"}')
    monkeypatch.setenv("TENURE_STORE", "redis://user:pa55@cache.example.com/0")
    with Tenure(
        "memory://",
        keys=[new_key("first").dump()],
        aliases={"post": "emails"},
        lanes={"mail": {"queues": ["emails"], "runner": "threads"}},
        shell={"environment": {"API": "s3cret-value"}},
        notifications={"ops": {"webhook": "https://hooks.example.com/services/T00/B00/XXXX"}},
    ) as app:
        yield app


def rows(model):
    return {row.name: row for group in model.groups for row in group.rows}


def test_every_setting_says_where_it_came_from(app, view):
    found = rows(view(app).read(SettingsQuery(), ADMIN))

    assert (found["stop_grace"].value, found["stop_grace"].origin) == ("45.0", "tenure.toml")
    assert (found["retention.done"].value, found["retention.done"].origin) == ("3.0", "tenure.toml")
    assert (found["retention.dead"].value, found["retention.dead"].origin) == ("90.0", "TENURE_RETENTION__DEAD")
    assert (found["lanes.mail.runner"].value, found["lanes.mail.runner"].origin) == ("threads", "arguments")
    assert (found["aliases.post"].value, found["aliases.post"].origin) == ("emails", "arguments")
    assert (found["mail.host"].origin, found["lease"].origin) == ("TENURE_MAIL", "default")


def test_no_secret_is_shown(app, view):
    model = view(app).read(SettingsQuery(), ADMIN)
    found = rows(model)
    text = repr(model)

    assert [secret for secret in SECRETS if secret in text] == []
    assert app.settings.keys[0].partition(":")[2] not in text
    assert found["keys"].value == "first:***"
    assert found["store"].value == "redis://cache.example.com/0"
    assert all(
        found[name].is_masked for name in ("mail.password", "notifications.ops.webhook", "shell.environment.API")
    )


def test_only_changed_settings_are_shown_when_asked(app, view):
    model = view(app).read(SettingsQuery(changed=True), ADMIN)

    assert all(not row.is_default for row in rows(model).values())
    assert len(rows(model)) == model.changed < model.total


@pytest.mark.parametrize("access", [Access(user="eve", role="operator"), Access(user="m", role="admin", queues=("a",))])
def test_only_admins_of_all_queues_read_the_settings(app, view, access):
    with pytest.raises(AccessDenied):
        view(app).read(SettingsQuery(), access)
