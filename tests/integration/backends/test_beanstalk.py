"""What is special to beanstalkd: leases that end with their connection, copies, buried jobs, limits and restarts."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from secrets import token_hex

import greenstalk
import pytest
from msgspec import structs

from tenure import Job, Tenure
from tenure.backends.beanstalk import copies
from tenure.backends.beanstalk.connection import ConnectionLost
from tenure.backends.messages import Abandon, Ack, Nack
from tenure.backends.url import open_backend
from tenure.clock import SystemClock
from tenure.definition.failure import Failure
from tenure.errors import BackendError, BackendUnavailable, InvalidPayload, PartialPut, UnknownBackend
from tenure.wire.envelope import Callbacks, Follower
from tenure.wire.signing import Ring, new_key
from tests.support.fault_proxy import FaultProxy
from tests.support.waiting import WAIT_SECONDS

QUEUE = "mail"
SHORT_TTR = 5  # seconds; longer than a busy machine stops a process


@pytest.fixture
def prefix():
    return f"test-{token_hex(6)}."


@pytest.fixture
def opened(beanstalk_url, prefix):
    """Open a backend at this test's tubes: opened(ttr=5)."""
    backends = []

    def open_it(ttr=15, url=beanstalk_url):
        backends.append(open_backend(f"{url}?ttr={ttr}&prefix={prefix}", SystemClock()))
        return backends[-1]

    yield open_it
    for backend in backends:
        backend.close()


@pytest.fixture
def backend(opened):
    return opened()


@pytest.fixture
def plain(beanstalk_url, prefix):
    """The tube as any other client sees it."""
    address = beanstalk_url.removeprefix("beanstalk://").split(":")
    tube = f"{prefix}{QUEUE}"
    with closing(greenstalk.Client((address[0], int(address[1])), encoding=None, use=tube, watch=tube)) as client:
        yield client


def lease(backend, limit=1, seconds=1.0, wait=0.0):
    return backend.lease([QUEUE], limit=limit, seconds=seconds, wait=wait)


def put_and_lease(backend, message, number=1, seconds=1.0):
    backend.put([message(number)])
    (held,) = lease(backend, seconds=seconds)
    return held


def ids(leases):
    return [each.id for each in leases]


def bury(backend, message, number=1):
    held = put_and_lease(backend, message, number)
    backend.abandon([Abandon(lease=held, reason="failed")])
    return held


def run_out(backend):
    """Let reservations run out; beanstalkd 1.12 misses one in six while the holder's connection is quite silent."""
    threading.Event().wait(SHORT_TTR + 0.1)
    backend.queues.counts()


