"""`getKvConfig`, `listKvConfig`, `getNamesrvConfig`: values of the KV table, and settings."""

from __future__ import annotations

import click
from rich.console import Group, RenderableType
from rich.text import Text

from namesrv_stream.cli.output import counted, table
from namesrv_stream.cli.view import Answer, NotFoundError, Served, View, show, view_options
from namesrv_stream.config import Invocation, to_properties_text
from namesrv_stream.wire import bodies
from namesrv_stream.wire.json_text import encode_json


@click.command("getKvConfig")
@click.option("-s", "--namespace", required=True)
@click.option("-k", "--key", required=True)
@view_options()
@click.pass_obj
def get_kv_config(invocation: Invocation, namespace: str, key: str, view: View) -> None:
    """Print one value of the KV table, alone on its line."""
    show(invocation, view, lambda served: _value(served, namespace, key))


def _value(served: Served, namespace: str, key: str) -> Answer:
    values = _namespace(served, namespace)
    if key not in values:
        raise NotFoundError(f"key in namespace {namespace}", key, values, served.snapshot.epoch)
    return Answer(encode_json({"value": values[key]}), lambda _plain: Text(values[key]))


@click.command("listKvConfig")
@click.option("-s", "--namespace", required=True)
@view_options()
@click.pass_obj
def list_kv_config(invocation: Invocation, namespace: str, view: View) -> None:
    """List all keys of a namespace. --json prints RocketMQ's KVTable."""
    show(invocation, view, lambda served: _values(served, namespace))


def _values(served: Served, namespace: str) -> Answer:
    values = dict(sorted(_namespace(served, namespace).items()))
    return Answer(
        bodies.encode_body(bodies.KVTable(values)), lambda plain: _values_shown(served, namespace, values, plain)
    )


def _values_shown(served: Served, namespace: str, values: dict[str, str], plain: bool) -> RenderableType:
    title = f"{namespace}: {counted(len(values), 'key')}"
    return Group(served.heading(title), table(["key", "value+"], values.items(), plain=plain))


def _namespace(served: Served, namespace: str) -> dict[str, str]:
    """Return the values of a namespace, which may be empty. Raises NotFoundError if it was never made (K4)."""
    if namespace not in served.tables.kv:
        raise NotFoundError("namespace", namespace, served.tables.kv, served.snapshot.epoch)
    return dict(served.tables.kv[namespace])


@click.command("getNamesrvConfig")
@view_options()
@click.pass_obj
def get_namesrv_config(invocation: Invocation, view: View) -> None:
    """Print all settings in force here, including those that UPDATE_NAMESRV_CONFIG changed for all processes."""
    show(
        invocation,
        view,
        lambda served: Answer(
            encode_json(served.settings.properties()),
            lambda _plain: Text(to_properties_text(served.settings).rstrip("\n")),
        ),
    )
