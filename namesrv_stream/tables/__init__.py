"""The registry's Delta tables: schemas, the writer, publication by snapshots, and readers with and without Spark."""
