"""RocketMQ's binary form of a header, as clients send it. A length of 0 stands for null."""

import struct

_FIXED = struct.Struct(">hbhiii")  # code, language, version, opaque, flag, length of the remark


def encode_binary(command):
    """Return a command's frame with its header in binary form. It cannot carry an empty text."""
    remark = (command.remark or "").encode()
    fixed = _FIXED.pack(command.code, 0, command.version, command.opaque, command.flag, len(remark))
    pairs = [(name.encode(), value.encode()) for name, value in (command.ext_fields or {}).items()]
    fields = b"".join(struct.pack(">h", len(n)) + n + struct.pack(">i", len(v)) + v for n, v in pairs)
    header = fixed + remark + struct.pack(">i", len(fields)) + fields
    return struct.pack(">II", 4 + len(header) + len(command.body), 1 << 24 | len(header)) + header + command.body