class TestLeases:
    def test_the_server_takes_a_job_back_from_a_silent_holder_whose_ack_is_then_refused(self, opened, message):
        silent, other = opened(ttr=SHORT_TTR), opened(ttr=SHORT_TTR)
        held = put_and_lease(silent, message)
        run_out(silent)
        (again,) = lease(other)
        assert (again.id, again.fence, again.vanished, again.crashes) == (held.id, 2, 1, 0)
        assert silent.ack([Ack(lease=held)]) == [held]
        assert silent.renew([held], seconds=1) == [held]
        assert other.ack([Ack(lease=again)]) == []

    def test_a_job_that_the_same_connection_reserved_again_has_a_lease_of_its_own(self, opened, message):
        backend = opened(ttr=SHORT_TTR)
        stale = put_and_lease(backend, message)
        run_out(backend)
        (present,) = lease(backend)
        assert backend.ack([Ack(lease=stale)]) == [stale]
        assert backend.ack([Ack(lease=present)]) == []

    def test_a_renewed_lease_outlives_its_ttr(self, opened, message):
        backend, other = opened(ttr=SHORT_TTR), opened(ttr=SHORT_TTR)
        held = put_and_lease(backend, message)
        for _ in range(2 * SHORT_TTR + 1):
            threading.Event().wait(0.5)
            assert backend.renew([held], seconds=1) == []
        assert lease(other) == []
        assert backend.ack([Ack(lease=held)]) == []

    def test_a_lost_connection_loses_its_leases_and_the_jobs_are_ready_at_once(self, opened, message, beanstalk_url):
        other = opened(ttr=600)
        with FaultProxy(beanstalk_url) as proxy:
            backend = opened(ttr=600, url=proxy.url)
            held = put_and_lease(backend, message)
            proxy.reset()
            assert backend.renew([held], seconds=1) == [held]
            assert backend.ack([Ack(lease=held)]) == [held]
            (again,) = lease(other, wait=WAIT_SECONDS)
            assert (again.id, again.vanished) == (held.id, 1)

    def test_every_lease_that_vanishes_is_counted(self, opened, message):
        first = opened()
        first.put([message(1)])
        for vanished in (0, 1, 2):
            holder = opened()
            (held,) = lease(holder, wait=WAIT_SECONDS)
            assert held.vanished == vanished
            holder.close()
        (held,) = lease(first, wait=WAIT_SECONDS)
        assert (held.vanished, held.crashes, held.attempts, held.fence) == (3, 0, 0, 4)

    def test_every_lease_that_vanishes_alone_is_charged_as_a_crash(self, opened, message):
        first = opened()
        first.nack([Nack(lease=put_and_lease(first, message), charge="suspect")])
        assert first.queues.counts()[QUEUE]["parked"] == 1
        for crashes in (0, 1, 2):
            holder = opened()
            (held,) = holder.lease_suspect([QUEUE], seconds=1)
            assert (held.crashes, held.alone) == (crashes, True)
            holder.close()

    def test_a_wait_does_not_hold_up_what_is_leased_already(self, backend, message):
        held = put_and_lease(backend, message)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(lease, backend, wait=WAIT_SECONDS)
            threading.Event().wait(0.2)  # so that it is truly waiting
            assert backend.renew([held], seconds=1) == []
            assert backend.ack([Ack(lease=held)]) == []
            backend.put([message(2)])
            assert ids(waiting.result(WAIT_SECONDS / 2)) == [message(2).id]

    @pytest.mark.timing
    def test_a_lease_in_its_last_second_does_not_disturb_the_next(self, opened, message):
        backend = opened(ttr=1)
        held = put_and_lease(backend, message)
        assert lease(backend) == []  # the server answers that a deadline is soon
        assert backend.ack([Ack(lease=held)]) == []

    def test_a_lease_longer_than_the_ttr_is_refused_with_what_to_do(self, opened):
        with pytest.raises(BackendError, match="set the option ttr=60"):
            lease(opened(ttr=15), seconds=60)

    def test_a_job_that_was_put_with_a_shorter_ttr_gets_a_longer_one(self, opened, message, plain):
        opened(ttr=SHORT_TTR).put([message(1), message(2)])
        backend = opened(ttr=20)
        taken = lease(backend, 2, 20) or lease(backend, 2, 20)
        assert ids(taken) == [message(1).id, message(2).id]
        assert [plain.stats_job(each.token[1])["ttr"] for each in taken] == [20, 20]
        assert backend.ack([Ack(lease=each) for each in taken]) == []

    def test_closing_wakes_whoever_waits(self, opened):
        backend = opened()
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(lease, backend, wait=WAIT_SECONDS)
            threading.Event().wait(0.2)  # so that it is truly waiting
            backend.close()
            with pytest.raises(BackendUnavailable):
                waiting.result(WAIT_SECONDS / 2)


