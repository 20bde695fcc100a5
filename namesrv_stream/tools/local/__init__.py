"""Everything that one machine needs to run the whole registry: Java, the jars and a Kafka of its own."""
