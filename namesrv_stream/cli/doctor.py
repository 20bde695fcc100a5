"""`doctor`: whether a machine and its settings are fit for a process of the registry, and what to do if not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click
from rich.text import Text

from namesrv_stream.cli.output import print_shown, table
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.tools.doctor import kafka_checks as kafka
from namesrv_stream.tools.doctor import machine_checks as machine
from namesrv_stream.tools.doctor import storage_checks as storage
from namesrv_stream.tools.doctor.finding import Check, Finding, findings
from namesrv_stream.wire.json_text import encode_json

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "bold red", "not checked": "dim"}


@click.command("doctor")
@click.option(
    "--role",
    type=click.Choice(["all", "job", "gateway"]),
    default="all",
    show_default=True,
    help="Check only what this process needs.",
)
@click.option("--tables", is_flag=True, help="Read every file of every retained snapshot instead, and do nothing else.")
@click.option("--json", "as_json", is_flag=True, help="Print standard JSON, one line.")
@click.pass_context
def doctor(context: click.Context, role: str, tables: bool, as_json: bool) -> None:
    """Check Java, jars, Python workers, Kafka, storage, certificate and users file. Ends with 1 if a check failed.

    Nothing that runs is disturbed: no record is sent, and what is written beside tables and checkpoint is removed. On
    an object store the small table _conditional_put stays.
    """
    invocation: Invocation = context.obj
    if tables:
        found = list(findings("tables", storage.check_files, invocation.settings))
    else:
        found = list(examined(invocation.settings, role))
    if as_json:
        click.echo(encode_json([each._asdict() for each in found]))
    else:
        rows = [[Text(each.state, _COLOURS[each.state]), each.check, _sentence(each)] for each in found]
        print_shown(lambda plain: table(["state", "check", "what was found+"], rows, plain=plain))
    if any(each.state == "failed" for each in found):
        context.exit(1)


def _sentence(finding: Finding) -> str:
    end = "" if finding.found.endswith((".", "?")) else "."
    return f"{finding.found}{end} {finding.next_step}".rstrip()


def examined(settings: NamesrvSettings, role: str) -> Iterator[Finding]:
    """Yield the findings of all checks of a role: all, job or gateway."""
    for name, check in _checks(role).items():
        yield from findings(name, check, settings)


def _checks(role: str) -> dict[str, Check]:
    rights = {
        "job": kafka.JOB_RIGHTS,
        "gateway": kafka.GATEWAY_RIGHTS,
        "all": kafka.JOB_RIGHTS | kafka.GATEWAY_RIGHTS,
    }[role]
    both: dict[str, Check] = {
        "Kafka": partial(kafka.check_kafka, rights=rights, is_candidate=role != "gateway"),
        "tables": storage.check_tables,
        "contents": storage.check_contents,
    }
    of_job: dict[str, Check] = {
        "Java": machine.check_java,
        "jars": machine.check_jars,
        "pyspark": machine.check_spark,
        "Python workers": machine.check_workers,
        "commits": storage.check_writing,
        "checkpoint": storage.check_checkpoint,
    }
    of_gateway: dict[str, Check] = {"certificate": machine.check_certificate, "users file": machine.check_users}
    return (of_job if role != "gateway" else {}) | both | (of_gateway if role != "job" else {})
