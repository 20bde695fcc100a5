"""Stage that the demos share: scenes with a title, commands that are printed and run, and waiting with progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.rule import Rule

from namesrv_stream.cli.entry import main
from namesrv_stream.cli.group import say
from namesrv_stream.cli.output import console
from namesrv_stream.config import Invocation
from namesrv_stream.errors import NamesrvError
from namesrv_stream.local.stack import LocalStack
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.tables.reader import RouteReader

_SCENE_LIMIT_S = 180.0
_LOOK_EVERY_S = 0.2
_INTERRUPTED = 130
"""Exit status in shells of a program that Ctrl-C has ended."""
_MADE_ANEW = ("kafka", "registry", "registry-checkpoint")


class SceneFailedError(NamesrvError):
    """Failure of a demo to see, within its limit, what it waited for."""

    def __init__(self, what: str, limit_s: float) -> None:
        super().__init__(f"waited {limit_s:.0f} s for this: {what}. Is the machine very busy? The tables are kept.")
        self.what = what


class CommandFailedError(NamesrvError):
    """Failure of a command of the demo: it ended with a status that is not 0."""

    def __init__(self, line: str, status: int) -> None:
        super().__init__(f"`{line}` ended with status {status}: its output above has the reason. The tables are kept.")
        self.status = status


class Stage:
    """Running parts of a demo, and its output. Each answer comes from the command printed above it."""

    def __init__(self, invocation: Invocation, stack: LocalStack, output: Console) -> None:
        self._invocation = invocation
        self.stack = stack
        self.root = invocation.settings.delta_root
        self.reader = RouteReader(self.root)
        self.output = output

    def scene(self, title: str) -> None:
        """Print a title across the screen."""
        self.output.print()
        self.output.print(Rule(title, align="left") if self.output.is_terminal else f"--- {title}", highlight=False)

    def say(self, text: str) -> None:
        """Print plain text."""
        self.output.print(text, highlight=False)

    def say_command(self, program: str, *arguments: str) -> None:
        """Print a command line as in a shell."""
        self.output.print(f"[dim]$ {program}[/] [bold]{' '.join(arguments)}[/]")

    def run(self, name: str, *arguments: str) -> None:
        """Print and run a command of this project on the stage's tables.

        Raises the command's own errors, and CommandFailedError if its exit status is not 0.
        """
        program = f"namesrv-stream --root {self.root}"
        self.say_command(program, name, *arguments)
        command = main.get_command(click.Context(main), name)
        assert command is not None, "the story names commands that there are"
        status = command.main([*arguments], prog_name=name, standalone_mode=False, obj=self._invocation)
        if status:
            raise CommandFailedError(" ".join((program, name, *arguments)), status)

    def until(self, what: str, condition: Callable[[RouteTables], bool]) -> None:
        """Wait until the route tables meet a condition; show progress in the last line, then print the time it took.

        Raises SceneFailedError after 180 s.
        """
        started_s = time.monotonic()
        with self.output.status(f"until {what} ...") as line:
            while not condition((view := self.reader.follow()).routes):
                self.stack.check()
                waited_s = time.monotonic() - started_s
                if waited_s > _SCENE_LIMIT_S:
                    raise SceneFailedError(what, _SCENE_LIMIT_S)
                line.update(f"until {what} ... {waited_s:.0f} s, epoch {view.snapshot.epoch}")
                time.sleep(_LOOK_EVERY_S)
        self.output.print(f"[green]{what}[/] after {time.monotonic() - started_s:.1f} s")


def data_option(default: str, *more: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option --data of a demo. `more` names further folders that the demo makes anew."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(default),
        show_default=True,
        help=f"Folder for tables, Kafka's data and logs: a new one, or the demo's from before. "
        f"{', '.join((*_MADE_ANEW, *more))} in it are made anew.",
    )


@contextmanager
def open_stage(given: Invocation, data: Path, *more: str) -> Iterator[Stage]:
    """Run Kafka, the streaming job and the gateway within the `with`, and yield their stage.

    The tables and the folders `more` in `data` are made anew at the start and kept at the end. Settings that are given
    are refused and those of the environment have no effect, so a demo is the same everywhere. Ctrl-C ends it in order,
    with exit status 130.
    """
    if given.file is not None or given.options:
        raise click.UsageError("a demo has its own settings: leave -c, --root and --set out. --data sets the folder.")
    # Any free port and no KV file: a name server may be running on this machine.
    own = Invocation(None, {"delta.root": str(data / "registry"), "listenPort": "0", "kvConfigPath": ""}, {})
    try:
        with _running(own, data, more) as stage:
            yield stage
    except KeyboardInterrupt:
        say(f"interrupted: all of it is stopped. What there is of the tables is in {own.settings.delta_root}.")
        raise click.exceptions.Exit(_INTERRUPTED) from None


@contextmanager
def _running(own: Invocation, data: Path, more: tuple[str, ...]) -> Iterator[Stage]:
    output = console()
    with ExitStack() as open_things:
        with output.status("Starting Kafka, Spark and the gateway ..."):
            stack = open_things.enter_context(LocalStack(own.settings, data, made_anew=(*_MADE_ANEW, *more)))
        yield Stage(own, stack, output)
        with output.status("Stopping all of it ..."):
            open_things.close()
