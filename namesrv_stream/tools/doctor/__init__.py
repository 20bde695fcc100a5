"""Checks of a machine and its settings, before or while a process of the registry runs there."""
