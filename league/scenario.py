"""The scenarios in their order, and the form of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto

from league.errors import NotRightError
from league.sides import Side
from league.trial import Trial


class Needs(Flag):
    """Abilities that a scenario needs of a side besides answers."""

    NOTHING = 0
    V5 = auto()
    """Features of 5.0, so that it is not played on 4.9.7."""
    SERVERS = auto()
    """Connections from brokers to servers, several servers that start and stop, and time that passes."""
    SIZE = auto()
    """Time and memory for tens of thousands of topics."""
    TIMING = auto()
    """A machine that has nothing else to do, because seconds decide."""


Play = Callable[[Trial], None]


@dataclass(frozen=True)
class Scenario:
    """One report of a user. `threads`: repository#number of each thread that reports it.

    `rule` is the name of the function that plays it. The function's docstring has `happens`, the report; `right`, after
    "Right:"; and, if the gateway does not do what is right, `why_here`, after "Here:".
    """

    rule: str
    threads: tuple[str, ...]
    happens: str
    right: str
    why_here: str
    needs: Needs
    play: Play

    def judge(self, side: Side) -> str | None:
        """Play the scenario on a side, and return the wrong result; None if all was right."""
        with Trial(side) as trial:
            try:
                self.play(trial)
            except NotRightError as error:
                return str(error)
        return None


SCENARIOS: list[Scenario] = []


def scenario(*threads: str, needs: Needs = Needs.NOTHING) -> Callable[[Play], Play]:
    """Add the scenario that the function plays. It raises NotRightError if a server does not do what is right."""

    def add(play: Play) -> Play:
        text = " ".join(inspect.cleandoc(play.__doc__ or "").split())
        rest, _, why_here = text.partition(" Here: ")
        happens, _, right = rest.partition(" Right: ")
        rule = play.__name__.replace("_", " ")
        SCENARIOS.append(Scenario(rule, threads, happens, right, why_here, needs, play))
        return play

    return add
