"""The payloads that benchmarks send."""

import json

import pytest

from benchmarks.payloads import records


@pytest.mark.parametrize("size", [1000, 10_000])
def test_records_take_about_the_bytes_that_were_asked_for(size: int) -> None:
    text = json.dumps(records(size), separators=(",", ":"))
    assert 0.85 * size < len(text) <= size


def test_records_are_objects_of_text_numbers_and_booleans() -> None:
    kinds = {type(value) for value in records(1000)[-1].values()}
    assert kinds == {str, int, float, bool}
