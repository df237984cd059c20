"""Records that another program damaged: each becomes a dead letter or is taken out of the way, and the others run."""

import logging
import sqlite3
from urllib.parse import parse_qs, urlsplit

import pytest
import redis

from tenure import Tenure
from tenure.events import JOB_STATES
from tenure.wire.signing import new_key

KEY = new_key().dump()
pytestmark = pytest.mark.timeout(120, method="thread")  # the runner needs the alarm that the other method uses


class Farm:
    """An app with good jobs around a victim, and how to damage what is stored of the victim."""

    def __init__(self, app):
        self.app = app
        self.ran = []

        @app.job
        def note(number: int) -> None:
            self.ran.append(number)

        _, self.victim, *_ = [note.enqueue(number=number) for number in range(20)]
        self.note = note

    def run(self):
        return self.app.worker(burst=True).run()

    def others(self):
        return [number for number in range(20) if number != 1]


@pytest.fixture
def server(redis_url):
    url = urlsplit(redis_url)
    with redis.Redis(host=url.hostname, port=url.port) as client:
        client.prefix = f"{parse_qs(url.query)['prefix'][0]}:{{default}}"
        yield client


@pytest.fixture
def farm(redis_url):
    with Tenure(redis_url, keys=[KEY]) as app:
        farm = Farm(app)
        farm.prefix = parse_qs(urlsplit(redis_url).query)["prefix"][0]
        yield farm


RECORDS = [b"garbage", b"", b"1 2", b"1 2 x 5 [] \n{}", b"\xff\xfe", b"E 5 done\n\n[]", b"\n\n\n"]
COUNTERS = [b"garbage", b"", b"1 2", b"1 2 3", b"a b c d", b"1 2 9999999999 0", b"9" * 400 + b" 0 0 0", b"\xff"]


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_a_record_that_cannot_be_read_becomes_a_dead_letter_and_the_others_run(farm, server, record):
    server.hset(f"{server.prefix}:jobs", farm.victim, record)

    tally = farm.run()

    assert sorted(farm.ran) == farm.others()
    (letter,) = farm.app.backend.dead_letters.page()
    assert (letter.id, letter.reason, letter.body) == (farm.victim, "malformed", record)
    assert tally == {"acked": 19, "rejected": 1}


def test_a_job_without_a_record_becomes_a_dead_letter_too(farm, server):
    server.hdel(f"{server.prefix}:jobs", farm.victim)

    farm.run()

    assert sorted(farm.ran) == farm.others()
    (letter,) = farm.app.backend.dead_letters.page()
    assert (letter.id, letter.reason, letter.body) == (farm.victim, "malformed", b"")
    assert "has no record in Redis" in letter.failures[0].message


@pytest.mark.parametrize("counters", [each for each in COUNTERS if each], ids=lambda each: repr(each)[:20])
def test_counters_that_cannot_be_read_make_a_dead_letter(farm, server, counters):
    server.hset(f"{server.prefix}:meta", farm.victim, counters)

    farm.run()

    assert sorted(farm.ran) == farm.others()
    (letter,) = farm.app.backend.dead_letters.page()
    assert (letter.id, letter.reason) == (farm.victim, "malformed")
    assert farm.app.backend.dead_letters.replay([farm.victim]) == [farm.victim]
    farm.run()
    assert sorted(farm.ran) == list(range(20))


@pytest.mark.parametrize("score", [1.5, float("-inf"), -5, 1e300])
def test_a_place_that_is_none_makes_no_difference(farm, server, score):
    server.zadd(f"{server.prefix}:ready", {farm.victim: score})

    farm.run()

    assert sorted(farm.ran) == list(range(20))


@pytest.mark.parametrize("member", [b"garbage", b"x:y", b"", b"\xff:\xfe"], ids=repr)
def test_members_that_no_script_wrote_are_taken_out_of_the_way(farm, server, member, caplog):
    for name in ("delayed", "leases", "ready"):
        server.zadd(f"{server.prefix}:{name}", {member: 1})

    with caplog.at_level(logging.ERROR):
        farm.run()
    farm.app.backend.reap(["default"])
    farm.run()

    assert sorted(farm.ran) == list(range(20))
    assert [server.zcard(f"{server.prefix}:{name}") for name in ("delayed", "leases", "ready")] == [0, 0, 0]
    farm.app.backend.dead_letters.page()


