"""Replay scenario cases through the rules alone or through the real pipeline, for example to reproduce an incident."""
