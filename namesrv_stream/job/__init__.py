"""The job's process: waits for its turn, claims the registry, runs the query, and keeps the query running."""
