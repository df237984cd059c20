"""Templates and static files: what the content policy demands, and that text of a job is never markup."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import UndefinedError

from tenure.web import charts
from tenure.web.environment import FOLDER, STATIC, template_environment

NOW = datetime(2026, 11, 15, 14, 32, 8, tzinfo=UTC)
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
TEMPLATES = sorted((FOLDER / "templates").rglob("*.html"))
# What the pages write for themselves; a job's text must add none.
MARKUP = re.compile(r"<script(?! src=)|<img|onerror=(?!alert)")


def shell(**changes: Any) -> SimpleNamespace:
    entry = SimpleNamespace(key="jobs", name="Jobs", href="/jobs", count="58", tone="problem")
    values = {
        **{"app": "shop", "environment": "production", "backend": "PostgreSQL 15", "version": "0.2.0", "schema": 9},
        **{"updated": NOW, "user": "ops@example.com", "role": "operator", "stale": None, "live": 5, "theme": "auto"},
        **{"page": "jobs", "nav": [SimpleNamespace(name="Work", entries=[entry])], "root": "/ops", "keys": True},
        **{"path": "/ops/jobs", "query": "state=ready", "assets": "1", "may_sign_out": True},
    }
    return SimpleNamespace(**{**values, **changes})


def render(source: str, **context: Any) -> str:
    return template_environment().from_string(source).render(shell=shell(), now=NOW, **context)


PAGE = '{% extends "layout.html" %}{% block title %}Jobs{% endblock %}{% block content %}here{% endblock %}'


def test_the_frame_marks_the_current_page_and_keeps_links_below_the_root() -> None:
    html = render(PAGE)
    assert '<a href="/jobs" title="Jobs" aria-current="page"' in html
    assert 'href="/ops/static/tenure.css?1"' in html
    assert '<input type="hidden" name="next" value="/ops/jobs?state=ready">' in html
    assert html.count("<h1>") == 1


def test_a_stale_page_says_so_and_offers_to_try_again() -> None:
    html = template_environment().from_string(PAGE).render(shell=shell(stale="PostgreSQL does not answer."))
    assert 'role="alert"' in html
    assert "PostgreSQL does not answer." in html
    assert '<a class="btn small" href="/ops/jobs">Try now</a>' in html


@pytest.mark.parametrize("name", ["app", "environment", "backend", "user", "role", "path", "query", "stale"])
def test_no_text_of_the_frame_becomes_markup(name: str) -> None:
    html = template_environment().from_string(PAGE).render(shell=shell(**{name: EVIL}))
    assert "&lt;script&gt;" in html
    assert MARKUP.findall(html) == []


SERIES = charts.plot([NOW, NOW + timedelta(hours=1)], [charts.ChartSeries(EVIL, [1, 2], note=EVIL)])
CALLS = {
    "badges": [
        "tag(evil)",
        "badge('ready', evil)",
        "state('ready', evil)",
        "job_id(evil)",
        "whole_id(evil)",
        "copy(evil)",
        "count(3, evil)",
    ],
    "feedback": [
        "note('problem', evil, evil, evil, evil)",
        "toast(evil, {'action': evil, 'fields': [(evil, evil)]})",
        "bulk_progress('b', evil, 1, 2, 1, evil, none, evil)",
        "bulk_progress('b', evil, 1, 2, 1, evil, evil, evil)",
        "empty(evil, evil)",
        "first_run(evil, evil, [{'title': evil, 'code': evil, 'file': evil}], evil)",
    ],
    "figures": [
        "ribbon([{'state': 'ready', 'count': 1, 'href': evil, 'note': evil}])",
        "stats([{'label': evil, 'value': evil, 'context': evil, 'href': evil, 'title': evil}], [], 1, evil)",
        "figure('f', evil, evil, evil, series, evil)",
        "strip([{'outcome': 'failed', 'title': evil, 'href': evil}], evil)",
        "gauge(1, 2, evil, evil)",
    ],
    "forms": [
        "button(evil, '', evil, evil, evil, evil)",
        "link_button(evil, evil, '', true, none, evil, evil)",
        "link_button(evil, evil, reason=evil)",
        "action_button(evil, evil, [(evil, evil)], label=evil)",
        "menu(evil, evil, [{'name': evil, 'href': evil}, {'name': evil, 'reason': evil}])",
        "segmented(evil, [{'name': evil, 'href': evil, 'current': true}])",
        "field(evil, evil, evil, 'area', evil)",
        "field(evil, evil, evil, 'text', evil, evil)",
        "choice(evil, evil, [(evil, evil)], evil, evil)",
        "check(evil, evil, evil)",
        "chip(evil, evil, evil)",
        "confirm(evil, evil, evil, evil, evil, evil, [{'key': evil, 'value': evil}],"
        " [{'state': 'ready', 'text': evil, 'count': 1}], evil, evil, 3, evil, true, [(evil, evil)], {'form': evil})",
    ],
    "lists": [
        "tabs(evil, [{'name': evil, 'href': evil, 'count': evil, 'current': true}])",
        "filter_bar(evil, [{'key': evil, 'value': evil, 'href': evil}], [(evil, evil)], evil, evil,"
        " {'text': evil, 'suggestion': evil, 'href': evil}, {'label': evil, 'entries': []})",
        "head([{'name': evil, 'kind': evil, 'href': evil}], evil)",
        "pick(evil, evil, [evil])",
        "pager(1, 2, 3, evil, evil)",
        "selection_bar(3, [{'key': evil, 'name': evil, 'href': evil, 'reason': evil, 'all': 3}], evil)",
        "attention([{'tone': 'problem', 'parts': [(evil, true), (evil, false)], 'when': evil, 'action': evil,"
        " 'href': evil}], now, {'count': 3, 'href': evil})",
    ],
    "job": [
        "explanation('ready', evil, [evil])",
        "progress(1, 2, evil, evil)",
        "timeline([{'tone': 'dead', 'title': evil, 'place': evil, 'start': now, 'seconds': 3, 'lines': [evil],"
        " 'error': {'type': evil, 'text': evil}, 'trace': trace, 'id': evil}], now)",
        "code(evil)",
        "json_block({evil: [evil, {evil: 1}]})",
        "diff([{'sign': '+', 'text': evil}])",
        "fact(evil, evil)",
    ],
}


@pytest.mark.parametrize(("file", "call"), [(file, call) for file, calls in CALLS.items() for call in calls])
def test_no_argument_of_a_macro_becomes_markup(file: str, call: str) -> None:
    trace = [
        SimpleNamespace(kind="own", lines=(EVIL,), frames=0),
        SimpleNamespace(kind="library", lines=(EVIL,), frames=1),
    ]
    html = render(
        f'{{% import "macros/{file}.html" as macros %}}{{{{ macros.{call} }}}}', evil=EVIL, series=SERIES, trace=trace
    )
    assert "&lt;script&gt;" in html
    assert MARKUP.findall(html) == []
    assert not re.search(r"[\"'] onerror", html.replace("&#34;", "").replace("&#39;", ""))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_nothing_that_the_content_policy_forbids(path: Path) -> None:
    text = path.read_text("utf-8")
    assert re.findall(r"\sstyle=|\son[a-z]+=|hx-on|javascript:|https?://|<style", text) == []
    assert re.findall(r"<script(?! src=)", text) == []


def test_an_undefined_name_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="missing"):
        render("{{ missing }}")


@pytest.mark.parametrize(("name", "limit"), [("tenure.css", 30_000), ("tenure.js", 20_000)])
def test_static_files_stay_small(name: str, limit: int) -> None:
    assert (STATIC / name).stat().st_size < limit


def test_no_static_file_of_ours_asks_another_host() -> None:
    texts = [(STATIC / name).read_text("utf-8") for name in ("tenure.css", "tenure.js")]
    assert [found for text in texts for found in re.findall(r"https?://[^\s\"')]+|@import|url\(", text)] == []