def test_dead_letters_that_cannot_be_read_do_not_hide_or_lose_the_others(farm, server):
    for index, number in enumerate((30, 31, 32)):
        id = farm.app.enqueue(farm.note.build(number="x").replace(id=f"dead-{index}", payload={"number": number}))
        server.hset(f"{server.prefix}:jobs", id, b"garbage")
    farm.run()
    server.hset(f"{server.prefix}:deaths", "dead-0", b"garbage")
    server.hdel(f"{server.prefix}:deaths", "dead-1")
    server.hset(f"{server.prefix}:failures", "dead-2", b"garbage\n")

    assert [letter.id for letter in farm.app.backend.dead_letters.page()] == ["dead-0", "dead-1", "dead-2"]
    assert farm.app.backend.dead_letters.replay(["dead-0", "dead-1", "dead-2"]) == []
    assert [letter.id for letter in farm.app.backend.dead_letters.page()] == ["dead-0", "dead-1", "dead-2"]
    assert farm.app.backend.jobs.find("dead-2").state == "dead"
    assert farm.app.backend.dead_letters.discard(["dead-0", "dead-1", "dead-2"]) == ["dead-0", "dead-1", "dead-2"]


@pytest.fixture
def database(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def file_farm(database):
    with Tenure(f"sqlite:///{database}?synchronous=normal") as app:
        yield Farm(app)


def damage(database, statement, *values):
    with sqlite3.connect(database) as connection:
        assert connection.execute(statement, values).rowcount
    connection.close()


VALUES = ["abc", b"\xff", 1.5, -1, 2**62, "", "\0"]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("column", ["attempts", "crashes", "fence", "vanished"])
def test_a_counter_that_is_no_number_makes_a_dead_letter_and_the_others_run(file_farm, database, column, value):
    key = "(SELECT key FROM tenure_job WHERE id = ?)"
    damage(database, f"UPDATE tenure_ready SET {column} = ? WHERE key = {key}", value, file_farm.victim)

    file_farm.run()

    assert sorted(file_farm.ran) == file_farm.others()
    (letter,) = file_farm.app.backend.dead_letters.page()
    assert (letter.id, letter.reason, type(letter.attempts)) == (file_farm.victim, "malformed", int)
    assert file_farm.app.backend.dead_letters.replay([file_farm.victim]) == [file_farm.victim]
    file_farm.run()
    assert sorted(file_farm.ran) == list(range(20))


@pytest.mark.parametrize("id", [b"\xff\xfe", "x" * 300, 5.5, b"abc"], ids=lambda id: repr(id)[:10])
def test_an_id_that_is_no_text_makes_a_dead_letter_and_the_others_run(file_farm, database, id):
    value = "CAST(? AS TEXT)" if id == b"\xff\xfe" else "?"
    damage(database, f"UPDATE tenure_job SET id = {value} WHERE id = ?", id, file_farm.victim)

    file_farm.run()

    assert sorted(file_farm.ran) == file_farm.others()
    (letter,) = file_farm.app.backend.dead_letters.page()
    assert letter.reason in ("malformed", "bad_signature")
    assert file_farm.app.backend.dead_letters.discard([letter.id]) == [letter.id]


@pytest.mark.parametrize("body", ["größe", "", 5, b"\xff", "a\0b"], ids=repr)
def test_a_body_of_another_type_does_not_shift_the_bodies_of_others(file_farm, database, body):
    damage(database, "UPDATE tenure_job SET body = ? WHERE id = ?", body, file_farm.victim)

    file_farm.run()

    assert sorted(file_farm.ran) == file_farm.others()
    (letter,) = file_farm.app.backend.dead_letters.page()
    assert (letter.id, letter.reason) == (file_farm.victim, "malformed")


def test_labels_and_failures_that_cannot_be_read_do_not_hide_the_others(file_farm, database):
    file_farm.run()
    damage(database, "UPDATE tenure_job SET handler = CAST(? AS TEXT) WHERE id = ?", b"\xff", file_farm.victim)
    key = "(SELECT key FROM tenure_job WHERE id = ?)"
    damage(database, f"UPDATE tenure_outcome SET run = 'garbage' WHERE key = {key}", file_farm.victim)
    damage(database, "INSERT INTO tenure_failure VALUES (?, 1, 'garbage')", file_farm.victim)

    records, _ = file_farm.app.backend.jobs.page("done", "default", limit=50)

    assert len(records) == 20


@pytest.mark.parametrize("column", ["vanished", "fence", "asked"])
def test_a_lease_that_was_damaged_comes_back_and_holds_up_no_other(file_farm, database, column):
    backend = file_farm.app.backend
    leases = backend.lease(["default"], limit=20, seconds=0)
    assert backend.renew(leases, seconds=0) == []  # from now on each lease has a row
    damage(database, f"UPDATE tenure_lease SET {column} = 'abc' WHERE key = ?", leases[1].token)

    lost = backend.renew(leases, seconds=0)
    assert [lease.id for lease in lost] == ([leases[1].id] if column == "fence" else [])
    assert len(backend.reap(["default"])) == 20


def test_a_due_time_that_is_no_number_does_not_stop_the_worker(file_farm, database):
    file_farm.note.using(delay=3600).enqueue(number=99)
    damage(database, "UPDATE tenure_delayed SET due = 'abc'")

    file_farm.run()

    assert sorted(file_farm.ran) == list(range(20))


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def sql_farm(request, database):
    fixtures = {"postgresql": "postgres_url", "mysql": "mariadb_url"}
    fixture = fixtures.get(request.param)
    url = request.getfixturevalue(fixture) if fixture else f"sqlite:///{database}"
    with Tenure(url, keys=[KEY]) as app:
        yield Farm(app)


def test_rows_whose_job_another_program_deleted_are_removed_and_reported_once(sql_farm, caplog):
    dialect = sql_farm.app.backend.jobs._dialect
    dialect.transact(lambda rows: rows("DELETE FROM tenure_job WHERE id = :id", {"id": sql_farm.victim}))

    with caplog.at_level(logging.ERROR):
        sql_farm.run()
        sql_farm.run()

    assert sorted(sql_farm.ran) == sql_farm.others()
    assert [each.message for each in caplog.records] == ["queue 'default' had 1 rows without a job; they are removed"]
    assert sql_farm.app.backend.queues.counts() == {"default": {**dict.fromkeys(JOB_STATES, 0), "done": 19}}


def test_a_job_that_another_program_marked_as_ended_does_not_hold_up_the_others(sql_farm):
    dialect = sql_farm.app.backend.jobs._dialect
    marked = (
        "INSERT INTO tenure_outcome (key, queue, state, attempts, crashes, fence, finished, size) "
        "SELECT key, queue, 'done', 0, 0, 0, 1, 0 FROM tenure_job WHERE id = :id"
    )
    dialect.transact(lambda rows: rows(marked, {"id": sql_farm.victim}))

    sql_farm.run()

    assert sorted(sql_farm.ran) == list(range(20))
    assert (
        sql_farm.app.backend.queues.counts()["default"] | {"done": 20, "leased": 0, "dead": 0}
        == (sql_farm.app.backend.queues.counts()["default"])
    )


@pytest.mark.parametrize(
    "row", [b"garbage", b"", b"1 2 3", b"9 9 1 1\ngarbage", b"9999999999999999 9 0 1\n[99,1]"], ids=repr
)
def test_the_state_of_a_guard_that_cannot_be_read_counts_as_none_on_redis(farm, server, row):
    rows = f"{farm.prefix}:{{{farm.prefix}}}:guards:rows"
    server.hset(rows, "once:key", row)
    server.hset(rows, "lock:note", row)
    for number in range(30, 34):
        farm.note.using(idempotency_key="key" if number < 32 else None, single_instance=True).enqueue(number=number)

    farm.run()

    assert sorted(farm.ran) in ([*range(20), 30, 32, 33], [*range(20), 31, 32, 33])


@pytest.mark.parametrize("state", ["garbage", "", "[99,1]", "[2]"])
def test_the_state_of_a_guard_that_cannot_be_read_counts_as_none_on_sqlite(file_farm, database, state):
    file_farm.note.using(idempotency_key="key").enqueue(number=30)
    file_farm.run()
    damage(database, "UPDATE tenure_guard SET state = ?", state)
    file_farm.note.using(idempotency_key="key").enqueue(number=31)

    file_farm.run()

    assert sorted(file_farm.ran) == [*range(20), 30, 31]
