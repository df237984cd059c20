"""A test that is marked `timing` is tried once more when it fails, and no other test is."""

import pytest

pytest_plugins = ["pytester"]

FAILS_BEFORE = """
    from pathlib import Path

    import pytest

    def fails(times):
        tries = Path("tries")
        with tries.open("a") as file:
            file.write("x")
        assert len(tries.read_text()) > times, "too late"

    @pytest.fixture
    def fresh():
        with Path("fixtures").open("a") as file:
            file.write("x")
"""


@pytest.fixture
def run(request, pytester):
    """Runs tests with the plugin, in this process or in a process of xdist."""
    where = getattr(request, "param", "-pno:xdist")
    pytester.makeini("[pytest]\nmarkers = timing\naddopts = --strict-markers")

    def run(tests):
        pytester.makepyfile(FAILS_BEFORE + tests)
        return pytester.runpytest_inprocess("-q", "-p", "tests.support.second_try", where)

    return run


def tries(pytester, name="tries"):
    return len((pytester.path / name).read_text())


@pytest.mark.parametrize("run", ["-pno:xdist", "-n1"], indirect=True)
def test_a_timing_test_that_fails_once_passes_and_is_counted(run, pytester):
    result = run("""
    @pytest.mark.timing
    def test_it(fresh):
        fails(times=1)
    """)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 tried again (marked timing)*", "*::test_it: passed, after *too late*"])
    assert (tries(pytester), tries(pytester, "fixtures"), result.ret) == (2, 2, 0)


@pytest.mark.parametrize("run", ["-pno:xdist", "-n1"], indirect=True)
def test_a_timing_test_that_fails_twice_fails(run, pytester):
    result = run("""
    @pytest.mark.timing
    def test_it():
        fails(times=9)
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 tried again (marked timing)*", "*::test_it: failed, after *too late*"])
    assert (tries(pytester), result.ret) == (2, 1)


def test_a_failing_test_without_the_marker_is_not_tried_again(run, pytester):
    result = run("""
    def test_it():
        fails(times=1)
    """)

    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*tried again*")
    assert tries(pytester) == 1


def test_a_timing_test_that_passes_runs_once(run, pytester):
    result = run("""
    @pytest.mark.timing
    def test_it():
        fails(times=0)
    """)

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*tried again*")
    assert tries(pytester) == 1


def test_a_fixture_that_fails_is_not_tried_again(run, pytester):
    result = run("""
    @pytest.fixture
    def broken():
        fails(times=1)

    @pytest.mark.timing
    def test_it(broken):
        pass
    """)

    result.assert_outcomes(errors=1)
    assert tries(pytester) == 1


def test_the_second_try_has_a_timeout_of_its_own(run, pytester):
    result = run("""
    import signal

    @pytest.mark.timing
    @pytest.mark.timeout(60)
    def test_it(fresh):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
        signal.raise_signal(signal.SIGALRM)  # as when the time is up
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *Failed: Timeout (>60*", "*::test_it: failed, after *Timeout*"])
    assert tries(pytester, "fixtures") == 2
