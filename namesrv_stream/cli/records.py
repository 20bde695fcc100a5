"""The command `records`, which prints the contract of the heartbeat topic for programs in other languages."""

from __future__ import annotations

import json

import click

from namesrv_stream.records import record_schema


@click.command("records")
@click.option(
    "--schema", is_flag=True, required=True, expose_value=False, help="Print the JSON Schema of a record's value."
)
def records() -> None:
    """Print the contract of the records on the heartbeat topic.

    A record that the schema refuses is refused by the job too, but for nulls: in a registration they count as absent.
    """
    click.echo(json.dumps(record_schema(), indent=2))
