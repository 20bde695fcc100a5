"""The Structured Streaming job: source, liveness per broker address, micro-batch, session."""
