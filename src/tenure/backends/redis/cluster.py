"""ClusterLine: commands to a Redis Cluster, through redis-py's own client, which knows the slots."""

import time
from collections.abc import Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenure.backends.redis.connections import DOWN, Connections, Word, open_connections
from tenure.errors import BackendUnavailable

_POLL = 0.05
_SLICE = 1.0
_OF_A_NODE = ("INFO", "CONFIG")  # asked of the server in the URL: the others are set up alike


class ClusterLine:
    """Follows the slots as they move; repeats nothing after a lost connection, as only the verbs can."""

    def __init__(self, client: Any, node: Connections) -> None:
        self._client = client
        self._node = node

    def ask(self, *command: Word) -> Any:
        try:
            if command[0] in _OF_A_NODE:
                return self._node.ask(*command)
            return self._client.execute_command(*command)
        except (*DOWN, redis.exceptions.RedisClusterException) as error:
            raise BackendUnavailable(f"the Redis Cluster cannot be reached: {error}") from error

    def ask_each(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        return [self._reply(command) for command in commands]

    def wait(self, keys: Sequence[str], seconds: float) -> bool:
        """One list can be waited for; several lie on several servers, and are looked at in turn."""
        if len(keys) == 1:
            return self.ask("BLPOP", *keys, max(0.001, min(seconds, _SLICE))) is not None
        give_up = time.monotonic() + seconds
        while True:
            if any(self.ask("LPOP", key) is not None for key in keys):
                return True
            left = give_up - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _POLL))

    def close(self) -> None:
        self._client.close()
        self._node.close()

    def _reply(self, command: Sequence[Word]) -> Any:
        try:
            return self.ask(*command)
        except redis.ResponseError as error:
            return error


def open_cluster(url: str, timeout: float) -> ClusterLine:
    """The cluster that the server at this URL belongs to."""
    try:
        client = redis.RedisCluster.from_url(
            url,
            socket_timeout=timeout + _SLICE,
            socket_connect_timeout=timeout,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
        )
    except (*DOWN, redis.exceptions.RedisClusterException) as error:
        raise BackendUnavailable(f"the Redis Cluster cannot be reached: {error}") from error
    return ClusterLine(client, open_connections(url, timeout))
