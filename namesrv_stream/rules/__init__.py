"""What RocketMQ decides: leases, registration, topics, lookups, KV. No Spark, no Kafka, no I/O, no clock."""
