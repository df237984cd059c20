"""Orders, and the jobs that invoice them."""
