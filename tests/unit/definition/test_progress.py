"""A handler reports progress, and learns that its job was cancelled."""

import math

import pytest

from tenure import Context
from tenure.definition.context import LocalLink, Progress
from tenure.errors import Cancelled


@pytest.fixture
def link():
    return LocalLink()


@pytest.fixture
def ctx(link):
    return Context(id="id-1", handler="ping", payload=None, queue="default", link=link)


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(40.0, 100.0), "40 of 100 (40 %)"),
        (Progress(12), "12"),
        (Progress(0.25, 1.5), "0.25 of 1.5 (17 %)"),
        (Progress(0, 0), "0 of 0"),
        (Progress(1234567, 12345678), "1234567 of 12345678 (10 %)"),
    ],
)
def test_progress_reads_as_a_person_would_say_it(progress, text):
    assert str(progress) == text


def test_the_last_word_counts(ctx, link):
    ctx.progress(1, 3)
    ctx.progress(2, 3)
    assert link.progress == Progress(2, 3)


def test_nobody_needs_to_know_the_total(ctx, link):
    ctx.progress(7)
    assert link.progress == Progress(7, None)


def test_more_than_all_is_all(ctx, link):
    ctx.progress(5, 3)
    assert link.progress == Progress(3, 3)


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf])
def test_numbers_that_count_nothing_are_refused_with_their_value(ctx, link, wrong):
    with pytest.raises(ValueError, match=f"done is {wrong!r}"):
        ctx.progress(wrong)
    with pytest.raises(ValueError, match=f"total is {wrong!r}"):
        ctx.progress(1, wrong)
    assert link.progress is None


def test_a_context_without_a_watcher_can_tell_and_ask_too():
    ctx = Context(id="id-1", handler="ping", payload=None, queue="default")
    ctx.progress(1, 2)
    ctx.raise_if_cancelled()
    assert ctx.cancelled is False


def test_a_cancelled_job_can_look_and_stop_where_it_likes(ctx, link):
    link.cancelled = True
    assert ctx.cancelled is True
    with pytest.raises(Cancelled, match="was cancelled while it ran"):
        ctx.raise_if_cancelled()


def test_being_cancelled_is_an_interrupt_that_handlers_do_not_swallow():
    assert not issubclass(Cancelled, Exception)
