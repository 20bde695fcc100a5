"""The job's process: the streaming query, its micro-batches, whose turn it is, and what keeps it running."""