class TestCopies:
    def test_a_crash_between_the_copy_and_the_delete_duplicates_and_the_duplicate_is_recognised(
        self, opened, message, monkeypatch, eventually
    ):
        backend, other = opened(), opened()
        held = put_and_lease(backend, message)

        def die(*_):
            for pooled in backend._pool._connections.values():
                pooled.connection.close()
            raise ConnectionLost("the process died here", [])

        with monkeypatch.context() as patch:
            patch.setattr(copies, "_end_old_job", die)
            assert backend.nack([Nack(lease=held, charge="attempt")]) == [held]
        eventually(lambda: other.queues.counts()[QUEUE]["ready"] == 2)
        (copy,) = lease(other)
        assert (copy.id, copy.attempts) == (held.id, 1)
        assert other.queues.counts()[QUEUE] == {**other.queues.counts()[QUEUE], "ready": 0, "leased": 1}
        assert other.ack([Ack(lease=copy)]) == []

    def test_a_settle_of_a_job_that_the_server_took_back_leaves_no_copy(self, opened, message):
        backend, other = opened(ttr=SHORT_TTR), opened(ttr=SHORT_TTR)
        held = put_and_lease(backend, message)
        run_out(backend)
        (again,) = lease(other)
        assert backend.nack([Nack(lease=held, charge="attempt")]) == [held]
        assert backend.abandon([Abandon(lease=held, reason="failed")]) == [held]
        assert other.queues.counts()[QUEUE]["leased"] == 1
        assert sum(other.queues.counts()[QUEUE].values()) == 1
        assert again.attempts == 0

    def test_what_came_back_keeps_its_order_before_what_is_fresh(self, backend, message):
        backend.put([message(number) for number in range(4)])
        one, two, three = lease(backend, 3)
        backend.nack([Nack(lease=each, charge="attempt") for each in (three, one, two)])
        assert ids(lease(backend, 10)) == [message(number).id for number in range(4)]

    def test_many_long_failures_never_make_a_job_too_big(self, backend, message):
        backend.put([message(1, body=b"x" * 60_000)])
        for number in range(6):
            (held,) = lease(backend)
            failure = Failure(type="ValueError", message="m" * 2000, at=number, attempt=number, trace="t" * 8000)
            assert backend.nack([Nack(lease=held, charge="attempt", failure=failure)]) == []
        (held,) = lease(backend)
        assert (held.attempts, len(held.body)) == (6, 60_000)
        backend.abandon([Abandon(lease=held, reason="failed")])
        (letter,) = backend.dead_letters.page()
        assert [failure.at for failure in letter.failures] == [5]


class TestWhatOthersPut:
    def test_a_job_of_another_program_becomes_a_dead_letter_with_its_bytes(self, opened, plain, beanstalk_url, prefix):
        plain.put(b"not of our making")
        with Tenure(f"{beanstalk_url}?prefix={prefix}", keys=[new_key().dump()], store="memory://") as app:
            assert app.worker(QUEUE, burst=True).run() == {"rejected": 1}
            (letter,) = app.backend.dead_letters.page()
        assert (letter.reason, letter.body) == ("malformed", b"not of our making")

    def test_a_follower_whose_queue_holds_a_command_deletes_no_foreign_job(self, plain, beanstalk_url, prefix, message):
        foreign = plain.put(b"theirs")
        plain.watch("default")
        plain.ignore(f"{prefix}{QUEUE}")
        with Tenure(f"{beanstalk_url}?prefix={prefix}", keys=[new_key().dump()], store="memory://") as app:
            app.job(name="greet", queue="post")(lambda: None)
            wire = app.open_backend().wire
            envelope = wire.envelope(Job(handler="greet", queue="post"), b"{}", message(1).id, 0)
            follower = structs.replace(envelope, queue=f"x\r\ndelete {foreign}")
            parent = structs.replace(envelope, callbacks=Callbacks(then=(Follower(follower),)))
            app.backend.put([message(1, queue="post", body=wire.seal_envelope(parent))])
            assert app.worker("post", burst=True).run() == {"rejected": 1}
            (letter,) = app.backend.dead_letters.page()
        assert "cannot name a queue" in letter.failures[0].message
        assert plain.stats_job(foreign)["state"] == "ready"

    @pytest.mark.parametrize(
        ("honest", "forged"),
        [(b'"attempts":1', b'"attempts":0'), (b'"vanished":1,', b"")],
        ids=["fewer attempts", "nothing vanished"],
    )
    def test_counters_that_somebody_forged_do_not_pass(self, backend, message, plain, honest, forged):
        backend.use_keys(Ring([new_key()]))
        held = put_and_lease(backend, message)
        backend.nack([Nack(lease=held, charge="attempt")])
        backend.nack([Nack(lease=lease(backend)[0], charge="vanished")])
        job = plain.reserve()
        assert honest in job.body
        plain.put(job.body.replace(honest, forged))
        plain.delete(job)
        (held,) = lease(backend)
        assert held.body.startswith(b"tenure1 {")
        assert held.id != message(1).id


