"""Parsers bear any input: a short run of what `make fuzz` does for longer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fuzz.targets import SEEDS, TARGETS


def inputs(name: str) -> st.SearchStrategy[bytes]:
    """Any bytes, any text, and pieces of what the parser reads, cut and joined."""
    alphabet = sorted({piece for seed in SEEDS[name] for piece in _pieces(seed)})
    joined = st.lists(st.sampled_from(alphabet) | st.binary(max_size=2), max_size=30).map(b"".join)
    return st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")) | joined


def _pieces(seed: bytes) -> set[bytes]:
    return {seed, *(seed[at : at + 1] for at in range(len(seed))), *seed.replace(b",", b" , ").split()}


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_bears_anything(name):
    @settings(max_examples=max(300, settings().max_examples))
    @given(inputs(name))
    def bear(data):
        TARGETS[name](data)

    bear()


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_bears_what_it_was_made_for(name):
    for seed in SEEDS[name]:
        TARGETS[name](seed)
