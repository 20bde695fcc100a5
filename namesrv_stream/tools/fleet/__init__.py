"""Simulated brokers: a fleet that sends to Kafka what RocketMQ brokers send to their name servers."""
