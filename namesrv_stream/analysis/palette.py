"""Colours of plots, command line and console's page: the palette of Okabe and Ito, for colour-blind people too.

A kind of event has the same colour in every plot. Kinds without a colour of their own share a grey or are hatched. Text
and thin lines need more contrast than an area, so they have shades of four of these colours. The page's style.css
repeats these shades, and a test compares it with this module.
"""

from __future__ import annotations

from typing import NamedTuple


class Paint(NamedTuple):
    """Fill colour, and matplotlib's hatch pattern over it."""

    colour: str
    hatch: str = ""


class Shades(NamedTuple):
    """One colour of text: on a terminal, whose background is unknown, on a light page and on a dark page."""

    terminal: str
    light: str
    dark: str


BLACK, ORANGE, SKY_BLUE, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#BBBBBB"

ENDS = {
    "EXPIRED": Paint(VERMILION),
    "CHANNEL_CLOSED": Paint(ORANGE),
    "UNREGISTERED": Paint(BLACK),
    "MOVED": Paint(PURPLE),
    "ID_LOST": Paint(BLUE),
    "REFUSED": Paint(PURPLE, "//"),
}
"""Colours of the ends of a session."""

COMMAND = "operator command"
KINDS = {
    **ENDS,
    "REGISTERED": Paint(GREEN),
    "ID_TAKEN": Paint(SKY_BLUE),
    "CHANGED": Paint(YELLOW),
    "TOPICS_CHANGED": Paint(GREY),
    "LOG_GAP": Paint(GREY, "xx"),
    COMMAND: Paint(GREY, "//"),
}
"""Kinds of events; all commands of operators are one kind."""

IN_ROUTES = "#DCEBF5"
"""A session."""

SHARES = {0.0: BLACK, 0.9: VERMILION, 0.99: ORANGE, 0.999: YELLOW, 0.9999: IN_ROUTES}
"""Lower bound of a class of availability -> its colour. Each further nine is a class; lower classes are darker."""

LIGHT_SHARE = 0.99
"""Lowest availability whose colour is so light that text on it has to be black."""

CAME = Shades(GREEN, "#008060", "#27B588")
"""Broker that came into the routes, and whatever is alive or was added."""
LEFT = Shades(VERMILION, "#B84A00", "#FF8A45")
"""Broker that left the routes (unplanned, if planned ends are shown beside it), and whatever was removed."""
ASKED = Shades(BLUE, "#004C99", "#8FC7FA")
"""Command of an operator, or planned end of a session."""
LATE = Shades(PURPLE, "#9C3F7C", "#E7A3C6")
"""Broker that is late or suspect, and the page while it shows the past."""
UP = Shades(SKY_BLUE, "#8CC4E8", "#2B6A96")
"""A session as a bar beside a track of absence, for which the pale IN_ROUTES is too faint."""

TEXT = {
    "REGISTERED": CAME,
    "ID_TAKEN": CAME,
    "EXPIRED": LEFT,
    "CHANNEL_CLOSED": LEFT,
    "REFUSED": LEFT,
    "UNREGISTERED": ASKED,
    "MOVED": ASKED,
    "ID_LOST": ASKED,
}
"""Kinds of events whose names have a colour in text."""
