"""Guards: idempotency, concurrency limits, rate limits and breakers; pure functions that a store applies atomically."""
