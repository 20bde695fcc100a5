"""Programs beside the registry: simulated brokers, local servers, checks, comparison, backups, repair."""
