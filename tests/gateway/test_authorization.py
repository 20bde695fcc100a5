"""The rights of each sender: the table of docs/security.md over the wire, and how a sender is recognised.

No Kafka runs: a write that is admitted is answered SYSTEM_BUSY, or SUCCESS where nothing had to be written.

A case of cases/authorization.yaml is a gateway in a `mode`, what is asked of it `by` users, with fields that are
`changed` once they are signed, and all that it counts and logs: request, user, effect and number, and texts.
"""

import itertools
import json
import logging
import re
from pathlib import Path

import pytest

from namesrv_stream.access.rights import NotAllowedError, is_loopback
from namesrv_stream.access.users import Sender
from namesrv_stream.errors import SettingError
from namesrv_stream.gateway.authorization import MAX_KINDS, Authorization, Refusals
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.kafka_link import GatewayBusyError
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.wire.codes import Flag, RequestCode, ResponseCode
from namesrv_stream.wire.remoting_command import RemotingCommand, signed
from tests.certificates import make_certificate, trusting
from tests.data import data, params, require_known
from tests.gateway.peer import Peer
from tests.waiting import until

CASES = params(data(__file__, "cases/authorization.yaml"))
SECURITY = Path(__file__).parents[2] / "docs/security.md"
MODES = ["off", "observe", "operators", "writes"]
"""From the one that refuses least."""

