"""Which files and folders only trusted users can change, by the rules of Debian's OpenSSH.

Trusted are root, the user of this process, and owners and groups that do not exist on this machine: a container shows
the files of its host so. A group is trusted too if no other user belongs to it, as with private groups and umask 002.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

_ALL_IDS_MAPPED = ["0", "0", "4294967295"]


def file_fault(path: Path, status: os.stat_result) -> str | None:
    """Why other users can change this file or folder, and what to run against it; None if they cannot."""
    name = shlex.quote(str(path))
    if not _is_trusted(status.st_uid):
        return f"{str(path)!r} belongs to the user {_user(status.st_uid)!r}; run chown {_user(os.geteuid())} {name}"
    if status.st_mode & stat.S_IWOTH:
        return f"every user can write to {str(path)!r}; run chmod go-w {name}"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
        return f"the group {_group(status.st_gid)!r} can write to {str(path)!r}; run chmod g-w {name}"
    return None


def folder_fault(folder: Path) -> str | None:
    """Why other users can replace what is in this folder, or a folder or link on the way to it; None if they cannot.

    In a sticky folder such as /tmp, only the owner of a file can replace it.
    """
    folder.stat()  # so that a loop of links ends here
    for path in _way_to(folder):
        status = path.lstat()
        is_open = not stat.S_ISLNK(status.st_mode) and not status.st_mode & stat.S_ISVTX
        if (is_open or not _is_trusted(status.st_uid)) and (fault := file_fault(path, status)):
            return fault
    return None


def _way_to(folder: Path) -> Iterator[Path]:
    """The folder, all folders above it, and the same for the target of each link among them."""
    pending, seen = [folder.absolute()], set[Path]()
    while pending:
        target = pending.pop()
        for path in (target, *target.parents):
            if path not in seen:
                seen.add(path)
                yield path
                if path.is_symlink():
                    pending.append(path.parent / path.readlink())


def _is_trusted(user: int) -> bool:
    return user in (0, os.geteuid()) or _is_from_elsewhere(user)


def _is_from_elsewhere(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return True
    return user == _overflow_id() and _has_unmapped_ids()


def _is_private(group: int) -> bool:
    """Whether only root and the user of this process belong to the group; a group without members is not private."""
    members = {entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == group}
    try:
        named = grp.getgrgid(group).gr_mem
    except KeyError:  # a group from elsewhere
        return members <= {0, os.geteuid()}
    trusted = {_user(0), _user(os.geteuid())}
    return bool(members or named) and members <= {0, os.geteuid()} and trusted.issuperset(named)


def _overflow_id() -> int:
    """The owner that Linux shows for users that a user namespace does not have."""
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text("ascii"))
    except OSError:
        return -1


def _has_unmapped_ids() -> bool:
    try:
        return Path("/proc/self/uid_map").read_text("ascii").split() != _ALL_IDS_MAPPED
    except OSError:
        return False


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
