"""The look of answers on a terminal."""

from rich.console import Console

from namesrv_stream.cli.output import Rows


def test_a_name_that_was_written_past_the_gateway_cannot_steer_the_terminal():
    console = Console(width=80)
    with console.capture() as captured:
        console.print(Rows(["broker"], [["a\x1b[2Jb"]]))
    assert r"a\x1b[2Jb" in captured.get()
    assert "\x1b[2J" not in captured.get()
