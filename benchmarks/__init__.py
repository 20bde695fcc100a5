"""Figures of the docs, each beside its floor or its peer; `python -m benchmarks.NAME` prints them."""
