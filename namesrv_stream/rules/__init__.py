"""The decisions of RocketMQ: leases, registration, topics, lookups, KV. No Spark, no Kafka, no I/O, no clock."""
