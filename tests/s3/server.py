"""An S3 server in a process of its own, moto's, which answers one request at a time:

    python tests/s3/server.py PORT [--without-conditions] [--unreliable]

moto looks for an object (`If-None-Match: *`) and stores it in two steps; one request at a time makes them one, as they
are in S3. `--without-conditions` ignores that header, like a store that does not know conditional writes.
`--unreliable` loses answers of commits, and refuses some, as busy stores do: every third is answered 500 after it was
done, every fifth 409 and not done. GET /fates returns how many.
"""

import io
import json
import re
import sys
import threading

from moto.moto_server.werkzeug_app import MotoRequestHandler
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


class KeepAlive(MotoRequestHandler):
    protocol_version = "HTTP/1.1"  # 1.0 knows no `Expect: 100-continue`, for which Hadoop's client would wait 3 s a put

    def handle_expect_100(self):
        return True  # werkzeug itself says to go on; saying it twice ends Hadoop's uploads of files by an error

    def log_request(self, code="-", size="-"):
        pass


class Unreliable:
    def __init__(self, app):
        self._app = app
        self._fates = {"lost": 0, "refused": 0, "passed": 0}

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] == "/fates":
            start_response("200 OK", [])
            return [json.dumps(self._fates).encode()]
        fate, number = "passed", sum(self._fates.values()) + 1
        if environ["REQUEST_METHOD"] == "PUT" and re.search(r"/_delta_log/[0-9]{20}\.json$", environ["PATH_INFO"]):
            fate = "refused" if number % 5 == 0 else "lost" if number % 3 == 0 else "passed"
            self._fates[fate] += 1
        if fate == "passed":
            return self._app(environ, start_response)
        if fate == "lost":
            list(self._app(environ, lambda *_: None))
        start_response(*(("500 Lost", []) if fate == "lost" else ("409 Conflict", [])))
        code = "InternalError" if fate == "lost" else "ConditionalRequestConflict"
        return [f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()]


class OneAtATime:
    def __init__(self, app, *, knows_conditions):
        self._app = app
        self._knows_conditions = knows_conditions
        self._turn = threading.Lock()

    def __call__(self, environ, start_response):
        if not self._knows_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        body = environ["wsgi.input"]  # a refused put leaves it unread, where the connection's next request begins
        length = -1 if environ.get("wsgi.input_terminated") else int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(body.read(length))
        with self._turn:
            return list(self._app(environ, start_response))


def serve(port, options):
    moto = DomainDispatcherApplication(create_backend_app)
    answering = Unreliable(moto) if "--unreliable" in options else moto
    app = OneAtATime(answering, knows_conditions="--without-conditions" not in options)
    run_simple("127.0.0.1", port, app, threaded=True, request_handler=KeepAlive)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2:])
