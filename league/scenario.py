"""What a scenario is, and all of them in their order."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto

from league.errors import NotRightError
from league.sides import Side
from league.trial import Trial


class Needs(Flag):
    """What a scenario needs of a side besides answers."""

    NOTHING = 0
    V5 = auto()
    """What 5.0 has brought: it is not played on 4.9.7."""
    SERVERS = auto()
    """Connections from brokers to servers, several servers that start and stop, and time that passes."""
    SIZE = auto()
    """Time and memory for tens of thousands of topics."""
    TIMING = auto()
    """A machine that has nothing else to do, because seconds decide."""


Play = Callable[[Trial], None]


@dataclass(frozen=True)
class Scenario:
    """One report of a user. `threads`: repository#number of who reported it.

    `rule` is the name of the function that plays it. Its docstring has `happens`, what was reported; `right`, after
    "Right:"; and if the gateway does what is not right, `why_here`, after "Here:".
    """

    rule: str
    threads: tuple[str, ...]
    happens: str
    right: str
    why_here: str
    needs: Needs
    play: Play

    def judge(self, side: Side) -> str | None:
        """Play it on a side, and return what was not right; None if all was."""
        with Trial(side) as trial:
            try:
                self.play(trial)
            except NotRightError as error:
                return str(error)
        return None


SCENARIOS: list[Scenario] = []


def scenario(*threads: str, needs: Needs = Needs.NOTHING) -> Callable[[Play], Play]:
    """Add a scenario, which the function plays: it raises NotRightError where a server does not do what is right."""

    def add(play: Play) -> Play:
        text = " ".join(inspect.cleandoc(play.__doc__ or "").split())
        told, _, why_here = text.partition(" Here: ")
        happens, _, right = told.partition(" Right: ")
        rule = play.__name__.replace("_", " ")
        SCENARIOS.append(Scenario(rule, threads, happens, right, why_here, needs, play))
        return play

    return add
