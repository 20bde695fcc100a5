"""The table of docs/security.md with RocketMQ's own Java client as the sender of every request.

No Kafka runs: a write that is admitted is answered SYSTEM_BUSY, or SUCCESS where nothing had to be written.
"""

import pytest

from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from tests.gateway.java_peer import JavaPeer
from tests.gateway.test_authorization import MODES, OF_SETTINGS, SECRET, SENDERS, TABLE, USERS, request
from tests.java_client import client_jvm

pytestmark = [pytest.mark.system, pytest.mark.full]  # test_authorization.py asks the same without a JVM


@pytest.fixture(scope="module")
def senders(tmp_path_factory):
    """A Java client for each column of the table."""
    with client_jvm(tmp_path_factory.mktemp("java")) as java:
        keys = {access_key: access_key and (access_key, SECRET.decode()) for access_key, _ in SENDERS.values()}
        peers = {access_key: JavaPeer(java, each) for access_key, each in keys.items()}
        yield {sender: peers[access_key] for sender, (access_key, _) in SENDERS.items()}
        for peer in peers.values():
            peer.close()


@pytest.fixture
def guarded(registry, settings, tmp_path):
    """A gateway in a mode."""
    users = tmp_path / "users.toml"
    users.touch(0o600)
    users.write_text(USERS)
    return lambda mode: BackgroundGateway(settings(auth__mode=mode, auth__usersPath=str(users)))


@pytest.mark.parametrize("mode", MODES)
def test_each_request_of_a_java_client_is_admitted_as_in_the_table(senders, guarded, mode):
    def asked(sender, code, last, body, **fields):
        answer = senders[sender].ask(running.gateway.port, code, body, **fields)
        is_admitted = MODES.index(mode) <= MODES.index(last)
        assert (answer.code != ResponseCode.NO_PERMISSION) == is_admitted, (code, sender, answer)
        assert is_admitted or RequestCode(code).name in answer.remark
        assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    with guarded(mode) as running:
        for code, sender, last in TABLE:
            body, fields = request(code, SENDERS[sender][1])
            asked(sender, code, last, body, **fields)
        for sender, last in OF_SETTINGS:
            asked(sender, RequestCode.UPDATE_NAMESRV_CONFIG, last, b"needWaitForService=true")
