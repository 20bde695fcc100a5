"""A registry's tables at one epoch: written to a file, read from it, and put back into a registry."""
