"""The migrations that create the tables of Tenure."""
