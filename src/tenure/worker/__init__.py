"""Runs jobs: the leaser fetches, the runner runs, the settler settles, and the keeper keeps the leases alive."""
