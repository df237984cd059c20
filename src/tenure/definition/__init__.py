"""Jobs, handlers, payloads, retry policies and queue classes, as values and pure functions; no I/O."""
