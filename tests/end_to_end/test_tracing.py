"""Jobs in child processes have spans and metrics: each process exports its own, and the message links the spans."""

import json

import pytest

TRACING = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult


class Lines(SpanExporter):
    def export(self, spans):
        with open(here / "spans", "a") as file:
            for span in spans:
                file.write(span.to_json(indent=None) + chr(10))
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Lines()))
trace.set_tracer_provider(provider)
"""


def test_a_run_in_a_child_is_in_the_trace_of_its_enqueue(tenure):
    shop = tenure.folder / "shop.py"
    shop.write_text(shop.read_text() + TRACING)
    tenure.environment["TENURE_TRACING"] = "true"
    id = tenure.json("enqueue", "add", "--payload", '{"a": 1}')["id"]  # in its own process: a provider is set only once
    assert tenure("work", "--burst").returncode == 0
    send, process = [json.loads(line) for line in (tenure.folder / "spans").read_text().splitlines()]
    assert (send["name"], process["name"]) == ("send default", "process default")
    assert process["parent_id"] is None
    assert [link["context"]["span_id"] for link in process["links"]] == [send["context"]["span_id"]]
    assert process["attributes"]["messaging.message.id"] == id


TELEMETRY = """
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

spans = open(here / "spans", "a")
provider = TracerProvider()
provider.add_span_processor(
    BatchSpanProcessor(ConsoleSpanExporter(out=spans, formatter=lambda span: span.to_json(indent=None) + chr(10)))
)
trace.set_tracer_provider(provider)
points = open(here / "points", "a")
exporter = ConsoleMetricExporter(out=points, formatter=lambda data: data.to_json(indent=None) + chr(10))
metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)]))
baked = metrics.get_meter("shop").create_counter("shop.baked")


@app.job
def bake():
    baked.add(1)
"""


@pytest.mark.timing  # a child that ends has two seconds to export
def test_children_that_are_replaced_or_stopped_export_their_last_spans_and_metrics(tenure):
    shop = tenure.folder / "shop.py"
    shop.write_text(shop.read_text() + TELEMETRY)
    tenure.environment |= {"TENURE_TRACING": "link", "TENURE_METRICS": "opentelemetry", "TENURE_RECYCLE_AFTER": "2"}
    ids = {tenure.json("enqueue", "bake")["id"] for _ in range(3)}
    assert tenure("work", "--burst", "--runner", "process", "--concurrency", "1").returncode == 0
    spans = [json.loads(line) for line in (tenure.folder / "spans").read_text().splitlines()]
    assert {each["attributes"]["messaging.message.id"] for each in spans if each["name"] == "process default"} == ids
    found = [json.loads(line) for line in (tenure.folder / "points").read_text().splitlines()]
    assert _total(found, "shop.baked", "value") == 3  # of two children
    assert _total(found, "messaging.process.duration", "count") == 3  # of the worker
    assert _total(found, "tenure.jobs_succeeded", "value") == 3


def _total(exports, name, field):
    return sum(
        point[field]
        for export in exports
        for resource in export["resource_metrics"]
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
        if metric["name"] == name
        for point in metric["data"]["data_points"]
    )
