"""Programs beside the registry: simulated brokers, local servers, replays, first aid, comparison, backups."""
