"""The registry's Delta tables: schemas, two writers, publication by snapshots, and readers with and without Spark."""
