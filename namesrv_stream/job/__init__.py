"""The process of the job: takes its turn, claims the registry, runs the query, and keeps it running."""
