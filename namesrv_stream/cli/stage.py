"""What the demos share: scenes with a title, commands that are shown and run, and waiting in the open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from namesrv_stream.cli.entry import main
from namesrv_stream.cli.output import console
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.local.stack import LocalStack
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.tables.reader import RouteReader

_SCENE_LIMIT_S = 180.0
_LOOK_EVERY_S = 0.2


class SceneFailedError(NamesrvError):
    """The demo waited for something that did not come."""

    def __init__(self, what: str, limit_s: float) -> None:
        super().__init__(f"waited {limit_s:.0f} s for this: {what}. Is the machine very busy? The tables are kept.")
        self.what = what


class Stage:
    """Every answer on the screen comes from the command that is printed above it."""

    def __init__(self, stack: LocalStack, output: Console) -> None:
        self.stack = stack
        self.root = stack.settings.delta_root
        self.reader = RouteReader(self.root)
        self.output = output

    def scene(self, title: str) -> None:
        """A title across the screen."""
        self.output.print()
        self.output.print(Rule(title, align="left") if self.output.is_terminal else f"--- {title}", highlight=False)

    def say(self, text: str) -> None:
        """Plain words."""
        self.output.print(text, highlight=False)

    def say_command(self, program: str, *arguments: str) -> None:
        """A command line as in a shell."""
        self.output.print(f"[dim]$ {program}[/] [bold]{' '.join(arguments)}[/]")

    def run(self, *arguments: str) -> None:
        """A command of ours, on the demo's tables."""
        self.say_command(f"namesrv-stream --root {self.root}", *arguments)
        main.main(["--root", self.root, *arguments], standalone_mode=False)

    def until(self, what: str, condition: Callable[[RouteTables], bool]) -> None:
        """Waits with what is going on in the last line of the terminal, and says how long it took."""
        started_s = time.monotonic()
        with self.output.status(f"until {what} ...") as line:
            while not condition((view := self.reader.follow()).routes):
                self.stack.job.check()
                waited_s = time.monotonic() - started_s
                if waited_s > _SCENE_LIMIT_S:
                    raise SceneFailedError(what, _SCENE_LIMIT_S)
                line.update(f"until {what} ... {waited_s:.0f} s, epoch {view.snapshot.epoch}")
                time.sleep(_LOOK_EVERY_S)
        self.output.print(f"[green]{what}[/] after {time.monotonic() - started_s:.1f} s")


@contextmanager
def open_stage(data: Path) -> Iterator[Stage]:
    """Everything runs within the `with`, on tables of its own that are made anew and stay."""
    # No port and no file of an installation: a name server may be running on this machine.
    own = {"delta.root": str(data / "registry"), "listenPort": 0, "kvConfigPath": ""}
    output = console()
    with ExitStack() as open_things:
        with output.status("Starting Kafka, Spark and the gateway ..."):
            settings = NamesrvSettings.model_validate(own)
            stack = open_things.enter_context(LocalStack(settings, data, clear=True))
        yield Stage(stack, output)
        with output.status("Stopping all of it ..."):
            open_things.close()
