"""Simulated brokers: what a fleet of RocketMQ brokers says to its name servers, put on Kafka."""
