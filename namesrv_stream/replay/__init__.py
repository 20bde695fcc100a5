"""Scenario cases through the rules alone or through the real pipeline: how an incident is reproduced."""
