"""Metrics: counters and histograms of this process, statistics of all workers, and the Prometheus page; no I/O."""
