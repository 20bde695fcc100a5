"""The history for analysts: SQL views for Spark and DuckDB, plots, the churn report."""
