"""Registrations and leases of one broker address."""

from namesrv_stream.gateway.known_brokers import token_of
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import LiveRow
from tests.build import ADDRESS, register_request


def command(counter=1, topics=("A", "B"), **changed):
    """A registration without a checksum, so that a test may change its body."""
    made = register_request(counter=counter, topics=topics, **changed)
    del made.ext_fields["bodyCrc32"]
    return made


def live(*said, counter=1, broker_id=0, name="a"):
    """A lease that shows what these commands say."""
    tokens = tuple(map(token_of, said))
    return LiveRow(ADDRESS, "c", name, broker_id, 0, 120_000, DataVersion(0, 7, counter), "", 0, tokens=tokens)
