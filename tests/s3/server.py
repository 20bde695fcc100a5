"""An S3 server in a process of its own, moto's, which answers one request at a time:

    python tests/s3/server.py PORT [--without-conditions]

moto looks for an object (`If-None-Match: *`) and stores it in two steps; one request at a time makes them one, as they
are in S3. `--without-conditions` ignores that header, like a store that does not know conditional writes.
"""

import io
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


def serve(port, *, knows_conditions):
    moto = DomainDispatcherApplication(create_backend_app)
    app = OneAtATime(moto, knows_conditions=knows_conditions)
    run_simple("127.0.0.1", port, app, threaded=True, request_handler=KeepAlive)


if __name__ == "__main__":
    serve(int(sys.argv[1]), knows_conditions="--without-conditions" not in sys.argv)
