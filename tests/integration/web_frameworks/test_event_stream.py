"""The event stream of one client: what it tells, and that it ends when the server cancels it."""

import asyncio

import pytest

from tenure.integrations.job_api.event_stream import async_events
from tenure.integrations.job_api.watcher import JobSubscription


class Recorded:
    """A watcher whose news come from the test."""

    def __init__(self):
        self.subscriptions = []
        self.unsubscribed = []

    def subscribe(self, id, changed):
        self.subscriptions.append(JobSubscription(id, changed))
        return self.subscriptions[0]

    def unsubscribe(self, subscription):
        self.unsubscribed.append(subscription)


def test_a_cancel_at_the_moment_of_news_ends_the_stream(scene):
    job, watcher = scene.add.enqueue(1, 2), Recorded()

    async def follow():
        events = async_events(watcher, job.info())
        await anext(events)
        waiting = asyncio.create_task(anext(events))
        await asyncio.sleep(0.01)
        watcher.subscriptions[0].deliver(job.info())  # both reach the task in the same turn of the loop
        asyncio.get_running_loop().call_soon(waiting.cancel)
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(follow())
    assert watcher.unsubscribed == watcher.subscriptions


def test_the_end_is_told_once_and_is_the_last(scene):
    job, watcher = scene.add.enqueue(1, 2), Recorded()

    async def follow():
        told = []
        async for events in async_events(watcher, job.info()):
            told.append(events)
            if len(told) == 1:
                asyncio.get_running_loop().call_later(0.01, end)
        return told

    def end():
        scene.work()
        watcher.subscriptions[0].deliver(job.info())
        watcher.subscriptions[0].deliver(job.info())

    first, last = asyncio.run(follow())
    assert b"event: state" in first
    assert last.startswith(b"event: end\nid: end\n")
    assert watcher.unsubscribed == watcher.subscriptions


def test_a_job_that_was_deleted_ends_the_stream_without_an_outcome(scene):
    job, watcher = scene.add.enqueue(1, 2), Recorded()

    async def follow():
        events = async_events(watcher, job.info())
        await anext(events)
        asyncio.get_running_loop().call_later(0.01, lambda: watcher.subscriptions[0].deliver(None))
        return [each async for each in events]

    assert asyncio.run(follow()) == []
