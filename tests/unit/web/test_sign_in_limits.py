"""Wrong passwords, one-time links, and password hashes."""

import pytest

from tenure.errors import SettingsError
from tenure.web.one_time_links import LINK_SECONDS, OneTimeLinks
from tenure.web.passwords import check_hash, hash_password, hash_token, is_right, new_token
from tenure.web.sign_in_limits import SignInLimits


class Time:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def limits(time):
    return SignInLimits(time)


def attempts(limits, address, user, count):
    return [limits.attempt(address, user) for _ in range(count)]


def test_after_five_wrong_passwords_an_address_waits_a_minute_then_longer(limits, time):
    assert attempts(limits, "192.0.2.1", "a", 6) == [0, 0, 0, 0, 0, 60]
    time.now += 60
    assert attempts(limits, "192.0.2.1", "b", 6) == [0, 0, 0, 0, 0, 120]
    time.now += 119
    assert limits.attempt("192.0.2.1", "c") == 1


def test_a_user_waits_whatever_the_address(limits):
    assert [limits.attempt(f"192.0.2.{n}", "ops") for n in range(6)] == [0, 0, 0, 0, 0, 60]
    assert limits.attempt("192.0.2.99", "eve") == 0


def test_addresses_of_one_ipv6_network_count_as_one(limits):
    assert [limits.attempt(f"2001:db8::{n}", f"user {n}") for n in range(1, 7)] == [0, 0, 0, 0, 0, 60]
    assert limits.attempt("2001:db8:0:1::1", "user 9") == 0


def test_a_right_password_begins_anew(limits):
    attempts(limits, "192.0.2.1", "ops", 4)
    limits.succeeded("192.0.2.1", "ops")
    assert attempts(limits, "192.0.2.1", "ops", 5) == [0] * 5


def test_the_wait_grows_to_an_hour_and_no_further(limits, time):
    waits = []
    for _ in range(10):
        attempts(limits, "192.0.2.1", "ops", 5)
        waits.append(limits.attempt("192.0.2.1", "ops"))
        time.now += waits[-1]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600]


def test_strangers_cannot_fill_the_memory(limits):
    for n in range(12_000):
        limits.attempt(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", f"user {n}")
    assert len(limits._counts) == 10_000


def test_a_link_works_once_for_five_minutes(time):
    links = OneTimeLinks(time)
    first, second = links.new(), links.new()
    assert [links.use(first), links.use(first), links.use("guess")] == ["valid", "used", "unknown"]
    time.now += LINK_SECONDS
    assert links.use(second) == "expired"


def test_a_password_is_right_only_for_its_own_hash():
    written = hash_password("correct horse", cost=1024)
    assert is_right("correct horse", written)
    assert not is_right("Correct horse", written)
    assert not is_right("correct horse", None), "a user who does not exist"
    assert "correct" not in written
    assert hash_password("correct horse", cost=1024) != written, "every hash has a salt of its own"


@pytest.mark.parametrize("written", ["scrypt$", "scrypt$1$2$3$4$5", "scrypt$99999999$8$1$YWFhYQ$YWFhYQ", "plain text"])
def test_a_damaged_hash_is_told(written):
    with pytest.raises(SettingsError, match="'ops' is damaged"):
        check_hash("ops", written)


def test_a_token_is_long_and_kept_as_a_hash():
    token = new_token()
    assert len(token) > 40
    assert token != new_token()
    assert token not in hash_token(token)
