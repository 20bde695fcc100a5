"""`compare`: the answers of a RocketMQ NameServer beside those of this registry, for the time of a migration."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Group, RenderableType

from namesrv_stream.cli.options import LEAST_WATCH_S, json_option, seconds_option
from namesrv_stream.cli.output import heading, print_shown, say, table
from namesrv_stream.cli.view import looks, open_reader
from namesrv_stream.config import Invocation
from namesrv_stream.reporting.texts import counted
from namesrv_stream.tools.comparison import Compared, Namesrv, Tables
from namesrv_stream.tools.comparison import compare as compare_sides
from namesrv_stream.wire.json_text import encode_json

DEFAULT_WATCH_S = 2.0
_AGAIN = f"Compare again every {DEFAULT_WATCH_S:g} s until there is no difference."
EXIT_NOT_COMPARED = 3
"""Status of a comparison without a difference in which both sides refused a question. 2 is a wrong command line."""
_MAX_TEXT = 200


@click.command("compare")
@click.option("-n", "--namesrvAddr", "address", metavar="HOST:PORT", required=True, help="Ask this NameServer.")
@click.option("--namespace", "namespaces", multiple=True, help="Compare this KV namespace too; repeatable.")
@json_option
@seconds_option("watch", DEFAULT_WATCH_S, _AGAIN, least_s=LEAST_WATCH_S)
@click.pass_context
def compare(
    context: click.Context, address: str, namespaces: tuple[str, ...], as_json: bool, watch_s: float | None
) -> None:
    """Compare every route, cluster, list and KV value of a NameServer with this registry.

    Ends with 1 if they differ; that one side alone refuses a question is a difference. Ends with 3 if they do not
    differ but both refuse a question, which then is not compared.

    The registry's side is the newest snapshot at delta.root. A broker that changes during the comparison differs for a
    moment; --watch waits until that has passed.
    """
    invocation: Invocation = context.obj
    reader = open_reader(invocation.settings)
    found = Compared(0, [], {})
    for _ in looks(watch_s):
        with Namesrv(address) as theirs:
            ours = Tables(reader.follow(), invocation.settings)
            found = compare_sides(ours, theirs, {*ours.routes.kv, *namespaces}, ours.routes.queues)
        _print(found, address, as_json)
        if not found.differences:
            break
    context.exit(_exit_status(found))


def _exit_status(found: Compared) -> int:
    if found.differences:
        return 1
    return EXIT_NOT_COMPARED if found.refused else 0


def _print(found: Compared, address: str, as_json: bool) -> None:
    for question, reason in found.refused.items():
        say(f"not compared: {question}: both sides refuse this question ({reason})")
    if found.refused:
        say(
            "Both sides refuse lists of topics if enableAllTopicList or enableTopicList is false. Set both to true "
            "there and here. Then the lists are compared, and topics that only the NameServer has are found."
        )
    if as_json:
        fields = found._asdict() | {"differences": [each._asdict() for each in found.differences]}
        click.echo(encode_json(fields))
        return
    print_shown(lambda plain: _shown(found, address, plain))


def _shown(found: Compared, address: str, plain: bool) -> RenderableType:
    source = f"{counted(found.compared, 'answer')} compared with {address}"
    if found.refused:
        source += f", {counted(len(found.refused), 'question')} not compared, which both sides refuse"
    title = heading(counted(len(found.differences), "difference"), source)
    if not found.differences:
        return title
    rows = [[each.question, each.place, _text(each.ours), _text(each.theirs)] for each in found.differences]
    return Group(title, table(["answer:", "place", "here+", "there+"], rows, plain=plain))


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else encode_json(value).decode()
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} ..."