class TestGraves:
    def test_dead_letters_are_buried_where_every_tool_sees_them(self, backend, message, plain):
        bury(backend, message)
        assert plain.stats_tube(plain.using())["current-jobs-buried"] == 1
        assert backend.queues.counts()[QUEUE]["dead"] == 1

    def test_a_kick_by_hand_is_a_replay(self, backend, message, plain):
        held = bury(backend, message)
        assert len(backend.dead_letters.page()) == 1
        plain.kick(10)
        (again,) = lease(backend)
        assert (again.id, again.attempts, again.crashes, again.vanished) == (held.id, 0, 0, 0)
        assert again.fence > held.fence
        assert backend.ack([Ack(lease=again)]) == []

    def test_a_dead_letter_that_a_dying_reader_left_ready_is_buried_again_and_not_run(self, backend, message, plain):
        bury(backend, message)
        job = plain.peek_buried()
        plain.reserve_job(job.id)
        plain.close()
        assert lease(backend) == []
        assert [letter.reason for letter in backend.dead_letters.page()] == ["failed"]

    def test_of_two_dead_copies_of_one_job_only_the_last_is_kept(self, opened, message, monkeypatch):
        backend, other = opened(), opened()
        held = put_and_lease(backend, message)

        def die(*_):
            for pooled in backend._pool._connections.values():
                pooled.connection.close()
            raise ConnectionLost("the process died here", [])

        with monkeypatch.context() as patch:
            patch.setattr(copies, "_end_old_job", die)
            backend.abandon([Abandon(lease=held, reason="first")])
        (again,) = lease(other)
        other.abandon([Abandon(lease=again, reason="second")])
        assert [letter.reason for letter in other.dead_letters.page()] == ["second"]
        assert other.queues.counts()[QUEUE]["dead"] == 1

    def test_old_dead_letters_are_trimmed_and_young_ones_stay(self, backend, message):
        bury(backend, message, 1)
        (old,) = backend.dead_letters.page()
        bury(backend, message, 2)
        assert backend.dead_letters.trim(old.finished_at, 10) == 0
        assert backend.dead_letters.trim(old.finished_at + 1, 10) == 1
        assert ids(backend.dead_letters.page()) == [message(2).id]


class TestLimits:
    def test_a_message_above_the_servers_limit_is_refused_with_the_others_of_its_batch(self, backend, message):
        with pytest.raises(InvalidPayload, match="option -z"):
            backend.put([message(1), message(2, body=b"x" * 65_000)])
        assert lease(backend) == []

    def test_a_server_that_drains_refuses_puts_and_loses_no_retry(self, own_server, message):
        server = own_server("beanstalk")
        with closing(open_backend(server.url, SystemClock())) as backend:
            backend.put([message(1), message(2)])
            retried, buried = lease(backend, 2)
            server.process.send_signal(signal.SIGUSR1)
            with pytest.raises(PartialPut, match="draining") as refused:
                backend.put([message(3)])
            assert refused.value.accepted == []
            assert backend.nack([Nack(lease=retried, charge="attempt")]) == []
            assert backend.abandon([Abandon(lease=buried, reason="failed")]) == []
            assert ids(lease(backend, 10)) == [message(1).id]
            assert backend.queues.counts()[QUEUE]["dead"] == 1

    def test_a_put_that_is_cut_off_names_what_was_stored(self, opened, message, beanstalk_url):
        with FaultProxy(beanstalk_url) as proxy:
            backend = opened(url=proxy.url)
            backend.put([message(0)])
            proxy.cut_requests_after = 40_000
            with pytest.raises(PartialPut, match="connection") as error:
                backend.put([message(number, body=b"x" * 1000) for number in range(1, 300)])
        stored = lease(opened(), 300)
        assert set(error.value.accepted) <= set(ids(stored))
        assert len(stored) < 300

    def test_a_server_that_does_not_answer_is_given_up(self, opened, message, beanstalk_url, monkeypatch):
        with FaultProxy(beanstalk_url) as proxy:
            backend = opened(url=proxy.url)
            proxy.swallow_replies = True
            with monkeypatch.context() as patch:
                patch.setattr(backend._pool, "_timeout", 0.3)
                with pytest.raises(BackendUnavailable, match="timed out"):
                    lease(backend)
            proxy.heal()
            backend.put([message(1)])
            assert ids(lease(backend)) == [message(1).id]

    def test_nobody_there_is_said_with_the_address(self, opened):
        with pytest.raises(BackendUnavailable, match=r"beanstalkd at 127.0.0.1:9 cannot be reached"):
            lease(opened(url="beanstalk://127.0.0.1:9"))

    @pytest.mark.parametrize(
        ("url", "complaint"),
        [
            ("beanstalk://localhost?wrong=1", "unknown option 'wrong'"),
            ("beanstalk://localhost?ttr=0", "whole seconds"),
            ("beanstalk://localhost?prefix=a b", "characters that tubes cannot have"),
            ("beanstalk:///mail", "beanstalk://host:11300"),
        ],
    )
    def test_urls_that_make_no_sense_are_refused(self, url, complaint):
        with pytest.raises(UnknownBackend, match=complaint):
            open_backend(url, SystemClock())


