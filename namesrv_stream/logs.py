"""Where this package's own log goes: to stderr, one line an event, quiet about what the libraries do."""

from __future__ import annotations

import logging

_QUIET = {
    "kafka": logging.CRITICAL,  # says each lost connection several times; what follows from it is logged by us
    "py4j": logging.ERROR,
}


def set_up_logging(*, verbose: bool = False) -> None:
    """Log INFO and above (`verbose`: DEBUG, the libraries included)."""
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
    if not verbose:
        for name, quiet_level in _QUIET.items():
            logging.getLogger(name).setLevel(quiet_level)
