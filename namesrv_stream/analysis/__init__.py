"""The history for analysts: SQL views for Spark and DuckDB, and plots."""
