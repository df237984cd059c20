"""Messages that wait in Redis for Dramatiq move to Tenure with their options."""

import json
import warnings
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from tenure.integrations import dramatiq as dramatiq_adapter

redis = pytest.importorskip("redis")


@pytest.fixture
def old_dramatiq(redis_url, prefix):
    """A real broker of Dramatiq on this Redis, with an actor."""
    pytest.importorskip("dramatiq")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dramatiq
        from dramatiq.brokers.redis import RedisBroker

        broker = RedisBroker(url=urlsplit(redis_url)._replace(query="").geturl(), namespace=f"{prefix}dramatiq")
        actor = dramatiq.actor(lambda order, copy=False: None, actor_name="send", broker=broker)
        yield actor
        broker.close()


@pytest.mark.parametrize("decoded", [False, True])
def test_messages_of_dramatiq_move_with_their_options(
    app, old_dramatiq, client, prefix, redis_url, decoded, run_within
):
    if decoded:
        client = redis.Redis.from_url(urlsplit(redis_url)._replace(query="").geturl(), decode_responses=True)

    @app.job(max_retries=3)
    def send(order: int, copy: bool = False) -> None: ...

    aged = old_dramatiq.send_with_options(args=(1,), max_age=60_000)
    bodies = f"{prefix}dramatiq:default.msgs"
    (key, body), *_ = client.hgetall(bodies).items()
    client.hset(bodies, key, json.dumps({**json.loads(body), "message_timestamp": 1_700_000_000_000}))
    now = old_dramatiq.send_with_options(args=(1,), max_age=86_400_000)
    later = old_dramatiq.send_with_options(args=(2,), kwargs={"copy": True}, delay=3_600_000, max_retries=7)
    unfit = old_dramatiq.send("text")
    piped = old_dramatiq.send_with_options(args=(3,), pipe_target={"a": 1})

    def move() -> dramatiq_adapter.MoveReport:
        return dramatiq_adapter.move_waiting(
            app, client, {"default": "emails"}, {"send": send}, namespace=f"{prefix}dramatiq"
        )

    first, second = move(), move()

    assert first.moved == [aged.message_id, now.message_id, later.message_id]
    assert [left.id for left in first.left] == [left.id for left in second.left] == [unfit.message_id, piped.message_id]
    assert second.moved == []
    run_within(app.worker("emails", burst=True))
    assert [app.handle(each.message_id).state for each in (aged, now)] == ["expired", "done"]
    info = app.handle(later.message_id).info()
    assert (info.state, info.queue, info.payload) == ("delayed", "emails", {"order": 2, "copy": True})
    assert abs((info.due_at - datetime.now(UTC)).total_seconds() - 3600) < 600
    assert client.hlen(f"{prefix}dramatiq:default.msgs") == 2
    assert client.exists(f"{prefix}dramatiq:default.DQ.msgs") == 0
    client.close()
