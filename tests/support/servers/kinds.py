"""Kind: how each server is prepared, started, asked whether it is up, and addressed."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.servers import pings

Command = list[str]


@dataclass(frozen=True)
class Kind:
    """One server program; `start` is given its data folder, a port, and whether commits must survive a crash.

    `variable` may hold an address to use instead; its name has no TENURE_ in front, for those are settings.
    """

    name: str
    variable: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    prepare: Callable[[Sequence[Path], Path], Command | None]
    start: Callable[[Sequence[Path], Path, int, bool], Command]
    ping: Callable[[int], None]
    url: str
    refuses_root: bool = False


def _nothing_to_prepare(programs: Sequence[Path], data: Path) -> None:
    """Some servers start on an empty folder."""


def _initdb(programs: Sequence[Path], data: Path) -> Command:
    trust = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]
    return [str(programs[1]), f"--pgdata={data}", "--no-sync", "--no-instructions", *trust]


def _postgres(programs: Sequence[Path], data: Path, port: int, durable: bool) -> Command:
    settings = ["listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "max_connections=200"]
    if not durable:
        settings += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
    return [str(programs[0]), "-D", str(data), *(part for setting in settings for part in ("-c", setting))]


def _install_mariadb(programs: Sequence[Path], data: Path) -> Command:
    login = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
    return [str(programs[1]), "--no-defaults", *_mariadb_paths(programs[0], data), *login]


def _mariadbd(programs: Sequence[Path], data: Path, port: int, durable: bool) -> Command:
    flush = 1 if durable else 0
    network = ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={data}/socket", "--skip-name-resolve"]
    limits = [f"--innodb-flush-log-at-trx-commit={flush}", "--max-connections=300", f"--pid-file={data}/pid"]
    return [str(programs[0]), "--no-defaults", *_mariadb_paths(programs[0], data), *network, *limits]


def _mariadb_paths(program: Path, data: Path) -> Command:
    return [f"--basedir={program.resolve().parent.parent}", f"--datadir={data}", f"--user={data.owner()}"]


def _redis(programs: Sequence[Path], data: Path, port: int, durable: bool) -> Command:
    network = ["--bind", "127.0.0.1", "--port", str(port), "--unixsocket", f"{data}/socket"]
    keeping = ["--appendonly", "yes", "--appendfsync", "always"] if durable else ["--appendonly", "no"]
    return [str(programs[0]), *network, "--dir", str(data), "--save", "", *keeping]


def _beanstalkd(programs: Sequence[Path], data: Path, port: int, durable: bool) -> Command:
    keeping = ["-b", str(data), "-f0"] if durable else []
    return [str(programs[0]), "-l", "127.0.0.1", "-p", str(port), *keeping]


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            name="postgresql",
            variable="TEST_POSTGRESQL",
            packages=("postgresql",),
            programs=("postgres", "initdb"),
            prepare=_initdb,
            start=_postgres,
            ping=pings.postgresql,
            url="postgresql://postgres@127.0.0.1:{port}/postgres",
            refuses_root=True,
        ),
        Kind(
            name="mariadb",
            variable="TEST_MYSQL",
            packages=("mariadb-server-core", "mariadb-client-core"),
            programs=("mariadbd", "mariadb-install-db", "my_print_defaults"),
            prepare=_install_mariadb,
            start=_mariadbd,
            ping=pings.mariadb,
            url="mysql://root@127.0.0.1:{port}/mysql",
        ),
        Kind(
            name="redis",
            variable="TEST_REDIS",
            packages=("redis-server",),
            programs=("redis-server",),
            prepare=_nothing_to_prepare,
            start=_redis,
            ping=pings.redis,
            url="redis://127.0.0.1:{port}/0",
        ),
        Kind(
            name="beanstalk",
            variable="TEST_BEANSTALK",
            packages=("beanstalkd",),
            programs=("beanstalkd",),
            prepare=_nothing_to_prepare,
            start=_beanstalkd,
            ping=pings.beanstalk,
            url="beanstalk://127.0.0.1:{port}",
        ),
    )
}


# Defaults that no session of Tenure may depend on.
_UNUSUAL_MARIADB = (
    "--character-set-server=latin1",
    "--collation-server=latin1_swedish_ci",
    "--completion-type=CHAIN",
    "--default-storage-engine=MyISAM",
    "--default-time-zone=+09:30",
    "--group-concat-max-len=4",
    "--lower-case-table-names=1",
    "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,NO_AUTO_VALUE_ON_ZERO",
    "--transaction-isolation=SERIALIZABLE",
    "--transaction-read-only=ON",
)


def _unusual_mariadbd(programs: Sequence[Path], data: Path, port: int, durable: bool) -> Command:
    return [*_mariadbd(programs, data, port, durable), *_UNUSUAL_MARIADB]


KINDS["mariadb-unusual"] = replace(
    KINDS["mariadb"], name="mariadb-unusual", variable="TEST_MYSQL_UNUSUAL", start=_unusual_mariadbd
)


def pgbouncer(upstream: int) -> Kind:
    """A pooler in transaction mode before the PostgreSQL server on this port of the loopback."""

    def start(programs: Sequence[Path], data: Path, port: int, durable: bool) -> Command:
        lines = (
            f"[databases]\n* = host=127.0.0.1 port={upstream} user=postgres",
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
            "auth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n",
        )
        (data / "pgbouncer.ini").write_text("\n".join(lines))
        return [str(programs[0]), str(data / "pgbouncer.ini")]

    return Kind(
        name="pgbouncer",
        variable="TEST_PGBOUNCER",
        packages=("pgbouncer",),
        programs=("pgbouncer",),
        prepare=_nothing_to_prepare,
        start=start,
        ping=pings.postgresql,
        url="postgresql://postgres@127.0.0.1:{port}/postgres",
        refuses_root=True,
    )


def find_programs(kind: Kind, unpacked: Path) -> list[Path] | None:
    """The server's programs, all installed or all unpacked from its package, or None."""
    for root in (Path("/"), unpacked):
        postgres = sorted(root.glob("usr/lib/postgresql/*/bin"), reverse=True)
        folders = [*postgres, root / "usr/local/bin", root / "usr/bin", root / "usr/sbin"]
        search = ":".join(map(str, folders))
        found = [_which(program, search, installed=root == Path("/")) for program in kind.programs]
        if all(found):
            return [Path(program) for program in found if program]
    return None


def _which(program: str, search: str, installed: bool) -> str | None:
    return (shutil.which(program) if installed else None) or shutil.which(program, path=search)
