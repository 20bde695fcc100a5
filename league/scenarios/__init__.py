"""The scenarios by theme. Importing this package fills `SCENARIOS`, in the order of the table."""

from league.scenarios import changes, leaving, naming, notices, operators, protocol, restart, routes, size

__all__ = ["changes", "leaving", "naming", "notices", "operators", "protocol", "restart", "routes", "size"]
