"""Redaction: secrets by name and by shape, and characters that would control a terminal or forge a line."""

import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.redaction import MASK, LogGuard, Redactor, default_redactor, one_line, printable

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----"

SECRETS = [
    "password=CANARY",
    "password: CANARY",
    'password="CANARY with spaces"',
    "{'password': 'CANARY'}",
    '{"user_password": "CANARY"}',
    '{\\"password\\": \\"CANARY\\"}',
    "PASSWORD=CANARY",
    "db_passwd = CANARY",
    "access_token=CANARY&x=1",
    "accessToken: CANARY",
    "client-secret=CANARY",
    "api_key=CANARY",
    "apiKey=CANARY",
    "X-Api-Key: CANARY",
    "AWS_SECRET_ACCESS_KEY=CANARY",
    "Authorization: Bearer CANARY",
    "Authorization: Basic CANARY",
    "Cookie: CANARY",
    "Bearer CANARYCANARY",
    "postgresql://user:CANARY@host/db",
    "redis://:CANARY@host",
    "redis://user:abc@CANARY@host",
    "redis://user:CANARY" + "x" * 5000 + "@host",
    "SharedAccessKey=CANARY/a+b==;Endpoint=sb://host/;SharedAccessKeyName=all",
    "amqp://CANARY@host",
    "sk_live_CANARYCANARY",
    "ghp_CANARYCANARYCANARYCANARY",
    "xoxb-CANARYCANARY-CANARY",
    "AKIACANARYCANARYCAN",
    "k1:CANARYECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
    JWT.replace("dozj", "CANARY"),
    PEM.replace("abc", "CANARY"),
    PEM.partition("-----END")[0].replace("abc", "CANARY"),
    "0123456789CANARY0123456789abcdef0123456789abcdef",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_in_a_text_is_masked(text):
    masked = default_redactor().text(f"it failed with {text}, sorry")

    assert "CANARY" not in masked
    assert masked.startswith("it failed with ")
    assert MASK in masked


@pytest.mark.parametrize(
    "text",
    [
        "no such file: /var/lib/shop/reports/2026-11-15.csv",
        "job 01a1df05-eb7b-712d-a9d3-8b30f55fd9f3 is dead",
        "job-01a1df05-eb7b-712d-a9d3-8b30f55fd9f3-again",
        "test_one_failing_listener_does_not_hide_the_others",
        "the token is not valid",
        "expected 3 tokens, got 5",
        "https://example.com/a/b?c=d",
        "user@example.com",
        "1" * 60,
        "-" * 80,
        "ValueError: invalid literal for int() with base 10: 'x'",
        "",
    ],
)
def test_a_harmless_text_stays_as_it_is(text):
    assert default_redactor().text(text) == text


def test_members_with_a_sensitive_name_are_masked_at_any_depth():
    payload = {"user": "Ada", "login": [{"Password": "x", "API-Key": 7, "note": None}], "token": {"a": 1}, "secret": ""}

    assert default_redactor().mask(payload) == {
        "user": "Ada",
        "login": [{"Password": MASK, "API-Key": MASK, "note": None}],
        "token": MASK,
        "secret": "",
    }


def test_masking_changes_nothing_that_was_given():
    payload = {"password": "x", "list": ["Bearer abcdefghijkl"]}

    default_redactor().mask(payload)

    assert payload == {"password": "x", "list": ["Bearer abcdefghijkl"]}


def test_the_names_can_be_set():
    redactor = Redactor(["iban", "date of birth"])

    assert redactor.mask({"IBAN": "x", "dateOfBirth": "y", "password": "z"}) == {
        "IBAN": MASK,
        "dateOfBirth": MASK,
        "password": "z",
    }
    assert redactor.text("iban=X1, password=z") == f"iban={MASK}, password=z"


def test_without_names_shapes_are_still_masked():
    assert Redactor([]).text(f"password=x {JWT}") == f"password=x {MASK}"


def test_a_structure_that_never_ends_is_cut():
    endless: list = []
    endless.append(endless)

    assert MASK in str(default_redactor().mask(endless))


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "password" * 30_000,
        "password=" * 30_000,
        "://" * 60_000,
        '"password":"' * 20_000,
        "-----BEGIN PRIVATE KEY-----" * 7_000,
        "eyJ" * 60_000,
        "Bearer " * 30_000,
        "a1-" * 60_000,
        "password" + "\\" * 200_000,
        "password='" + "\\" * 200_000,
    ],
    ids=lambda text: text[:12],
)
def test_masking_takes_time_in_proportion_to_the_text(text):
    begun = time.thread_time()

    default_redactor().text(text)

    assert time.thread_time() - begun < 2.0


FRAGMENTS = [
    *("eyJ-", "eyJ", "eyJaaaaa.", "Bearer ", "Bearer", "token", "token=", 'token:"', "token='\\", "api-", "api_key"),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-----END ", "sk-", "sk_live_", "ghp_", "AKIA"),
    *("://", "://a", "://a@", "@", '\\"', "'", "=", "A1", "_", "a:", " ", "\n"),
]


@pytest.mark.timing
@pytest.mark.parametrize("first", FRAGMENTS)
def test_a_text_of_four_times_the_length_takes_about_four_times_as_long(first):
    for second in FRAGMENTS:
        short, long = (masking_seconds((first + second) * count) for count in (400, 1600))
        assert long < 8 * short + 0.005, second


def masking_seconds(text):
    taken = []
    for _ in range(2):
        begun = time.thread_time()
        default_redactor().text(text)
        taken.append(time.thread_time() - begun)
    return min(taken)


@given(st.text())
def test_any_text_can_be_masked_and_printed(text):
    assert printable(default_redactor().text(text)).replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.parametrize(
    "text", ["\x1b[31mred", "\x9b31m", "bell\a", "back\b", "\u202egnp.exe", "zero\u200bwidth", "\x00", "\x7f"]
)
def test_characters_that_steer_a_terminal_are_written_out(text):
    assert printable(text).isprintable()


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_message_cannot_begin_a_second_line(end):
    assert len(one_line(f"first{end}CRITICAL: second").splitlines()) == 1


@pytest.fixture
def guarded(caplog):
    """A logger whose handler has a guard."""
    caplog.handler.addFilter(guard := LogGuard())
    yield logging.getLogger("guarded")
    caplog.handler.removeFilter(guard)


def test_a_guarded_handler_masks_messages_arguments_and_tracebacks(guarded, caplog):
    try:
        raise ValueError("password=CANARY\nCRITICAL: forged")
    except ValueError:
        guarded.exception("it failed: %s", "token=CANARY\nforged line")

    assert "CANARY" not in caplog.text
    assert caplog.messages == [f"it failed: token={MASK} forged line"]
    assert "ValueError: password=***" in caplog.text
