"""The stored traceback of a failed attempt begins with the code of the user."""

import asyncio
import inspect
import re

import pytest

from tenure.builtin.url_destination import parse_url
from tenure.definition.duration import to_seconds
from tenure.definition.failure import from_exception
from tenure.errors import InvalidJob

HERE = __file__


def fail():
    raise ValueError("no such user")


async def fail_async():
    await asyncio.sleep(0)
    fail()


class Failing:
    def handle(self):
        fail()


class FailingHook:
    def before_run(self, context):
        fail()

    def handle(self): ...


def around(ctx, proceed):
    return proceed()


async def around_async(ctx, proceed):
    return await proceed()


def frames(trace):
    """File and function of each frame of each traceback."""
    each = re.split(r"Traceback \(most recent call last\)", trace)[1:]
    return [re.findall(r'File "(.*)", line \d+, in (\w+)', text) for text in each]


@pytest.mark.parametrize(
    ("target", "own", "first"),
    [
        (fail, {}, "fail"),
        (fail_async, {}, "fail_async"),
        (Failing, {}, "handle"),
        (FailingHook, {}, "before_run"),
        (fail, {"middleware": [around]}, "around"),
        (fail_async, {"middleware": [around_async]}, "around_async"),
    ],
)
@pytest.mark.parametrize("timeout", [None, 60])
def test_the_traceback_begins_in_the_code_of_the_user(perform, target, own, first, timeout):
    failure = perform(target, own=own, timeout=timeout).failure

    (found,) = frames(failure.trace)
    assert found[0] == (HERE, first)
    assert found[-1] == (HERE, "fail")
    assert failure.place.startswith(f"{HERE}:")
    assert failure.trace.endswith("ValueError: no such user\n")


def test_each_traceback_of_a_chain_and_of_a_group_begins_in_the_code_of_the_user(perform):
    async def job():
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fail_async())
        except ExceptionGroup as group:
            raise RuntimeError("all failed") from group

    found = frames(perform(job, timeout=60).failure.trace)

    assert [each[0] for each in found] == [(HERE, "job"), (HERE, "fail_async"), (HERE, "job")]


def test_frames_of_tenure_below_the_code_of_the_user_stay(perform):
    def job():
        to_seconds("soon")

    (found,) = frames(perform(job).failure.trace)

    assert [function for _, function in found] == ["job", "to_seconds", "_parse"]


def test_a_traceback_without_code_of_the_user_stays_whole(perform):
    (found,) = frames(perform(lambda: (each for each in ())).failure.trace)

    assert [function for _, function in found][:2] == ["perform", "_finish"]


def test_the_frames_of_a_builtin_handler_count_as_code_of_the_user(perform):
    class Visit:
        handle = parse_url  # gets no URL, but the instance

    found = frames(perform(Visit).failure.trace)

    assert found[0][0] == (inspect.getsourcefile(parse_url), "parse_url")


def test_the_record_of_an_error_says_where_its_class_is_defined():
    class Renamed(Exception):
        __module__ = "shop.\ud800"

    found = [from_exception(error, 0, 1) for error in (InvalidJob("no"), KeyError("x"), Renamed())]

    assert [record.module for record in found] == ["tenure.errors", "builtins", "shop.\\ud800"]


def test_an_error_that_was_never_raised_has_no_place():
    record = from_exception(InvalidJob("no"), 0, 1)

    assert (record.place, record.trace) == (None, "tenure.errors.InvalidJob: no\n")
