"""The cases of the protocol as data."""

import json
from pathlib import Path

CASES = [
    json.loads(line)
    for file in sorted(Path(__file__).with_name("cases").glob("*.jsonl"))
    for line in file.read_text("utf-8").splitlines()
]


def bytes_of(pieces):
    found = b""
    for piece in pieces:
        match piece:
            case str():
                found += piece.encode()
            case {"hex": text}:
                found += bytes.fromhex(text)
            case [text, times]:
                found += text.encode() * times
    return found
