"""How callers learn that a job has ended: signals where the backend has them, and no cost where no caller waits."""

import threading
import time
from contextlib import closing
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from tenure.backends import job_waiter
from tenure.backends.job_waiter import JobWaiter
from tenure.backends.messages import Ack
from tenure.backends.sql.postgresql import connection, end_signals
from tenure.backends.sql.postgresql.end_signals import NOTIFY_ENDS
from tenure.backends.sql.sqlite import log_watch
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.testing.conformance.ends import ENDS
from tenure.testing.conformance.messages import OTHER, QUEUE, id_of, make, put_and_take
from tests.support.waiting import WAIT_SECONDS, eventually


def url_of(request, tmp_path, kind):
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return request.getfixturevalue(f"{kind}_url")


@pytest.fixture
def backend(url):
    with closing(open_backend(url, SystemClock())) as backend:
        yield backend


@pytest.fixture
def settler(url, backend):
    """Another client of the same jobs."""
    with closing(open_backend(url, SystemClock())) as settler:
        yield settler


@pytest.fixture
def waiter(backend):
    with closing(JobWaiter(backend.ends)) as waiter:
        yield waiter


def end(backend, number):
    """End a job; return the time at which the settlement had returned."""
    backend.ack([Ack(lease=lease) for lease in put_and_take(backend, make(number))])
    return time.monotonic()


def waits(waiter, *numbers):
    """A queue of the times at which each wait ends."""
    ended = SimpleQueue()
    for number in numbers:
        waiter.watch(id_of(number), lambda error: ended.put(time.monotonic()))
    return ended


class WaitingClock:
    """The server's clock."""

    def advance(self, seconds):
        time.sleep(seconds)


class TestEverySignal:
    @pytest.fixture(params=["sqlite", "postgres", "redis"])
    def url(self, request, tmp_path):
        return url_of(request, tmp_path, request.param)

    def test_a_wait_ends_soon_after_its_job(self, settler, waiter, monkeypatch):
        """`python -m benchmarks ends` measures how soon; here only a signal that never comes must fail."""
        monkeypatch.setattr(job_waiter, "POLL_SECONDS", 10 * WAIT_SECONDS)
        for number in range(30):
            (lease,) = put_and_take(settler, make(number))
            ended = waits(waiter, number)
            time.sleep(0.02)  # the job runs
            settler.ack([Ack(lease=lease)])
            assert ended.get(timeout=WAIT_SECONDS)


class TestSqlite:
    @pytest.fixture
    def url(self, tmp_path):
        return url_of(None, tmp_path, "sqlite")

    def test_a_write_to_the_log_is_the_signal(self, settler, waiter, monkeypatch):
        monkeypatch.setattr(log_watch, "_IDLE_POLL_SECONDS", 10 * WAIT_SECONDS)
        monkeypatch.setattr(job_waiter, "POLL_SECONDS", 10 * WAIT_SECONDS)
        settler.put([make(1)])
        ended = waits(waiter, 1)
        settler.ack([Ack(lease=lease) for lease in settler.lease([QUEUE], limit=1, seconds=60)])
        assert ended.get(timeout=WAIT_SECONDS)

    def test_where_nothing_reports_writes_the_waiter_polls(self, settler, waiter, monkeypatch):
        monkeypatch.setattr(log_watch, "LogWatch", None)
        monkeypatch.setattr(log_watch.LogWatches, "_take", lambda self: (_ for _ in ()).throw(OSError("none left")))
        monkeypatch.setattr(job_waiter, "POLL_SECONDS", 10 * WAIT_SECONDS)
        settler.put([make(1)])
        ended = waits(waiter, 1)
        settler.ack([Ack(lease=lease) for lease in settler.lease([QUEUE], limit=1, seconds=60)])
        assert ended.get(timeout=WAIT_SECONDS)


