"""RedisServer: how durable the server's configuration is, and the checks that it must pass before use."""

from tenure.backends.records import Fact
from tenure.backends.redis.connections import RedisClient
from tenure.errors import BackendError

MIN_VERSION = (6, 2)


class RedisServer:
    """Reads INFO, and CONFIG where it is allowed."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def facts(self) -> list[Fact]:
        info = self._info()
        return [_durability(info, self._fsync(info)), _memory(info), Fact("wake-ups", "blocking pop, one list a queue")]

    def check(self, allow_eviction: bool) -> None:
        """Refuse a server that is too old, or that deletes jobs when its memory is full."""
        info = self._info()
        version = info.get("redis_version", "0")
        if tuple(map(int, version.split(".")[:2])) < MIN_VERSION:
            raise BackendError(f"Redis {version} is too old: Tenure needs {'.'.join(map(str, MIN_VERSION))} or newer")
        policy = info.get("maxmemory_policy", "noeviction")
        if policy != "noeviction" and not allow_eviction:
            raise BackendError(
                f"this Redis server may delete jobs when its memory is full (maxmemory-policy is {policy!r}); "
                "set maxmemory-policy to noeviction, or accept the loss with ?eviction=allowed in the URL"
            )

    def _info(self) -> dict[str, str]:
        text = self._client.ask("INFO").decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def _fsync(self, info: dict[str, str]) -> str:
        if info.get("aof_enabled") != "1":
            return "none"
        reply = self._client.ask_each([("CONFIG", "GET", "appendfsync")])[0]
        return reply[1].decode() if isinstance(reply, list) and len(reply) == 2 else "unknown"


def _durability(info: dict[str, str], fsync: str) -> Fact:
    texts = {
        "always": "every job is on disk before it is acknowledged (append-only file, fsync always)",
        "everysec": "the last second may be lost when the machine dies (append-only file, fsync every second)",
        "no": "the last half minute or so may be lost when the machine dies (append-only file, no fsync)",
        "unknown": "there is an append-only file, but this server does not say how often it is synced",
        "none": "jobs are lost when the server restarts, up to its last snapshot; set appendonly to yes",
    }
    failing = info.get("aof_last_write_status", "ok") != "ok"
    trouble = "; the last write to it FAILED" if failing else ""
    return Fact("durability", texts.get(fsync, fsync) + trouble, warning=failing or fsync in ("none", "no"))


def _memory(info: dict[str, str]) -> Fact:
    policy = info.get("maxmemory_policy", "unknown")
    limit = info.get("maxmemory_human", "0B")
    used = info.get("used_memory_human", "?")
    share = f"{used} of {limit}" if limit != "0B" else f"{used}, no limit"
    if policy == "noeviction":
        return Fact("memory", f"{share}; jobs are refused, never deleted, when it is full")
    return Fact("memory", f"{share}; jobs may be DELETED when it is full ({policy})", warning=True)
