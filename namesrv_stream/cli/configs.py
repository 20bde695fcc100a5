"""`getKvConfig`, `listKvConfig`, `getNamesrvConfig`: what operators have set."""

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
    """One value, alone on its line."""
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
    """All keys of a namespace. --json prints RocketMQ's KVTable."""
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
    """K4: a namespace that was never made is not found, an emptied one is."""
    if namespace not in served.tables.kv:
        raise NotFoundError("namespace", namespace, served.tables.kv, served.snapshot.epoch)
    return dict(served.tables.kv[namespace])


@click.command("getNamesrvConfig")
@view_options()
@click.pass_obj
def get_namesrv_config(invocation: Invocation, view: View) -> None:
    """All settings: those in force here, with what UPDATE_NAMESRV_CONFIG changed for all processes."""
    show(
        invocation,
        view,
        lambda served: Answer(
            encode_json(served.settings.properties()),
            lambda _plain: Text(to_properties_text(served.settings).rstrip("\n")),
        ),
    )