class TestPostgresql:
    @pytest.fixture
    def url(self, postgres_url):
        return postgres_url

    @pytest.fixture
    def sent(self, monkeypatch):
        """How many statements about ends were sent, and how many found a process that waits."""
        counts, rows_on = [], connection.rows_on

        def recorded(session, statement, parameters):
            rows = rows_on(session, statement, parameters)
            if statement == NOTIFY_ENDS:
                counts.append(bool(rows))
            return rows

        monkeypatch.setattr(connection, "rows_on", recorded)
        return counts

    @pytest.fixture
    def listening(self, backend, waiter, monkeypatch):
        """The waiter listens, and polls neither because it is new nor because time has passed."""
        monkeypatch.setattr(end_signals, "_NEW_SECONDS", 0.0)
        monkeypatch.setattr(job_waiter, "POLL_SECONDS", 10 * WAIT_SECONDS)
        monkeypatch.setattr(end_signals, "CHECK_SECONDS", 0.0)
        backend.put([make(999, queue=OTHER)])
        waiting, wait = threading.Event(), end_signals._Waiting.wait

        def told(self, seconds, idle):
            waiting.set()
            return wait(self, seconds, idle)

        monkeypatch.setattr(end_signals._Waiting, "wait", told)
        waiter.watch(id_of(999), print)
        assert waiting.wait(WAIT_SECONDS)

    def test_without_a_wait_one_statement_a_second_asks_and_nothing_is_notified(self, settler, sent):
        for number in range(20):
            end(settler, number)
        assert sent.count(True) == 0
        assert len(sent) < 20

    @pytest.mark.usefixtures("listening")
    @pytest.mark.parametrize("end", ENDS)
    def test_each_end_notifies_the_process_that_waits(self, settler, waiter, sent, end):
        settler.put([make(1)])
        ended = waits(waiter, 1)
        ENDS[end](settler, WaitingClock())
        assert ended.get(timeout=WAIT_SECONDS)
        assert True in sent

    def test_a_process_that_was_held_up_asks_once_more_before_it_relies_on_notifications(self, monkeypatch):
        now, waits = [100.0], []
        monkeypatch.setattr(end_signals, "time", SimpleNamespace(monotonic=lambda: now[0]))
        connection = SimpleNamespace(fileno=int, notifies=lambda timeout: ["news"] if len(waits) == 3 else [])
        wakeup = SimpleNamespace(wait=lambda seconds, descriptor: not waits.append(seconds))
        waiting = end_signals._Waiting(connection, wakeup)
        for _ in range(5):
            assert waiting.wait(9.0, 0.0)
            now[0] += 5.0  # the thread is held up behind each question
        new, news = end_signals._POLL_WHILE_NEW_SECONDS, end_signals._POLL_AFTER_NEWS_SECONDS
        assert waits == [new, new, 9.0, news, 9.0]

    @pytest.mark.usefixtures("listening")
    def test_the_end_of_jobs_that_were_leased_together_notifies_the_process_that_waits(self, settler, waiter, sent):
        leases = put_and_take(settler, *(make(number) for number in range(50)))
        ended = waits(waiter, *range(50))
        settler.ack([Ack(lease=lease) for lease in leases])
        for _ in leases:
            ended.get(timeout=WAIT_SECONDS)
        assert sent.count(True) == 1

    @pytest.mark.usefixtures("listening")
    def test_ends_within_one_interval_send_one_notification_and_all_are_found(self, settler, waiter, sent, monkeypatch):
        leases = put_and_take(settler, *(make(number) for number in range(5)))
        ended = waits(waiter, *range(5))
        monkeypatch.setattr(end_signals, "NOTIFY_INTERVAL", WAIT_SECONDS)
        for lease in leases:
            settler.ack([Ack(lease=lease)])
        for _ in leases:
            ended.get(timeout=WAIT_SECONDS)
        assert sent.count(True) == 1

    @pytest.mark.usefixtures("listening")
    def test_after_the_last_wait_settlers_find_no_one(self, settler, waiter, sent):
        waiter.close()
        end(settler, 1)
        assert sent == [False]

    def test_waits_survive_a_cut_of_the_listening_connection(self, backend, settler, waiter, monkeypatch):
        monkeypatch.setattr(job_waiter, "_RETRY_SECONDS", 0.001)
        (lease,) = put_and_take(settler, make(1))
        ended = waits(waiter, 1)
        cut = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND left(query, 18) = 'LISTEN tenure_ends'"
        )
        eventually(lambda: settler.jobs._dialect.read(cut, {}))
        settler.ack([Ack(lease=lease)])
        assert ended.get(timeout=WAIT_SECONDS)


class TestRedis:
    @pytest.fixture
    def url(self, own_server):
        """A server that no other test uses: the tests cut all its subscriptions, and change its users."""
        return own_server("redis").url

    def test_waits_survive_a_cut_of_the_subscription(self, backend, settler, waiter, monkeypatch):
        monkeypatch.setattr(job_waiter, "_RETRY_SECONDS", 0.001)
        (lease,) = put_and_take(settler, make(1))
        ended = waits(waiter, 1)
        eventually(lambda: settler._client.ask("CLIENT", "KILL", "TYPE", "pubsub"))
        settler.ack([Ack(lease=lease)])
        assert ended.get(timeout=WAIT_SECONDS)

    def test_a_user_that_may_not_publish_or_subscribe_ends_jobs_and_waits_with_polls(self, url, settler, monkeypatch):
        monkeypatch.setattr(job_waiter, "POLL_SECONDS", 10 * WAIT_SECONDS)
        settler._client.ask("ACL", "SETUSER", "quiet", "on", "nopass", "~*", "+@all", "resetchannels")
        with_user = url.replace("redis://", "redis://quiet:any@")
        with closing(open_backend(with_user, SystemClock())) as quiet, closing(JobWaiter(quiet.ends)) as waiter:
            (lease,) = put_and_take(quiet, make(1))
            ended = waits(waiter, 1)
            assert quiet.ack([Ack(lease=lease)]) == []
            assert ended.get(timeout=WAIT_SECONDS)
        settler._client.ask("ACL", "DELUSER", "quiet")
