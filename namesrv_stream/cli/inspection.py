"""The commands `doctor`, which checks a machine, and `compare`, which compares a NameServer with the registry."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from namesrv_stream.cli.output import Rows, heading, print_answer, say
from namesrv_stream.cli.view import MIN_WATCH_S, json_option, looks, open_registry, seconds_option
from namesrv_stream.config import Invocation
from namesrv_stream.reporting.texts import counted
from namesrv_stream.tools.comparison import Compared, Namesrv, Tables
from namesrv_stream.tools.comparison import compare as compare_sides
from namesrv_stream.tools.doctor import Check, Finding, findings
from namesrv_stream.tools.doctor import broker_checks as of_brokers
from namesrv_stream.tools.doctor import kafka_checks as kafka
from namesrv_stream.tools.doctor import storage_checks as storage
from namesrv_stream.wire.json_text import encode_json

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "bold red", "not checked": "dim"}

_WATCH_S = 2.0
_AGAIN = f"Compare again until there is no difference (default: every {_WATCH_S:g} s)."
_EXIT_NOT_COMPARED = 3
"""Exit status of a comparison without a difference in which both sides refused a question. 2 is a usage error."""
_MAX_TEXT = 200


@click.command("doctor")
@click.option(
    "--role",
    type=click.Choice(["all", "job", "gateway"]),
    default="all",
    help="Check only what this process needs.",
)
@click.option("--tables", is_flag=True, help="Only read every file of the tables.")
@click.option("--brokers", is_flag=True, help="Only connect to each registered broker from this machine.")
@json_option
@click.pass_context
def doctor(context: click.Context, role: str, tables: bool, brokers: bool, as_json: bool) -> None:
    """Check Kafka, storage, job, tables and certificate.

    Exit status: 0 no check failed; 1 otherwise.

    Java, jars, Python packages and the users file are checked at each start, and not here.

    Running processes are not disturbed: it sends no records, and removes the files that it writes beside tables and
    checkpoint. In an object store the small table _conditional_put stays.
    """
    invocation: Invocation = context.obj
    only: dict[str, Check] = {}
    if tables:
        only["tables"] = storage.check_files
    if brokers:
        only |= {"brokers": of_brokers.check_configuration, "connections": of_brokers.check_connections}
    checks = only or _checks(role)
    found = [each for name, check in checks.items() for each in findings(name, check, invocation.settings)]
    rows = ([Text(each.state, _COLOURS[each.state]), each.check, _sentence(each)] for each in found)
    print_answer([each._asdict() for each in found], Rows(["state", "check", "result+"], rows), as_json=as_json)
    if any(each.state == "failed" for each in found):
        context.exit(1)


def _sentence(finding: Finding) -> str:
    end = "" if finding.found.endswith((".", "?")) else "."
    return f"{finding.found}{end} {finding.next_step}".rstrip()


def _checks(role: str) -> dict[str, Check]:
    """Return the checks of a role: all, job or gateway."""
    rights = {"job": kafka.JOB_RIGHTS, "gateway": kafka.GATEWAY_RIGHTS}.get(
        role, kafka.JOB_RIGHTS | kafka.GATEWAY_RIGHTS
    )
    checks: list[tuple[str, str, Check]] = [
        ("job", "commits", storage.check_writing),
        ("job", "checkpoint", storage.check_checkpoint),
        ("job", "temporary folder", storage.check_temp_folder),
        (role, "Kafka", partial(kafka.check_kafka, rights=rights, is_candidate=role != "gateway")),
        (role, "job", kafka.check_job),
        (role, "tables", storage.check_tables),
        (role, "contents", storage.check_contents),
        ("all", "health", storage.check_health),
        ("all", "brokers", of_brokers.check_configuration),
        ("gateway", "certificate", storage.check_certificate),
    ]
    return {name: check for of_role, name, check in checks if role in (of_role, "all")}


@click.command("compare")
@click.option("-n", "--namesrvAddr", "address", metavar="HOST:PORT", required=True, help="Address of the NameServer.")
@click.option("--namespace", "namespaces", multiple=True, help="Compare this KV namespace too; repeatable.")
@json_option
@seconds_option("watch", _WATCH_S, _AGAIN, least_s=MIN_WATCH_S)
@click.pass_context
def compare(
    context: click.Context, address: str, namespaces: tuple[str, ...], as_json: bool, watch_s: float | None
) -> None:
    """Compare a NameServer with the registry.

    Every route, cluster, list and KV value. Exit status: 0 equal; 1 different; 3 equal, but both sides reject a
    question, which is not compared. A question that only one side rejects is a difference.

    The registry's side is the newest snapshot at delta.root. A broker that changes during the comparison may differ
    for a short time; --watch compares again until there is no difference.
    """
    invocation: Invocation = context.obj
    registry = open_registry(invocation.settings)
    found = Compared(0, [], {})
    for _ in looks(watch_s):
        with Namesrv(address) as theirs:
            ours = Tables(registry.newest())
            found = compare_sides(ours, theirs, {*ours.routes.kv, *namespaces}, ours.routes.queues)
        _print(found, address, as_json)
        if not found.differences:
            break
    context.exit(1 if found.differences else _EXIT_NOT_COMPARED if found.refused else 0)


def _print(found: Compared, address: str, as_json: bool) -> None:
    for question, reason in found.refused.items():
        say(f"not compared: {question} (both sides reject it: {reason})")
    source = f"{counted(found.compared, 'answer')} compared with {address}"
    if found.refused:
        say(
            "Both sides reject lists of topics if enableAllTopicList or enableTopicList is false. Set both to true "
            "on both sides to compare these lists, and to find topics that only the NameServer has."
        )
        source += f", {counted(len(found.refused), 'question')} not compared"
    title = heading(counted(len(found.differences), "difference"), source)
    rows = [[each.question, each.place, _text(each.ours), _text(each.theirs)] for each in found.differences]
    shown = Group(title, *([Rows(["answer:", "place", "registry+", "NameServer+"], rows)] if rows else []))
    fields = found._asdict() | {"differences": [each._asdict() for each in found.differences]}
    print_answer(fields, shown, as_json=as_json)


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else encode_json(value).decode()
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} ..."
