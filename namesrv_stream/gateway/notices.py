"""R14: brokers of a group are told when the group's smallest id changes (905, oneway), where that is switched on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from namesrv_stream.rules.rows import BrokerRow, LiveRow
from namesrv_stream.wire.codes import Flag, RequestCode
from namesrv_stream.wire.command import RemotingCommand, encode_command
from namesrv_stream.wire.headers import NotifyMinBrokerIdChangeHeader, header_fields

log = logging.getLogger(__name__)

_SEND_LIMIT_S = 3.0
Groups = Mapping[str, Mapping[int, BrokerRow]]


class Notice(NamedTuple):
    """What one broker is told."""

    broker_addr: str
    header: NotifyMinBrokerIdChangeHeader


def notices(before: Groups, after: Groups, live: Mapping[str, LiveRow]) -> Iterator[Notice]:
    """What a new snapshot gives to tell: a smaller id has joined a group, or its smallest one has left.

    A joiner is not told of itself. `live` are the new snapshot's leases.
    """
    for name, holders in after.items():
        former = before.get(name)
        if not former or min(former) == min(holders):
            continue
        smallest = holders[min(holders)]
        has_left = min(former) < min(holders)
        of_smallest = live.get(smallest.broker_addr)
        header = NotifyMinBrokerIdChangeHeader(
            min_broker_id=smallest.broker_id,
            broker_name=name,
            min_broker_addr=smallest.broker_addr,
            offline_broker_addr=former[min(former)].broker_addr if has_left else None,
            ha_broker_addr=of_smallest.ha_server_addr if of_smallest and not has_left else None,
        )
        for holder in holders.values():
            if has_left or holder is not smallest:
                yield Notice(holder.broker_addr, header)


async def send(notice: Notice) -> None:
    """Over a connection of its own, as RocketMQ does; a broker that is not reached learns of it by asking."""
    command = RemotingCommand(
        code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, flag=Flag.ONEWAY, ext_fields=header_fields(notice.header)
    )
    host, _, port = notice.broker_addr.rpartition(":")
    try:
        async with asyncio.timeout(_SEND_LIMIT_S):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode_command(command))
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        log.info("%s was not told of its group's smallest id: %s", notice.broker_addr, error)
