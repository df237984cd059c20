"""The key file beside an embedded database is made once, atomically, and readable and replaceable by its owner only."""

import os
import stat
import subprocess
import sys

import pytest

from tenure.errors import SettingsError, UntrustedKeyFile
from tenure.wire.signing import load_or_create_key, new_key
from tests.support.waiting import WAIT_SECONDS

RACER = """
import sys, time
from pathlib import Path
from tenure.wire.signing import load_or_create_key
print("ready", flush=True)
sys.stdin.readline()
print(load_or_create_key(Path(sys.argv[1])).dump())
"""


@pytest.fixture
def key_file(tmp_path):
    """A file with a key, as Tenure makes it."""
    load_or_create_key(tmp_path / "app.key")
    return tmp_path / "app.key"


def test_a_missing_key_is_made(tmp_path):
    made = load_or_create_key(tmp_path / "app.key")

    assert load_or_create_key(tmp_path / "app.key").dump() == made.dump()


def test_a_key_file_is_readable_by_its_owner_alone(tmp_path):
    load_or_create_key(tmp_path / "app.key")

    assert stat.S_IMODE((tmp_path / "app.key").stat().st_mode) == 0o600


def test_nothing_is_left_beside_a_new_key_file(tmp_path):
    load_or_create_key(tmp_path / "app.key")

    assert [path.name for path in tmp_path.iterdir()] == ["app.key"]


def test_an_existing_key_is_used(tmp_path):
    key = new_key("mine")
    (tmp_path / "app.key").write_text(f"{key.dump()}\n")
    (tmp_path / "app.key").chmod(0o600)

    assert load_or_create_key(tmp_path / "app.key").dump() == key.dump()


@pytest.mark.parametrize("content", ["", "garbage", "k1:short"])
def test_a_damaged_key_file_is_refused_and_kept(tmp_path, content):
    (tmp_path / "app.key").write_text(content)
    (tmp_path / "app.key").chmod(0o600)

    with pytest.raises(SettingsError):
        load_or_create_key(tmp_path / "app.key")

    assert (tmp_path / "app.key").read_text() == content


def test_a_key_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "app.key").write_bytes(b"\xff\xfe")
    (tmp_path / "app.key").chmod(0o600)

    with pytest.raises(SettingsError, match=r"the key file '.*app\.key' cannot be used"):
        load_or_create_key(tmp_path / "app.key")


def test_a_folder_that_does_not_exist_is_told(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot be used: .*No such file or directory"):
        load_or_create_key(tmp_path / "nowhere" / "app.key")


def test_processes_that_race_get_the_same_key(tmp_path):
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path / "app.key")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for racer in racers:
        racer.stdout.readline()
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()

    keys = {racer.communicate(timeout=WAIT_SECONDS)[0] for racer in racers}

    assert len(keys) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666, 0o602])
def test_a_key_file_that_others_can_read_or_write_is_refused(key_file, mode):
    key_file.chmod(mode)

    with pytest.raises(UntrustedKeyFile, match=r"cannot be trusted: .*; run chmod .*app\.key, or set TENURE_KEYS"):
        load_or_create_key(key_file)


def test_a_key_file_that_is_a_link_is_refused(key_file, tmp_path):
    link = tmp_path / "link.key"
    link.symlink_to(key_file)

    with pytest.raises(UntrustedKeyFile, match="it is a symbolic link"):
        load_or_create_key(link)


def test_a_link_to_nothing_is_refused_and_nothing_is_made_at_its_end(tmp_path):
    (tmp_path / "app.key").symlink_to(tmp_path / "other")

    with pytest.raises(UntrustedKeyFile, match="it is a symbolic link"):
        load_or_create_key(tmp_path / "app.key")

    assert not (tmp_path / "other").exists()


def test_a_key_file_that_is_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "app.key", 0o600)

    with pytest.raises(UntrustedKeyFile, match="it is not a regular file"):
        load_or_create_key(tmp_path / "app.key")


@pytest.mark.parametrize("depth", [".", "deep/er"])
def test_a_folder_that_every_user_can_write_is_refused_before_a_key_is_made(tmp_path, depth):
    """Also far above the file: who can rename a folder can put another one in its place."""
    shared = tmp_path / "shared"
    (shared / depth).mkdir(parents=True)
    shared.chmod(0o777)

    with pytest.raises(UntrustedKeyFile, match=r"every user can write to '.*shared'; run chmod go-w .*shared, or"):
        load_or_create_key(shared / depth / "app.key")

    assert not (shared / depth / "app.key").exists()


def test_a_key_in_a_private_folder_below_a_sticky_one_is_used(tmp_path):
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)

    assert load_or_create_key(sticky / "app.key").dump() == load_or_create_key(sticky / "app.key").dump()
