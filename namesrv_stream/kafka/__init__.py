"""The Kafka clients that all parts share: topic administration, records sent and read, ticks, election of the job."""
