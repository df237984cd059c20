"""The second try of tests that are marked `timing`: a busy machine may miss a deadline that the code keeps.

Only a failure of the test itself counts, not one of its fixtures, and a test is tried again once. The summary at the
end of a run lists what was tried again, because a race looks the same as a missed deadline. Any other test that fails
has failed.
"""

import pytest
from _pytest.runner import runtestprotocol

_FIRST_FAILURE = "first failure"
_TRIED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    if item.get_closest_marker("timing") is None or _TRIED in item.stash:
        return None  # pytest runs the test and reports the result
    item.stash[_TRIED] = True
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failed = next((report for report in reports if report.when == "call" and report.failed), None)
    if failed is not None:
        return _try_again(item, nextitem, failed)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _try_again(item: pytest.Item, nextitem: pytest.Item | None, failed: pytest.TestReport) -> object:
    """Run all hooks once more, so that the second try has a timeout of its own."""
    if item.config.pluginmanager.hasplugin("timeout"):
        item.ihook.pytest_timeout_cancel_timer(item=item)
    item.user_properties.append((_FIRST_FAILURE, _message(failed)))
    return item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)


def _message(failed: pytest.TestReport) -> str:
    """The first line of what was wrong."""
    crash = getattr(failed.longrepr, "reprcrash", None)
    return (crash.message if crash else failed.longreprtext).partition("\n")[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tried = [
        (report.nodeid, report.outcome, dict(report.user_properties)[_FIRST_FAILURE])
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call" and _FIRST_FAILURE in dict(report.user_properties)
    ]
    if tried:
        terminalreporter.section(f"{len(tried)} tried again (marked timing)")
        for place, outcome, message in sorted(tried):
            terminalreporter.line(f"{place}: {outcome}, after {message}")
