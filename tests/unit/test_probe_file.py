"""The probe file: what a process writes about itself, and what the probe makes of it."""

import time

import pytest

from tenure.errors import SettingsError
from tenure.supervisor.probe_file import MAX_AGE, ProbeFile, StateNotifier, find_fault


@pytest.fixture
def path(tmp_path):
    return tmp_path / "probe"


def faults(path, later=0.0):
    return {level: find_fault(path, level, time.monotonic() + later) for level in ("live", "ready")}


def test_without_a_file_nothing_is_alive(path):
    assert "no file" in faults(path)["live"]


def test_a_process_that_starts_is_alive_and_not_ready(path):
    ProbeFile(path)
    assert faults(path) == {"live": None, "ready": "the process is not ready: starting"}


def test_a_process_that_waits_for_its_backend_is_alive_and_not_ready(path):
    ProbeFile(path).notify(STATUS="waiting for the backend: refused", EXTEND_TIMEOUT_USEC=1)
    assert faults(path) == {
        "live": None,
        "ready": "the process is not ready: starting, waiting for the backend: refused",
    }


def test_a_process_that_works_is_ready_and_one_that_stops_is_not(path):
    file = ProbeFile(path)
    file.notify(READY=1, STATUS="3 done")
    assert faults(path) == {"live": None, "ready": None}

    file.notify(STOPPING=1)
    assert faults(path) == {"live": None, "ready": "the process is not ready: stopping, 3 done"}


def test_a_reload_ends_ready(path):
    file = ProbeFile(path)
    file.notify(RELOADING=1, MONOTONIC_USEC=1)
    assert faults(path)["ready"] is not None

    file.notify(READY=1)
    assert faults(path)["ready"] is None


def test_a_process_without_progress_is_not_alive_although_it_still_reports_its_counts(path, monkeypatch):
    file = ProbeFile(path)
    file.notify(READY=1)
    long_ago = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: long_ago + MAX_AGE + 5)
    file.notify(STATUS="3 done")

    assert find_fault(path, "live", long_ago + MAX_AGE + 5) == (
        "the process has made no progress for 65 s (last state: ready, 3 done)"
    )
    file.notify(WATCHDOG=1)
    assert find_fault(path, "live", long_ago + MAX_AGE + 5) is None


def test_a_file_from_before_the_machine_started_again_proves_nothing(path):
    ProbeFile(path)
    assert "no progress" in faults(path, later=-100.0)["live"]


def test_a_file_that_is_not_ours_is_no_proof(path):
    path.write_text("ready")
    assert "cannot be read" in faults(path)["live"]


def test_a_probe_file_that_cannot_be_written_refuses_the_start(tmp_path):
    with pytest.raises(SettingsError, match="cannot be written: No such file or directory; name a file"):
        ProbeFile(tmp_path / "missing" / "probe")


def test_a_write_that_fails_later_is_logged_once_and_does_not_end_the_process(tmp_path, caplog):
    folder = tmp_path / "folder"
    folder.mkdir()
    file = ProbeFile(folder / "probe")
    (folder / "probe").unlink()
    folder.rmdir()

    file.notify(WATCHDOG=1)
    file.notify(WATCHDOG=1)

    assert [record.message for record in caplog.records] == [
        f"the probe file {str(folder / 'probe')!r} cannot be written: No such file or directory"
    ]


def test_a_link_at_the_path_is_replaced_and_its_target_stays(path, tmp_path):
    target = tmp_path / "target"
    target.write_text("mine")
    path.symlink_to(target)

    ProbeFile(path)

    assert target.read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["probe", "target"]


def test_without_a_path_and_without_systemd_nothing_is_reported(tmp_path):
    notifier = StateNotifier({}, None)
    notifier.notify(READY=1)
    notifier.report_progress()
    assert not notifier
    assert notifier.watchdog is None


def test_with_a_path_progress_is_expected_as_often_as_the_strictest_asks(path):
    assert StateNotifier({}, str(path)).watchdog == 30.0
    systemd = {"NOTIFY_SOCKET": "@nowhere", "WATCHDOG_USEC": "10000000"}
    assert StateNotifier(systemd, str(path)).watchdog == 10.0