OWN = {"clusterName": "c1", "brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "brokerId": "0"}
FOREIGN = {"clusterName": "c2", "brokerName": "broker-b", "brokerAddr": "10.0.0.3:10911", "brokerId": "0"}
SECRET = b"12345678"
SENDERS = {
    "anonymous": (None, OWN),
    "reader": ("reader", OWN),
    "broker, own name": ("broker-a", OWN),
    "broker, foreign name": ("broker-a", FOREIGN),
    "admin": ("ann", OWN),
}
"""Column of the table -> AccessKey and what it speaks for."""

BOUNDS = 'clusters = ["c1"]\nnames = ["broker-a"]\naddresses = ["10.0.0.1:10911"]\n'


def user(name, role, more=""):
    keys = f'accessKey = "{name}"\nsecretKey = "{SECRET.decode()}"\n'
    return f'[[user]]\nname = "{name}"\nrole = "{role}"\n{more or keys}{BOUNDS if role == "broker" else ""}'


USERS = user("reader", "reader") + user("broker-a", "broker") + user("ann", "admin")


@pytest.fixture
def users(tmp_path):
    def write(text=USERS):
        file = tmp_path / "users.toml"
        file.touch(0o600)
        file.write_text(text)
        return str(file)

    return write


@pytest.fixture
def guarded(registry, settings, users):
    """A gateway in a mode."""

    def make(mode, text=USERS, **more):
        return BackgroundGateway(settings(auth__mode=mode, auth__usersPath=users(text), **more))

    return make


def said_by(access_key, code, body=b"", **fields):
    """Return the fields of a request, signed with this key if there is one."""
    command = RemotingCommand(code=code, ext_fields=fields, body=body)
    return (signed(command, access_key, SECRET) if access_key else command).ext_fields


def ask(peer, code, access_key=None, body=b"", **fields):
    return peer.ask(code, body, **said_by(access_key, code, body, **fields))


def request(code, speaks_for):
    """Return a request about this broker, with body and fields."""
    queues = {"brokerName": speaks_for["brokerName"], "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    body = {217: json.dumps({"queueDatas": [queues]}).encode(), 318: b"orderMessageEnable=true"}.get(code, b"")
    fields = {"namespace": "N", "key": "K", "value": "V", "topic": "TopicA", "cluster": "c1"}
    return body, speaks_for | fields | {"haServerAddr": "10.0.0.1:10912"}


def documented():
    """Request code, sender, the last of MODES in which it is admitted, and whether that is of some settings alone."""
    head, _, *rows = re.search(r"^\| request \|.*?\n\n", SECURITY.read_text(), re.MULTILINE | re.DOTALL)[
        0
    ].splitlines()[:-1]
    assert cells_of(head) == ["request", *SENDERS]
    for what, *admitted in map(cells_of, rows):
        codes = [int(code) for code in re.findall(r"\b\d{3,}\b", what)]
        for code, (sender, last) in itertools.product(codes, zip(SENDERS, admitted, strict=True)):
            yield code, sender, MODES[-1] if last == "always" else last, "settings" in what


def cells_of(row):
    return [cell.strip() for cell in row.split("|")[1:-1]]


TABLE = [each[:3] for each in documented() if not each[3]]
OF_SETTINGS = [each[1:3] for each in documented() if each[3]]


def test_the_table_has_every_request():
    handled = set(RequestCode) - {RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE}
    assert {code for code, *_ in TABLE} == handled, f"the table of requests in {SECURITY} has other request codes"
    assert len(TABLE) == len(SENDERS) * len(handled), f"a request code has two rows in {SECURITY}"


@pytest.mark.parametrize("mode", MODES)
def test_each_sender_is_admitted_as_in_the_table(guarded, mode):
    with guarded(mode) as running, Peer(running.gateway.port) as peer:
        for code, sender, last in TABLE:
            access_key, speaks_for = SENDERS[sender]
            body, fields = request(code, speaks_for)
            answer = ask(peer, code, access_key, body, **fields)
            is_admitted = MODES.index(mode) <= MODES.index(last)
            assert (answer.code != ResponseCode.NO_PERMISSION) == is_admitted, (code, sender, answer)
            assert is_admitted or RequestCode(code).name in answer.remark
        for sender, last in OF_SETTINGS:
            answer = ask(peer, 318, SENDERS[sender][0], b"needWaitForService=true")
            assert (answer.code != ResponseCode.NO_PERMISSION) == (MODES.index(mode) <= MODES.index(last)), sender


@pytest.mark.parametrize("case", CASES)
def test_each_case_of_senders_is_as_it_says(guarded, caplog, case):
    require_known(case, "mode steps counted logged")
    caplog.set_level(logging.WARNING)
    with guarded(case["mode"]) as running, Peer(running.gateway.port) as peer:
        for step in case["steps"]:
            require_known(step, "oneway ask by fields changed code remark")
            match step:
                case {"oneway": code}:
                    peer.send(code, flag=Flag.ONEWAY, **said_by(step.get("by"), code, **step["fields"]))
                case {"ask": code}:
                    said = said_by(step.get("by"), code, **step["fields"])
                    answer = peer.ask(code, **said | step.get("changed", {}))
                    assert answer.code == ResponseCode[step["code"]], step
                    assert step.get("remark", "") in (answer.remark or ""), step
                case _:
                    raise AssertionError(f"no such step: {step}")
        of_all = [sample for metric in running.gateway.metrics.registry.collect() for sample in metric.samples]
    counted = [each for each in of_all if each.name == "namesrv_not_allowed_total"]
    assert [[*each.labels.values(), each.value] for each in counted] == case["counted"]
    told = [each for each in caplog.messages if "is denied" in each or "would be denied" in each]
    assert len(told) == len(case["logged"])
    assert all(text in each for text, each in zip(case["logged"], told, strict=True))


def test_refused_requests_are_a_record_at_once_and_one_an_hour_and_wait_for_kafka():
    sent, kafka = [], []
    refusals = Refusals(lambda record: sent.append(record) if kafka else check_room())
    eve = NotAllowedError(RequestCode.PUT_KV_CONFIG, Sender(None, "it has no AccessKey"), "the admin role")

    def check_room():
        raise GatewayBusyError("Kafka is away")

    def reasons(now_s, *hosts):
        for host in hosts:
            refusals.note(eve, host)
        sent.clear()
        refusals.send_due(now_s)
        return [each.reason for each in sent]

    line = "refused: PUT_KV_CONFIG of unknown@{} needs the admin role"
    assert reasons(1, "10.0.0.9") == []
    kafka.append("is back")
    assert reasons(2, "10.0.0.9", "10.0.0.8") == [line.format("10.0.0.9") + ", 2 times", line.format("10.0.0.8")]
    assert reasons(3_601, "10.0.0.9", "10.0.0.9", "10.0.0.9") == []
    assert reasons(3_602) == [line.format("10.0.0.9") + ", 3 times"]
    assert reasons(7_203) == [], "nobody was refused in that hour"
    many = reasons(9_000, *(f"10.0.1.{n}" for n in range(MAX_KINDS + 5)))
    assert len(many) == MAX_KINDS + 1, "peers can invent any number of users"
    assert many[-1] == "refused: requests of others needs a right, 5 times"


def test_users_that_change_are_in_force_without_a_restart(guarded, users):
    with guarded("operators", user("ann", "admin")) as running, Peer(running.gateway.port) as peer:
        assert ask(peer, 102, "bob", namespace="N", key="K").code == ResponseCode.NO_PERMISSION
        users(user("bob", "admin"))
        until(
            lambda: (
                ask(peer, 102, "bob", namespace="N", key="K").code == ResponseCode.SYSTEM_BUSY
                and ask(peer, 102, "ann", namespace="N", key="K").code == ResponseCode.NO_PERMISSION
            )
        )


def test_a_verified_certificate_stands_for_a_broker(guarded, tmp_path):
    for file in ("", "known-"):
        make_certificate(tmp_path, "broker", file)
    files = {"certPath": "cert.pem", "keyPath": "key.pem", "trustCertPath": "known-cert.pem"}
    tls = {f"tls__server__{key}": str(tmp_path / file) for key, file in files.items()}
    text = user("old", "broker", 'certificates = ["DNS:localhost"]\n')
    with guarded("writes", text, **tls) as running:
        for shown, code in ((None, ResponseCode.NO_PERMISSION), ("known", ResponseCode.SYSTEM_BUSY)):
            with Peer(running.gateway.port, trusting(tmp_path, shown)) as peer:
                assert ask(peer, 103, **OWN).code == code


# --- the start


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.1", "::", "", "namesrv.example"])
def test_an_open_gateway_has_to_be_asked_for(registry, settings, address):
    with pytest.raises(SettingError, match=r"auth\.mode.*is not set"), BackgroundGateway(settings(bindAddress=address)):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_programs_of_this_machine_need_not_sign(settings, address):
    assert is_loopback(address)
    assert Authorization(settings(bindAddress=address), Metrics()).checked == frozenset()
