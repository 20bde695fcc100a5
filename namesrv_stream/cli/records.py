"""The command `records`, which prints the contract of the heartbeat topic for programs in other languages."""

from __future__ import annotations

import json

import click

from namesrv_stream.records import record_schema


@click.command("records")
@click.option("--schema", is_flag=True, expose_value=False, help="Print the JSON Schema of a record's value (default).")
def records() -> None:
    """Print the JSON Schema of the records on Kafka.

    The job rejects records that the schema rejects, with one exception: nulls in a registration count as absent.
    """
    click.echo(json.dumps(record_schema(), indent=2))
