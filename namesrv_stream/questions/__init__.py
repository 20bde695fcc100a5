"""Questions about a registry and their typed answers, which the command line prints and the console serves."""
