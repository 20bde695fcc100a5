"""Notify the brokers of a group when its smallest id changes (905, oneway), if that is switched on (R14).

RocketMQ's NameServer sends these notices at each registration or unregistration. Here they follow from two successive
snapshots: a broker that came and left between them causes no notice, and several that left cause one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from namesrv_stream.rules.lookup import latest_registered
from namesrv_stream.rules.rows import BrokerRow, LiveRow
from namesrv_stream.wire.codes import Flag, RequestCode
from namesrv_stream.wire.headers import NotifyMinBrokerIdChangeHeader, header_fields
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

log = logging.getLogger(__name__)

SENT_AT_A_TIME = 64
"""Limit of the notices on their way, because each opens a connection to an address that a peer chose."""

_SEND_LIMIT_S = 3.0
Holders = Mapping[int, BrokerRow]
Groups = Mapping[str, Holders]


class Notice(NamedTuple):
    """A notice, and the broker that it is sent to."""

    broker_addr: str
    header: NotifyMinBrokerIdChangeHeader


def notices(before: Groups, after: Groups, live: Mapping[str, LiveRow]) -> Iterator[Notice]:
    """Yield the notices that a new snapshot causes. `live`: its leases by broker address."""
    for name, holders in after.items():
        former = before.get(name)
        if not former or min(former) == min(holders):
            continue
        if min(holders) < min(former):
            yield from _of_a_joiner(former, holders, live)
        else:
            yield from _of_a_leaver(former, holders)


def _of_a_joiner(former: Holders, holders: Holders, live: Mapping[str, LiveRow]) -> Iterator[Notice]:
    """Yield the notices of a smaller id that has joined: to the others or, if the only member took it, to that one."""
    smallest = holders[min(holders)]
    lease = live.get(smallest.broker_addr)
    header = NotifyMinBrokerIdChangeHeader(
        min_broker_id=smallest.broker_id,
        min_broker_addr=smallest.broker_addr,
        ha_broker_addr=lease.ha_server_addr if lease else None,
    )
    others = [holder for holder in holders.values() if holder is not smallest]
    promoted = [smallest] if smallest.broker_addr in {holder.broker_addr for holder in former.values()} else []
    for holder in others or promoted:
        yield Notice(holder.broker_addr, header)


def _of_a_leaver(former: Holders, holders: Holders) -> Iterator[Notice]:
    """Yield notices to all brokers that stay that the smallest id has left, if the group has the acting flag (D6).

    A broker that took a larger id has not left. If several have left, the notice names the one with the smallest id. If
    that is the master, slaves end their replication from it.
    """
    smallest, staying = holders[min(holders)], {holder.broker_addr for holder in holders.values()}
    gone = [former[i] for i in sorted(former) if i < smallest.broker_id and former[i].broker_addr not in staying]
    if not gone or not latest_registered(holders.values()).enable_acting_master:
        return
    header = NotifyMinBrokerIdChangeHeader(
        min_broker_id=smallest.broker_id,
        min_broker_addr=smallest.broker_addr,
        offline_broker_addr=gone[0].broker_addr,
    )
    for holder in holders.values():
        yield Notice(holder.broker_addr, header)


async def send_notice(notice: Notice, slots: asyncio.Semaphore) -> None:
    """Send a notice over a connection of its own, as RocketMQ does, once one of `slots` is free.

    A broker that cannot be reached gets the change with its next request.
    """
    command = RemotingCommand(
        code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, flag=Flag.ONEWAY, ext_fields=header_fields(notice.header)
    )
    host, _, port = notice.broker_addr.rpartition(":")
    try:
        async with slots, asyncio.timeout(_SEND_LIMIT_S):
            _, writer = await asyncio.open_connection(host.removeprefix("[").removesuffix("]"), int(port))
            writer.write(encode_command(command))
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        log.info("cannot notify %s of the smallest broker ID of its group: %s", notice.broker_addr, error)
