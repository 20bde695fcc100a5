"""Kafka for every part that uses it: the heartbeat topic, records sent to it, ticks."""
