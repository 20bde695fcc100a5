"""Colours of the plots: the palette of Okabe and Ito, which colour-blind people can tell apart.

One kind of event has one colour in every plot. A kind without a colour of its own shares a grey or is hatched.
"""

from __future__ import annotations

from typing import NamedTuple


class Paint(NamedTuple):
    """Fill colour, and matplotlib's hatch pattern over it."""

    colour: str
    hatch: str = ""


BLACK, ORANGE, SKY_BLUE, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#BBBBBB"

ENDS = {
    "EXPIRED": Paint(VERMILION),
    "CHANNEL_CLOSED": Paint(ORANGE),
    "UNREGISTERED": Paint(BLACK),
    "MOVED": Paint(PURPLE),
    "ID_LOST": Paint(BLUE),
}
"""Colours of the ends of a session."""

UNPLANNED = ("EXPIRED", "CHANNEL_CLOSED")
"""Ends after which the broker counts as away."""

COMMAND = "operator command"
KINDS = {
    **ENDS,
    "REFUSED": Paint(PURPLE, "//"),
    "REGISTERED": Paint(GREEN),
    "ID_TAKEN": Paint(SKY_BLUE),
    "CHANGED": Paint(YELLOW),
    "TOPICS_CHANGED": Paint(GREY),
    COMMAND: Paint(GREY, "//"),
}
"""Kinds of events; all commands of operators are one kind."""

IN_ROUTES = "#DCEBF5"
"""A session."""

SHARES = {0.0: BLACK, 0.9: VERMILION, 0.99: ORANGE, 0.999: YELLOW, 0.9999: IN_ROUTES}
"""Lower bound of a class of availability -> its colour. A class for each nine; the lower, the darker."""
