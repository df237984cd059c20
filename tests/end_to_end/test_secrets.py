"""The command line prints and logs no secret of a job, a setting or an error."""

import json

import pytest

CANARY = "CANARY-7f3a"

APP = f"""
import logging
import sys

from tenure import Tenure
from tenure.errors import Refused

app = Tenure(sensitive=["password", "token", "iban"])


class Charge:
    def handle(self, payload: dict) -> dict:
        print("charging", payload["iban"], file=sys.stderr) if payload.get("loud") else None
        raise ValueError(f"refused: password={{payload['password']}}\\nCRITICAL: forged \\x1b[31m line")


class Echo:
    def handle(self, payload: dict) -> dict:
        return payload


class Listener:
    def __call__(self, event):
        raise ValueError("listener saw token={CANARY}")


app.register("charge", Charge)
app.register("echo", Echo)
app.listen(Listener())
"""
PAYLOAD = json.dumps(
    {
        "password": CANARY,
        "nested": [{"iban": CANARY, "note": f"Authorization: Bearer {CANARY}xyz"}],
        "url": f"https://user:{CANARY}@host/",
        "safe": "plainly visible",
        "steer": "\x1b[2J\u202e\x9b",
    }
)


@pytest.fixture
def shop(tenure):
    (tenure.folder / "shop.py").write_text(APP)
    (tenure.folder / "tenure.toml").write_text(
        f'[shell]\nallow = ["/bin/true"]\n[shell.environment]\nAPI = "{CANARY}"\n[http]\nallow = ["*"]\n'
    )
    return tenure


def steers(text):
    return not text.replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.parametrize("handler", ["charge", "echo"])
def test_nothing_that_is_shown_of_a_job_holds_its_secrets(shop, handler):
    id = shop.enqueue(handler, "--payload", PAYLOAD)
    outputs = [
        shop("jobs", "show", id),
        shop("-vv", "work", "--burst"),
        shop("jobs", "show", id),
        shop("jobs", "show", id, "--json"),
        shop("dead", "list"),
        shop("dead", "list", "--json"),
        shop("dead", "show", id),
        shop("--debug", "dead", "show", id),
        shop("health"),
        shop("workers"),
    ]
    texts = [text for done in outputs for text in (done.stdout, done.stderr)]

    assert [text for text in texts if CANARY in text] == []
    assert [text for text in texts if steers(text)] == []
    assert "plainly visible" in outputs[0].stdout


def test_an_error_cannot_forge_a_line_of_the_log(shop):
    shop.enqueue("charge", "--payload", PAYLOAD)
    done = shop("work", "--burst")

    assert not any(line.startswith("CRITICAL: forged") for line in done.stderr.splitlines())
    assert "refused: password=***" in done.stderr


def test_debug_shows_tracebacks_without_secrets(shop):
    shop.enqueue("charge", "--payload", PAYLOAD)
    done = shop("--debug", "-vv", "work", "--burst", "--runner", "inline")

    assert CANARY not in done.stderr
    assert "Traceback" in done.stderr


def test_a_stored_payload_is_left_as_it_is(shop):
    id = shop.enqueue("echo", "--payload", PAYLOAD)
    script = (
        "from shop import app\nimport msgspec\n"
        f"body = app.backend.jobs.find({id!r}).body\nassert b'{CANARY}' in body\n"
        "assert msgspec.json.decode(body)['payload']['password'].startswith('CANARY')\n"
    )
    (shop.folder / "look.py").write_text(script)
    shop.python("look.py")


def test_settings_do_not_show_their_secrets(shop):
    script = f"from shop import app\nassert '{CANARY}' not in repr(app.settings), repr(app.settings)\n"
    (shop.folder / "look.py").write_text(script)
    shop.python("look.py")


def test_an_error_about_a_url_does_not_show_its_password(shop):
    done = shop("health", TENURE_URL=f"nosuch://user:{CANARY}@host/db")

    assert done.returncode == 2
    assert CANARY not in done.stderr
