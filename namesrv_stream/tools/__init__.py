"""Programs beside the registry: simulated brokers, local servers, replays, checks, comparison, backups, repair."""
