"""Check the registered brokers: whether their configuration lies, and whether this machine reaches their addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from namesrv_stream.answers.claims import config_warnings
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NoSuchSnapshotError, NotARegistryError
from namesrv_stream.reporting.texts import broker_text, counted, natural_key
from namesrv_stream.rules.addresses import host_of, is_of_some_machine
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tools.doctor import Finding

CONNECT_LIMIT_S = 3.0
_AT_A_TIME = 32
_MAX_NAMED = 20


def check_configuration(settings: NamesrvSettings) -> Iterator[Finding]:
    """Name brokers with one identity at several addresses, and addresses that other machines cannot use."""
    registry = _newest(settings)
    if registry is None:
        return
    told = list(config_warnings(registry))
    for text in told[:_MAX_NAMED]:
        yield Finding("brokers", "warning", text)
    if not told:
        yield Finding("brokers", "ok", f"{counted(len(registry.live), 'broker')} up, each with its own identity")


def check_connections(settings: NamesrvSettings) -> Iterator[Finding]:
    """Open and close a connection to each registered address from this machine, which is all that this proves."""
    registry = _newest(settings)
    if registry is None:
        return
    leases = sorted(registry.live.values(), key=lambda lease: natural_key(lease.broker_addr))
    begun_s = perf_counter()
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        problems = list(pool.map(_connection_problem, (lease.broker_addr for lease in leases)))
    failed = [(lease, problem) for lease, problem in zip(leases, problems, strict=True) if problem]
    for lease, problem in failed[:_MAX_NAMED]:
        yield Finding("broker", "failed", f"cannot connect to {_named(lease)}: {problem}", _STEP)
    rest = f", {len(failed) - _MAX_NAMED:,} more cannot" if len(failed) > _MAX_NAMED else ""
    reached = f"this machine can connect to {len(leases) - len(failed):,} of {counted(len(leases), 'broker')}{rest}"
    took = f"in {perf_counter() - begun_s:.1f} s; clients elsewhere may not"
    yield Finding("brokers", "failed" if failed else "ok", f"{reached} ({took})")


_STEP = "Check that it runs, and that brokerIP1 is an address that this machine can use."


def _newest(settings: NamesrvSettings) -> RegistryAt | None:
    try:
        return Registry(settings.delta_root, settings.storage_options or None).newest()
    except (NotARegistryError, NoSuchSnapshotError):
        return None


def _named(lease: LiveRow) -> str:
    return f"{broker_text(lease.broker_name, lease.broker_id)} ({lease.broker_addr})"


def _connection_problem(address: str) -> str:
    """Return why a connection to `host:port` fails, empty text if it does not."""
    if not is_of_some_machine(address):
        return "not an address to connect to"
    try:
        with socket.create_connection((host_of(address), int(address.rpartition(":")[2])), CONNECT_LIMIT_S):
            return ""
    except TimeoutError:
        return f"no answer within {CONNECT_LIMIT_S:g} s"
    except (OSError, ValueError, OverflowError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
