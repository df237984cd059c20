"""The metrics page keeps the conventions of Prometheus, and the dashboard and the alert rules select what it has."""

import json
import re
import sqlite3
import urllib.request
from collections import defaultdict
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parsed

from tenure import Cancel, Tenure
from tenure.app.outbox import create_table
from tenure.backends.messages import Message, Nack, Park
from tenure.backends.records import WorkerRecord
from tenure.cli.metrics_server import AppMetrics, MetricsServer
from tenure.errors import BackendError
from tenure.events import LeaseLost, Notified
from tenure.metrics.counters import WorkerCounters
from tests.support import promql
from tests.support.promtool import installed_promtool, run
from tests.support.servers.fixtures import absent
from tests.support.servers.server import Missing
from tests.support.waiting import WAIT_SECONDS

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "deploy" / "grafana" / "tenure.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
CASES = Path(__file__).with_name("alert_cases.yaml")
REFERENCE = (ROOT / "docs" / "reference" / "events-and-metrics.md").read_text("utf-8")
GUIDE = (ROOT / "docs" / "how-to" / "use-prometheus-and-grafana.md").read_text("utf-8")
OF_PROMETHEUS = {"job", "instance"}  # labels that Prometheus adds to every series
FEW_VALUES = {"state", "status", "verb"}  # labels whose values Tenure chooses
UNITS = ("seconds", "bytes", "ratio", "per_second", "jobs", "info", "timestamp_seconds")
COUNTED_THINGS = ("jobs", "workers", "processes", "slots", "leases", "up")
NOT_BASE_UNITS = re.compile(r"_(ms|milliseconds|minutes|hours|days|kb|kilobytes|mb|megabytes|percent|celsius)(_|$)")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a worker that has run jobs of all kinds, and whose backend has failed."""
    folder = tmp_path_factory.mktemp("page")
    shop = f"{folder}/shop.db"
    with Tenure(f"sqlite:///{folder}/jobs.db", backoff={"jitter": 0}, outboxes=[f"sqlite:///{shop}"]) as app:
        worker = app.worker(burst=True)
        metrics = AppMetrics(app, ["default"], worker)
        enqueue_all_kinds(app)
        worker.run()
        report_rare_events(app)
        use_outbox(app, shop)
        with (
            MetricsServer("127.0.0.1", 0, metrics.snapshot) as server,
            urllib.request.urlopen(server.url, timeout=WAIT_SECONDS) as answer,
        ):
            return answer.read().decode()


def enqueue_all_kinds(app):
    @app.job
    def greet():
        pass

    @app.job(max_retries=1, backoff="none")
    def fail():
        raise ValueError

    @app.job
    def give_up():
        raise Cancel

    greet.enqueue()
    fail.enqueue()
    give_up.enqueue()
    greet.using(expires_at=datetime.now(UTC) + timedelta(milliseconds=1)).enqueue()
    for _ in range(2):
        greet.using(idempotency_key="once").enqueue()
    greet.using(delay="1h").enqueue()
    for _ in range(2):
        greet.using(queue="other").enqueue()


def report_rare_events(app):
    """What a healthy worker never does: the collector learns it by the same listeners and wrappers."""
    counters = WorkerCounters(app.metrics)
    counters(LeaseLost(("1",), "settle"))
    counters(Notified("deaths", "mail", "sent", 1))
    bad = Message(id="job-bad", queue="default", body=object(), handler="greet")
    for call in (lambda: app.backend.reap(None), lambda: app.backend.put([bad])):
        with pytest.raises((TypeError, BackendError)):
            call()
    nacked, parked = app.backend.lease(["other"], limit=2, seconds=60)
    app.backend.renew([nacked, parked], seconds=60)
    app.backend.nack([Nack(lease=nacked)])
    app.backend.reap(["default"])
    minute_ago = app.clock.now() - 60_000_000
    ours = {"queues": ("default",), "rates": {"default": 2.0}, "live": {"default": 1}, "live_at": minute_ago}
    times = {"started_at": minute_ago, "seen_at": app.clock.now()}
    record = WorkerRecord(id="w", host="h", pid=1, runner="inline", concurrency=1, **ours, **times)
    app.backend.workers.announce(record, 3600.0)
    app.backend.parking.park([Park(lease=parked, key="lock:one", reason="locked")])


def use_outbox(app, file):
    """Move one job out of an outbox, and leave one in it."""
    with closing(sqlite3.connect(file)) as connection:
        create_table(connection)
        for move in (app.outboxes.move, lambda: None):
            app.outbox(connection).enqueue(app.define("greet", {}).build())
            connection.commit()
            move()


@pytest.fixture(scope="module")
def families(page):
    return {family.name: family for family in parsed(page)}


@pytest.fixture(scope="module")
def series(families):
    """The labels of each name on the page, each with its values."""
    found = defaultdict(lambda: defaultdict(set))
    for family in families.values():
        for sample in family.samples:
            labels = found[sample.name]
            for name, value in sample.labels.items():
                labels[name].add(value)
    return found


def documented():
    """Name, type and labels of the families, as the reference lists them."""
    section = REFERENCE.split("### Names on the metrics page")[1].split("\n### ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if "| `tenure_" in line]
    for name, *cells in rows:
        plain = name.strip("`")
        kind = cells[0] if len(cells) == 3 else "gauge"
        yield plain, kind, set(re.findall(r"`(\w+)`", cells[1 if len(cells) == 3 else 0]))


def test_the_reference_lists_every_name_on_the_page_with_its_type_and_labels(families):
    on_page = {}
    for family in families.values():
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        on_page[name] = (family.type, labels)
    assert {name: (kind, labels) for name, kind, labels in documented()} == on_page


def test_names_on_the_page_keep_the_conventions(families):
    for name, family in families.items():
        assert re.fullmatch(r"tenure_[a-z]+(_[a-z]+)*", name)
        assert not NOT_BASE_UNITS.search(name), name
        assert not re.search(r"_(counter|gauge|histogram|count|sum|bucket|total)$", name), name
        assert family.documentation, name
        assert "counted by the app" not in family.documentation, f"{name} has no help text"
        if family.type == "histogram":
            assert name.endswith(UNITS), name
        if family.type == "gauge":
            assert name.endswith((*UNITS, *COUNTED_THINGS)), name
        assert family.type in ("counter", "gauge", "histogram")


def test_promtool_finds_nothing_wrong_with_the_page(promtool, page):
    assert run(promtool, "check", "metrics", page=page) == (0, "")


@pytest.fixture(scope="module")
def promtool():
    try:
        return installed_promtool()
    except Missing as missing:
        raise absent(missing) from missing


@pytest.fixture(scope="module")
def dashboard():
    return json.loads(DASHBOARD.read_text("utf-8"))


def rules():
    return [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]


EXPRESSIONS = [
    *(
        pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]
        for target in panel.get("targets", [])
    ),
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in rules()),
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_selects_series_and_labels_that_the_page_has(text, series):
    expression = promql.read(text)
    assert expression.selectors
    known = set(OF_PROMETHEUS)
    for selector in expression.selectors:
        assert selector.name in series, f"no {selector.name} on the page"
        labels = series[selector.name]
        known |= labels.keys()
        for label, sign, value in selector.matchers:
            assert label in labels.keys() | OF_PROMETHEUS, f"{selector.name} has no label {label}"
            if label in FEW_VALUES and sign in ("=", "!="):
                assert value in labels[label], f"{selector.name} has no {label} {value}"
    assert set(expression.groupings) <= known


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_takes_rates_of_counters_and_only_of_them(text, families):
    counters = {f"{name}_total" for name, family in families.items() if family.type == "counter"}
    for name, family in families.items():
        if family.type == "histogram":
            counters |= {f"{name}_{part}" for part in ("bucket", "count", "sum")}
    for selector in promql.read(text).selectors:
        is_rate = bool({"rate", "increase"} & set(selector.functions))
        assert is_rate == selector.is_range == (selector.name in counters), selector
        assert ("histogram_quantile" in selector.functions) == selector.name.endswith("_bucket"), selector


def test_a_name_that_the_page_lacks_is_noticed(series):
    (selector,) = promql.read('sum by (queue) (rate(tenure_jobs_eaten_total{queue="a b"}[5m])) > 0').selectors
    assert (selector.name in series, selector.functions) == (False, ("sum", "rate"))
    assert selector.matchers == [("queue", "=", "a b")]


def test_the_dashboard_can_be_imported_anywhere(dashboard):
    assert (dashboard["uid"], dashboard["id"], dashboard["title"]) == ("tenure", None, "Tenure")
    assert dashboard["schemaVersion"] >= 36
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    sources = {place["datasource"]["uid"] for place in walk(dashboard) if "datasource" in place} - {"-- Grafana --"}
    assert sources == {"${datasource}"}
    used = set(re.findall(r"\$(?:\{)?([a-z]\w*)", json.dumps([panel.get("targets") for panel in dashboard["panels"]])))
    assert used == variables.keys()


def test_the_variables_of_the_dashboard_are_labels_on_the_page(dashboard, series):
    asked = [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    for text in asked:
        (metric, label) = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", text).groups()
        assert label in series[metric].keys() | OF_PROMETHEUS


def test_the_panels_of_the_dashboard_have_ids_titles_units_and_places_of_their_own(dashboard):
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    squares = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(squares)) == len(squares), "panels overlap"
    assert max(x for x, _ in squares) == 23
    for panel in panels:
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["targets"]
            assert panel["fieldConfig"]["defaults"]["unit"]


def walk(value):
    """Every object within a JSON value."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(each)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_what_happened_and_what_to_do(rule):
    assert re.fullmatch(r"Tenure[A-Z]\w+", rule["alert"])
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "runbook"}
    assert f"`{rule['alert']}`" in GUIDE


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_names_only_labels_that_its_expression_keeps(rule):
    used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    assert used <= set(promql.read(rule["expr"]).groupings)


def test_promtool_accepts_the_rules(promtool):
    code, printed = run(promtool, "check", "rules", str(ALERTS))
    assert (code, f"{len(rules())} rules found" in printed) == (0, True), printed


def test_alerts_fire_when_they_should_and_not_otherwise(promtool, tmp_path):
    cases = tmp_path / "cases.yaml"
    cases.write_text(CASES.read_text("utf-8").replace("RULES", str(ALERTS)))
    code, printed = run(promtool, "test", "rules", str(cases))
    assert code == 0, printed
