"""The right to write: users with a role, the rights of each role, and the file that names the users."""
