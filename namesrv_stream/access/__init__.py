"""The right to write: users and their roles, the rights of each role, and the file that names the users."""
