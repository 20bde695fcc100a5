"""What has happened: the events of brokers and topics."""
