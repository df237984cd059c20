"""The loop, as four roles: the leaser fills, the runner works, the settler empties, the keeper keeps leases alive."""
