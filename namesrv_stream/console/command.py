"""`namesrv-stream console`: the registry over HTTP, and a page that shows it at any moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from namesrv_stream.config import Invocation
from namesrv_stream.console.server import ConsoleServer
from namesrv_stream.logs import set_up_logging


@click.command("console")
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="Settings, Java properties.")
@click.pass_obj
def console(invocation: Invocation, file: Path | None) -> None:
    """Serve the page and the HTTP API at console.port, until SIGTERM or Ctrl-C.

    Several may run side by side. Kafka and the job may be away: answers are from the last snapshot.
    """
    settings = replace(invocation, file=file or invocation.file).settings
    set_up_logging(log_format=settings.log_format)
    server = ConsoleServer(settings)
    server.stop_on_signals()
    click.echo(f"console: {server.url}/")
    server.serve_until_stopped()
