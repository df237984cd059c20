"""Keys: their text form, which are refused, and that no message shows their secrets."""

import base64
import hashlib
import hmac
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import SettingsError, TenureError
from tenure.wire.envelope import Wire
from tenure.wire.signing import Key, Ring, new_key, parse_key

SECRET = bytes(range(32))
WRITTEN = base64.urlsafe_b64encode(SECRET).decode().rstrip("=")


def test_a_key_is_written_as_its_id_and_base64url():
    assert Key("k1", SECRET).dump() == f"k1:{WRITTEN}"


@pytest.mark.parametrize("text", [f"k1:{WRITTEN}", f"k1:{WRITTEN}=", f"  k1:{WRITTEN}\n"])
def test_a_written_key_is_read_with_or_without_padding(text):
    assert parse_key(text).dump() == f"k1:{WRITTEN}"


@given(st.binary(min_size=32, max_size=100).filter(lambda secret: len(set(secret)) >= 8))
def test_any_secret_is_read_as_it_was_written(secret):
    assert parse_key(Key("k1", secret).dump()).dump() == Key("k1", secret).dump()


def test_a_new_key_is_different_every_time():
    assert new_key().dump() != new_key().dump()


def test_a_new_key_may_be_named():
    assert new_key("2030-a").kid == "2030-a"


@given(st.binary(max_size=300) | st.integers(0, 10_000).map(bytes))
def test_the_seal_is_hmac_sha256_over_the_domain_and_the_bytes(data):
    derived = hmac.digest(SECRET, b"tenure envelope signing key", "sha256")

    expected = hmac.new(derived, b"tenure.envelope.v1\x00" + data, hashlib.sha256).hexdigest()

    assert Key("k1", SECRET).mac(data) == expected.encode()


class RecordedHash:
    """A hash that notes the length of each update."""

    def __init__(self):
        self.lengths = []

    def copy(self):
        return self

    def update(self, data):
        self.lengths.append(len(data))

    def digest(self):
        return b""


@pytest.mark.parametrize("length", [0, 1984, 1985, 2047, 2048, 10_000])
def test_a_message_of_any_length_is_hashed_without_releasing_the_interpreter_lock(monkeypatch, length):
    key, recorded = Key("k1", SECRET), RecordedHash()
    monkeypatch.setattr(key, "_inner", recorded)

    key.mac(bytes(length))

    assert sum(recorded.lengths) == length
    assert max(recorded.lengths) < 2048  # from there on hashlib releases it


@pytest.mark.parametrize("secret", [b"", b"short", SECRET[:31], bytes(32), b"ab" * 32, b"passwor" * 10])
def test_a_weak_secret_is_refused(secret):
    with pytest.raises(SettingsError, match="key 'k1' is too weak: it needs at least 32 random bytes"):
        Key("k1", secret)


@pytest.mark.parametrize("kid", ["", "a b", "a:b", "é", "a" * 41, 'a"', "a\n"])
def test_an_id_that_cannot_name_a_key_is_refused(kid):
    with pytest.raises(SettingsError, match="as the id of a key; use 1 to 40 letters, digits"):
        Key(kid, SECRET)


def test_a_key_without_an_id_is_refused():
    with pytest.raises(SettingsError, match="a key is written as kid:base64url; this one has no ':'"):
        parse_key(WRITTEN)


@pytest.mark.parametrize("secret", ["not base64!", "é" * 40, f"{WRITTEN}*", f"{WRITTEN[:-1]} x"])
def test_a_secret_that_is_not_base64url_is_refused(secret):
    with pytest.raises(SettingsError, match="the secret of key 'k1' is not base64url"):
        parse_key(f"k1:{secret}")


def test_an_empty_ring_is_refused_with_what_to_do():
    with pytest.raises(SettingsError, match="the key ring is empty; make a key and put it into the setting 'keys'"):
        Ring([])


def test_two_keys_of_one_id_are_refused():
    with pytest.raises(SettingsError, match="two keys of the ring are called 'k1'"):
        Ring([Key("k1", SECRET), Key("k1", bytes(range(1, 33)))])


@pytest.mark.parametrize("shown", [repr, str, "{}".format])
def test_a_key_is_shown_without_its_secret(shown):
    assert shown(Key("k1", SECRET)) == "Key('k1')"


@pytest.mark.parametrize("holder", [Ring([Key("k1", SECRET)]), Wire(Ring([Key("k1", SECRET)]))])
def test_what_holds_keys_is_shown_without_their_secrets(holder):
    assert WRITTEN not in repr(holder)
    assert repr(SECRET) not in repr(holder)


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        f"k1:{WRITTEN}*",
        f"{WRITTEN}:k1",
        f"{WRITTEN}:my key",
        f"k 1:{WRITTEN}",
        f"k1:{base64.urlsafe_b64encode(b'hunter2' * 5).decode()}",
    ],
)
def test_the_message_of_a_refused_key_never_holds_the_secret(text):
    with pytest.raises(TenureError) as caught:
        parse_key(text)

    told = "".join(traceback.format_exception_only(caught.value))
    assert WRITTEN[:10] not in told
    assert "hunter2" not in told
    assert caught.value.__cause__ is None