class TestRestarts:
    def test_a_server_with_a_binlog_keeps_jobs_counters_delays_and_dead_letters(self, own_server, message):
        server = own_server("beanstalk", durable=True)
        with closing(open_backend(server.url, SystemClock())) as backend:
            backend.put([message(1), message(2, delay=600), message(3), message(4)])
            retried, dead, held = lease(backend, 3)
            backend.nack([Nack(lease=retried, charge="attempt")])
            backend.abandon([Abandon(lease=dead, reason="failed")])
            server.kill()
            server.start()
            assert backend.ack([Ack(lease=held)]) == [held]
            found = {each.id: each for each in lease(backend, 10)}
            assert {id: each.attempts for id, each in found.items()} == {message(1).id: 1, message(4).id: 0}
            assert [letter.reason for letter in backend.dead_letters.page()] == ["failed"]
            with closing(greenstalk.Client(("127.0.0.1", server.port), encoding=None, use="tenure.mail")) as client:
                client.kick_job(client.peek_delayed())
            assert ids(lease(backend)) == [message(2).id]

    def test_health_tells_whether_jobs_survive_a_restart(self, own_server, opened):
        with closing(open_backend(own_server("beanstalk", durable=True).url, SystemClock())) as durable:
            assert not durable.server.facts()[0].warning
        assert opened().server.facts()[0].warning
        assert opened().queues is not None
        assert opened().workers is None

    def test_a_worker_outlives_a_restart_of_its_server(self, own_server, tmp_path, eventually):
        server = own_server("beanstalk", durable=True)
        with Tenure(server.url, keys=[new_key().dump()], lease=2.0, store="memory://") as app:
            ran = []

            @app.job
            def step(number: int):
                ran.append(number)

            worker = app.worker()
            thread = threading.Thread(target=worker.run)
            thread.start()
            try:
                step.enqueue(number=1)
                eventually(lambda: ran == [1])
                server.kill()
                server.start()
                step.enqueue(number=2)
                eventually(lambda: set(ran) == {1, 2})
                eventually(lambda: not app.backend.queues.counts())
            finally:
                worker.stop()
                thread.join(WAIT_SECONDS)


APP = """
import os, sys, time
from tenure import Tenure
app = Tenure(sys.argv[1], keys=[sys.argv[2]], lease=2.0, store="memory://")
@app.job
def step(number: int):
    os.write(1, f"{number}\\n".encode())
    time.sleep(0.002)  # or the worker leases hundreds ahead, which then run one at a time
app.worker().run()
"""


@pytest.mark.slow
def test_workers_killed_one_after_the_other_lose_no_job(beanstalk_url, prefix, start):
    url, key = f"{beanstalk_url}?prefix={prefix}", new_key().dump()
    with Tenure(url, keys=[key], lease=2.0, store="memory://") as app:
        ran = set()

        @app.job
        def step(number: int):
            ran.add(number)

        app.enqueue_many(step.build(number=number) for number in range(700))
        for _ in range(3):
            worker = start(APP, url, key)
            ran.update(int(worker.stdout.readline()) for _ in range(50))
            worker.kill()
            ran.update(int(line) for line in worker.stdout.read().split())
            worker.wait()
        app.worker(burst=True).run()
        assert ran == set(range(700))
        assert app.backend.queues.counts() == {}
