"""The Structured Streaming query: source, state by broker address, micro-batch, checkpoint."""
