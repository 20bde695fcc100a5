"""Lines, numbers and metrics that the program shows to people."""
