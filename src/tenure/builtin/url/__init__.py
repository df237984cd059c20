"""The `url` handler: one HTTP request to a host that was allowed, at an address that was judged."""
