"""Trace: where a job was enqueued, in the words of W3C Trace Context; carried in the message, under its seal."""

from typing import Annotated

from msgspec import Meta, Struct

LONGEST_STATE = 512  # what the standard wants carried at least; a longer one is left out


class Trace(Struct, frozen=True, omit_defaults=True):
    traceparent: Annotated[str, Meta(max_length=64)]
    tracestate: Annotated[str, Meta(max_length=LONGEST_STATE)] = ""
