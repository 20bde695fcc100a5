"""A proxy before an S3 server that loses answers of commits, and refuses some, as busy stores do:

    python tests/s3/unreliable.py PORT PORT_OF_S3

It has a process of its own: delta-rs holds Python's lock while it waits for some answers. GET /fates returns what it
has done.
"""

import http.client
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"
COMMIT = re.compile(r"/_delta_log/[0-9]{20}\.json$")
LOST_EVERY = 3
REFUSED_EVERY = 5


class Unreliable(ThreadingHTTPServer):
    """Answers every third commit 500 after the server has done it, and every fifth 409 without asking the server."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port, port_of_s3):
        super().__init__((HOST, port), _Handler)
        self.port_of_s3 = port_of_s3
        self.fates = {"lost": 0, "refused": 0, "passed": 0}
        self._lock = threading.Lock()

    def fate(self, method, path):
        """Return `refused`, `lost` or `passed` for this request."""
        if method != "PUT" or not COMMIT.search(path.partition("?")[0]):
            return "passed"
        with self._lock:
            number = sum(self.fates.values()) + 1
            fate = "refused" if number % REFUSED_EVERY == 0 else "lost" if number % LOST_EVERY == 0 else "passed"
            self.fates[fate] += 1
        return fate


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass_on(self):
        if self.path == "/fates":
            self._answer(200, {}, json.dumps(self.server.fates).encode())
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fate = self.server.fate(self.command, self.path)
        if fate == "refused":
            self._answer(409, {}, _error("ConditionalRequestConflict"))
            return
        connection = http.client.HTTPConnection(HOST, self.server.port_of_s3, timeout=120)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if fate == "lost":
            self._answer(500, {}, _error("InternalError"))
        else:
            self._answer(answer.status, dict(answer.getheaders()), content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815  # http.server's names

    def _answer(self, status, headers, content):
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


def _error(code):
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()


if __name__ == "__main__":
    Unreliable(int(sys.argv[1]), int(sys.argv[2])).serve_forever()
