"""SQL backends: one algorithm on split tables, and a small dialect for each database."""
