"""Commands that operators send to the console."""

WIPE = {"type": "WIPE_WRITE_PERM_OF_BROKER", "brokerName": "broker-a", "reason": "disk full"}
