"""Tenure beside its peers, on the same servers in the same run: `make bench-peers`, or `python -m benchmarks.peers`."""
