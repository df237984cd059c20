"""Redis and Valkey: sorted sets, hashes and one Lua script a verb; every key of a queue in one hash tag."""
