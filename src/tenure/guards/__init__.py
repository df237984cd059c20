"""Guards: decisions about shared keys, as pure functions over frozen states that a store applies in one step."""
