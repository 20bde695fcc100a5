"""Ends the job, Kafka and the gateway in every way there is, and compares what is left with the rules' own answer."""
