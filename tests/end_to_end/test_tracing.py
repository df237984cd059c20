"""Jobs in child processes have spans: each process exports its own, and the message links them."""

import json

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
