"""Which files and folders only trusted users can change, by the rules of Debian's OpenSSH; and files replaced at once.

Trusted are root, the user of this process, and owners and groups that do not exist on this machine: a container shows
the files of its host so. A group is trusted too if no other user belongs to it, as with private groups and umask 002.
"""

import grp
import os
import pwd
import secrets
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

_ALL_IDS_MAPPED = ["0", "0", "4294967295"]


def file_fault(path: Path, status: os.stat_result) -> str | None:
    """Why other users can change this file or folder, and what to run against it; None if they cannot."""
    return _fault(path, status, {0, os.geteuid()})


def path_fault(path: Path, *, any_owner: bool = False) -> str | None:
    """Why other users can change or replace what is at this path, a folder or a link on the way to it included.

    With `any_owner`, owners are trusted too, except in a sticky folder such as /tmp, where every user can own files.
    """
    path.stat()  # so that a loop of links ends here
    for part in _way_to(path):
        status, trusted = part.lstat(), {0, os.geteuid()}
        if any_owner and not part.parent.lstat().st_mode & stat.S_ISVTX:
            trusted.add(status.st_uid)
        if fault := _fault(part, status, trusted):
            return fault
    return None


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """Write a file so that a reader never sees half of it, and nothing outside is overwritten through a link.

    No other user can have put the draft there.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _fault(path: Path, status: os.stat_result, trusted: set[int]) -> str | None:
    name, mode = shlex.quote(str(path)), status.st_mode
    if status.st_uid not in trusted and not _is_from_elsewhere(status.st_uid):
        return f"{str(path)!r} belongs to the user {_user(status.st_uid)!r}; run chown {_user(os.geteuid())} {name}"
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return None  # only the owner of a link, or of a file in a sticky folder, can replace it
    if mode & stat.S_IWOTH:
        return f"every user can write to {str(path)!r}; run chmod go-w {name}"
    if mode & stat.S_IWGRP and not _is_private(status.st_gid, trusted):
        return f"the group {_group(status.st_gid)!r} can write to {str(path)!r}; run chmod g-w {name}"
    return None


def _way_to(path: Path) -> Iterator[Path]:
    """The path, all folders above it, and the same for the target of each link among them."""
    pending, seen = [path.absolute()], set[Path]()
    while pending:
        target = pending.pop()
        for part in (target, *target.parents):
            if part not in seen:
                seen.add(part)
                yield part
                if part.is_symlink():
                    pending.append(part.parent / part.readlink())


def _is_from_elsewhere(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return True
    return user == _overflow_id() and _has_unmapped_ids()


def _is_private(group: int, trusted: set[int]) -> bool:
    """Whether only trusted users belong to the group; a group without members is not private."""
    members = {entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == group}
    try:
        named = grp.getgrgid(group).gr_mem
    except KeyError:  # a group from elsewhere
        return members <= trusted
    return bool(members or named) and members <= trusted and {_user(each) for each in trusted}.issuperset(named)


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
