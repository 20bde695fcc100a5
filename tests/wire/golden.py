"""Frames captured between real RocketMQ peers; tests/frames/INDEX.md describes each one."""

import base64
import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from namesrv_stream.errors import BadRequestError
from namesrv_stream.rules.record_types import BrokerHeartbeat
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.headers import BrokerHeader, read_names
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.write_requests import register_broker, unregister_broker

FOLDER = Path(__file__).parents[1] / "frames"


@dataclass(frozen=True)
class GoldenFrame:
    """One captured frame: its bytes, and how its capturer read it."""

    name: str
    is_request: bool
    raw: bytes
    said: dict

    def __str__(self):
        return f"{self.name}-{'request' if self.is_request else 'answer'}"

    @property
    def command(self) -> RemotingCommand:
        return decode_one(self.raw)

    @property
    def is_as_java_writes_it(self) -> bool:
        """Two frames were put together by hand: fields in another order, missing or of no meaning."""
        return self.name not in ("probe-106-2", "probe-106-3") or not self.is_request


def decode_one(raw: bytes) -> RemotingCommand:
    (command,) = FrameDecoder().feed(raw)
    return command


def broker_request(command, channel_id=None):
    """The content of the record that a broker's request becomes: a registration in full, its end, or a sign of life."""
    match command.code:
        case RequestCode.REGISTER_BROKER:
            return register_broker(command, channel_id)
        case RequestCode.UNREGISTER_BROKER:
            return unregister_broker(command)
        case RequestCode.QUERY_DATA_VERSION | RequestCode.BROKER_HEARTBEAT:
            return BrokerHeartbeat(broker_addr=read_names(command, BrokerHeader).broker_addr, channel_id=channel_id)
    raise BadRequestError(f"request code {command.code} is no broker's")


def _read() -> list[GoldenFrame]:
    frames = []
    for path in sorted(FOLDER.glob("*.json")):
        capture = json.loads(path.read_text())
        for side in ("request", "response"):
            if said := capture[side]:
                frames.append(GoldenFrame(path.stem, side == "request", bytes.fromhex(said["hex"]), said))
    return frames


def _recordings() -> dict[str, list[RemotingCommand]]:
    packed = json.loads((FOLDER / "recordings/registrations.json").read_text())
    return {name: list(FrameDecoder().feed(zlib.decompress(base64.b64decode(text)))) for name, text in packed.items()}


FRAMES = _read()
RECORDINGS = _recordings()
"""The registrations of two minutes by release, whether with static topics, and form of the body."""
REQUESTS = {frame.name: frame for frame in FRAMES if frame.is_request}
ANSWERS = {frame.name: frame for frame in FRAMES if not frame.is_request}
