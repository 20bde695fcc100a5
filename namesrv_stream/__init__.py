"""A route registry for Apache RocketMQ on Spark Structured Streaming, Kafka and Delta Lake."""

__version__ = "0.2.0"
