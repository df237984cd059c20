"""An app with users of the dashboard, and a browser of sorts that opens it."""

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from tenure import Tenure
from tenure.web.passwords import hash_password, hash_token

OWN = "http://testserver"
PASSWORD = "correct horse"
TOKEN = "tnr_a-token-for-tests"
_CHEAP = 1024  # a password hash that takes a few milliseconds
USERS = {
    "users": {
        "olga": {"password": hash_password(PASSWORD, _CHEAP), "role": "operator"},
        "vera": {"password": hash_password(PASSWORD, _CHEAP), "role": "viewer", "queues": ["emails"]},
    },
    "tokens": {"ci": {"sha256": hash_token(TOKEN), "role": "operator", "actions": ["queue.pause"]}},
}


def make_app(folder: Path, **settings: Any) -> Tenure:
    """An app with three jobs in the queue emails."""
    app = Tenure(f"sqlite:///{folder}/jobs.db?synchronous=normal", **settings)

    @app.job(queue="emails")
    def send(user: int) -> None: ...

    app.enqueue_many(send.build(user=number) for number in range(3))
    return app


def browser_of(web: ASGIApp, **options: Any) -> TestClient:
    """Keeps cookies, follows no redirect, and says where its forms come from."""
    return TestClient(web, headers={"origin": OWN}, follow_redirects=False, **options)


def sign_in(browser: TestClient, user: str = "olga", password: str = PASSWORD, **fields: str) -> Any:
    return browser.post("/sign-in", data={"user": user, "password": password, **fields})
