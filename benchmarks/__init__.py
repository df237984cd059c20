"""Tenure measured alone, on the embedded backend: `make bench`, or `python -m benchmarks drain latency`."""
