"""After a fork or spawn the child has connections of its own, and those of the parent stay usable."""

import multiprocessing

import pytest

from tenure import Tenure
from tenure.wire.signing import new_key
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture(params=["postgres", "mariadb", "redis"])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


def note(number):
    """The job."""


@pytest.fixture
def key():
    return new_key().dump()


def opened(url, key):
    app = Tenure(url, keys=[key])
    return app, app.job(name="note")(note)


def produce(job, first):
    for number in range(first, first + 20):
        job.enqueue(number=number)


def produce_on_its_own(url, key, first):
    app, job = opened(url, key)
    with app:
        produce(job, first)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of forking beside threads, as users do
def test_a_producer_that_forks_after_enqueueing_loses_nothing(url, key):
    app, job = opened(url, key)
    with app:
        produce(job, 0)
        fork = multiprocessing.get_context("fork")
        children = [fork.Process(target=produce, args=(job, first)) for first in (100, 200)]
        for child in children:
            child.start()
        produce(job, 300)  # while they do
        for child in children:
            child.join(WAIT_SECONDS)
        produce(job, 400)  # after they closed what they had
        assert [child.exitcode for child in children] == [0, 0]
        app.worker(burst=True).run()
        assert app.backend.queues.counts()["default"]["done"] == 100


def test_a_spawned_producer_opens_its_own_app(url, key):
    app, job = opened(url, key)
    with app:
        produce(job, 0)
        child = multiprocessing.get_context("spawn").Process(target=produce_on_its_own, args=(url, key, 100))
        child.start()
        produce(job, 200)
        child.join(WAIT_SECONDS)
        assert child.exitcode == 0
        app.worker(burst=True).run()
        assert app.backend.queues.counts()["default"]["done"] == 60
