"""A file is trusted if only root and the user of this process can change or replace it."""

import grp
import os
import pwd
import stat
from types import SimpleNamespace

import pytest

from tenure import trusted_files
from tenure.trusted_files import file_fault, path_fault

ME, ALICE, BOB, STRANGER = 1000, 1001, 1002, 4711
GROUPS = {ME: [], 50: [], 60: ["alice"], 70: ["alice", "bob"], 80: ["bob"], 90: ["me", "root"]}


@pytest.fixture(autouse=True)
def users(monkeypatch):
    """A machine with the users root, me, alice and bob; this process runs as me."""
    known = {
        number: pwd.struct_passwd((name, "x", number, number, "", "/", "/bin/sh"))
        for name, number in (("root", 0), ("me", ME), ("alice", ALICE), ("bob", BOB), ("nobody", 65534))
    }
    groups = {number: grp.struct_group((f"g{number}", "x", number, members)) for number, members in GROUPS.items()}
    monkeypatch.setattr(trusted_files, "pwd", SimpleNamespace(getpwuid=known.__getitem__, getpwall=known.values))
    monkeypatch.setattr(trusted_files, "grp", SimpleNamespace(getgrgid=groups.__getitem__))
    monkeypatch.setattr(os, "geteuid", lambda: ME)


def status(mode, user=ME, group=ME):
    return os.stat_result((mode, 0, 0, 1, user, group, 0, 0, 0, 0))


@pytest.mark.parametrize("owner", [0, ME, STRANGER], ids=["root", "me", "from another machine"])
def test_a_file_of_root_of_this_user_or_from_another_machine_is_trusted(tmp_path, owner):
    assert file_fault(tmp_path, status(stat.S_IFREG | 0o644, owner)) is None


def test_a_file_of_another_user_is_not(tmp_path):
    fault = file_fault(tmp_path / "a b", status(stat.S_IFREG | 0o600, ALICE))

    assert fault == f"{str(tmp_path / 'a b')!r} belongs to the user 'alice'; run chown me '{tmp_path / 'a b'}'"


@pytest.mark.parametrize(("maps", "is_trusted"), [(["0", "0", "4294967295"], False), (["0", "1000", "1"], True)])
def test_the_owner_nobody_is_trusted_only_where_a_namespace_hides_the_real_owner(
    tmp_path, monkeypatch, maps, is_trusted
):
    monkeypatch.setattr(trusted_files, "_overflow_id", lambda: 65534)
    monkeypatch.setattr(trusted_files, "_has_unmapped_ids", lambda: maps != trusted_files._ALL_IDS_MAPPED)

    assert (file_fault(tmp_path, status(stat.S_IFDIR | 0o755, 65534)) is None) is is_trusted


def test_a_file_that_every_user_can_write_is_not_trusted(tmp_path):
    assert file_fault(tmp_path, status(stat.S_IFREG | 0o602)).startswith("every user can write to")


@pytest.mark.parametrize(
    ("group", "is_trusted"),
    [(ME, True), (ALICE, False), (50, False), (60, False), (70, False), (80, False), (90, True), (STRANGER, True)],
    ids=["mine", "hers", "empty", "one other", "two others", "bob's", "mine and root's", "from another machine"],
)
def test_a_group_may_write_only_if_no_other_user_belongs_to_it(tmp_path, group, is_trusted):
    assert (file_fault(tmp_path, status(stat.S_IFDIR | 0o2775, ME, group)) is None) is is_trusted


def test_the_group_is_named_with_what_to_run(tmp_path):
    fault = file_fault(tmp_path, status(stat.S_IFDIR | 0o775, ME, 70))

    assert fault == f"the group 'g70' can write to {str(tmp_path)!r}; run chmod g-w {tmp_path}"


class FakeTree:
    """Folders and links with made-up owners and modes, instead of those of the disk."""

    def __init__(self, monkeypatch, found):
        monkeypatch.setattr("pathlib.Path.lstat", lambda path: found.get(str(path), status(stat.S_IFDIR | 0o755, 0)))


def test_a_link_on_the_way_counts_by_its_owner_and_its_target_by_all_folders_above(tmp_path, monkeypatch):
    (tmp_path / "real" / "data").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/data")
    link = status(stat.S_IFLNK | 0o777)
    FakeTree(monkeypatch, {str(tmp_path / "link"): link})
    assert path_fault(tmp_path / "link") is None

    FakeTree(monkeypatch, {str(tmp_path / "link"): status(stat.S_IFLNK | 0o777, ALICE)})
    assert "link' belongs to the user 'alice'" in path_fault(tmp_path / "link")

    FakeTree(monkeypatch, {str(tmp_path / "link"): link, str(tmp_path / "real"): status(stat.S_IFDIR | 0o777)})
    assert "every user can write to" in path_fault(tmp_path / "link")


def test_a_sticky_folder_is_trusted_unless_another_user_owns_it(tmp_path, monkeypatch):
    FakeTree(monkeypatch, {str(tmp_path): status(stat.S_IFDIR | 0o1777, 0)})
    assert path_fault(tmp_path) is None

    FakeTree(monkeypatch, {str(tmp_path): status(stat.S_IFDIR | 0o1777, ALICE)})
    assert "belongs to the user 'alice'" in path_fault(tmp_path)


def test_a_loop_of_links_ends(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a").symlink_to("b/../a")

    with pytest.raises(OSError, match="levels of symbolic links"):
        path_fault(tmp_path / "a")


def test_a_program_may_belong_to_any_user_who_alone_can_write_to_it_and_its_folders(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text("")
    FakeTree(monkeypatch, {
        str(tmp_path): status(stat.S_IFDIR | 0o775, ALICE, ALICE),
        str(program): status(stat.S_IFREG | 0o775, ALICE, ALICE),
    })  # fmt: skip
    assert path_fault(program, any_owner=True) is None
    assert "belongs to the user 'alice'" in path_fault(program)

    FakeTree(monkeypatch, {str(tmp_path): status(stat.S_IFDIR | 0o775, ALICE, 70)})
    assert "the group 'g70' can write to" in path_fault(program, any_owner=True)


def test_what_another_user_owns_in_a_sticky_folder_is_never_trusted(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text("")
    FakeTree(monkeypatch, {
        str(tmp_path): status(stat.S_IFDIR | 0o1777, 0),
        str(program): status(stat.S_IFREG | 0o755, ALICE),
    })  # fmt: skip

    assert "belongs to the user 'alice'" in path_fault(program, any_owner=True)
