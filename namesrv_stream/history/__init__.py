"""Questions about the history: the events of brokers and topics."""
