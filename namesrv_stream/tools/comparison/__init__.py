"""Comparison of a name server's answers with those of this registry, for the time of a migration."""
