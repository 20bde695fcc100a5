"""Kafka clients that all parts share: the heartbeat topic, sending and reading records, ticks, the job election."""
