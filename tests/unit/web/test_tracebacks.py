"""Tracebacks: own frames stand out, library frames fold, hostile text stays text."""

from hypothesis import given
from hypothesis import strategies as st

from tenure.web.tracebacks import traceback_lines

LIBRARY = '  File "/srv/.venv/lib/python3.11/site-packages/psycopg/cursor.py", line 97, in execute\n    raise error'
TEXT = f"""Traceback (most recent call last):
{LIBRARY}
{LIBRARY}
  File "/srv/shop/imports.py", line 141, in import_products
    store.upsert(batch)
  File "/srv/shop/store.py", line 57, in upsert
    cursor.executemany(UPSERT, rows)
    ~~~~~~~~~~~~~~~~~~^^^^^^^^^^^^^^
{LIBRARY}
psycopg.errors.DeadlockDetected: deadlock detected
DETAIL: Process 4120 waits"""


def test_a_traceback_is_split_by_whose_frame_it_is() -> None:
    assert [(part.kind, part.frames, len(part.lines)) for part in traceback_lines(TEXT)] == [
        ("text", 0, 1),
        ("library", 2, 4),
        ("own", 0, 3),
        ("raised", 0, 2),
        ("library", 1, 2),
        ("error", 0, 1),
        ("text", 0, 1),
    ]


def test_the_marked_line_is_the_last_own_one_before_the_error() -> None:
    raised = next(part for part in traceback_lines(TEXT) if part.kind == "raised")
    assert raised.lines[0] == "    cursor.executemany(UPSERT, rows)"


def test_each_error_of_a_chain_is_marked() -> None:
    chain = f"{TEXT}\n\nThe above exception was the direct cause of the following exception:\n\n{TEXT}"
    assert [part.kind for part in traceback_lines(chain)].count("error") == 2


def test_text_that_is_no_traceback_stays_as_it_is() -> None:
    assert [(part.kind, part.lines) for part in traceback_lines("exit code 3\nno such file")] == [
        ("text", ("exit code 3", "no such file"))
    ]


def test_a_long_traceback_loses_its_beginning_and_says_so() -> None:
    parts = traceback_lines("\n".join(f"line {at}" for at in range(1000)), limit=10)
    assert parts[0].lines[0] == "… 990 lines are left out"
    assert parts[-1].lines[-1] == "line 999"


@given(st.text(alphabet='File "/,line0123in\n ~^:\x1b'))
def test_no_text_breaks_the_reader_and_no_line_is_lost(text: str) -> None:
    lines = [line for part in traceback_lines(text) for line in part.lines]
    assert lines == text.rstrip("\n").split("\n")
