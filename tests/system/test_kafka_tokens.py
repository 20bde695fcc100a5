"""A Kafka that takes tokens of an OIDC provider alone, and tokens that end after seconds."""

import base64
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments, spark_kafka_options
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError
from namesrv_stream.job.source import kafka_records
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.topic import ensure_topic, wait_for_kafka
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.process import HOST, free_ports
from tests.waiting import until

pytestmark = pytest.mark.system
LIFE_S = 5
SECRET = 's3cr"et'


def encoded(content):
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


class Provider(ThreadingHTTPServer):
    """Gives tokens to the client `registry`. `given`: the programs that have asked; only Java's have a name."""

    def __init__(self):
        super().__init__((HOST, 0), Asked)
        self.key = rsa.generate_private_key(65_537, 2_048)
        self.given = []

    @property
    def url(self):
        return f"http://{HOST}:{self.server_address[1]}/token"

    def keys(self):
        numbers = self.key.public_key().public_numbers()
        n, e = (encoded(each.to_bytes(256).lstrip(b"\0")) for each in (numbers.n, numbers.e))
        return json.dumps({"keys": [{"kty": "RSA", "kid": "k", "alg": "RS256", "use": "sig", "n": n, "e": e}]})

    def token(self):
        now = int(time.time())
        claims = {"sub": "registry", "aud": "kafka", "scope": "kafka", "iat": now, "exp": now + LIFE_S}
        parts = [encoded(json.dumps(each).encode()) for each in ({"alg": "RS256", "kid": "k"}, claims)]
        return ".".join([*parts, encoded(self.key.sign(".".join(parts).encode(), padding.PKCS1v15(), SHA256()))])


class Asked(BaseHTTPRequestHandler):
    def do_POST(self):  # the base class's name
        self.rfile.read(int(self.headers["Content-Length"]))
        user = base64.b64decode(self.headers["Authorization"].split()[-1]).decode()
        is_known = user == f"registry:{SECRET}"
        answer = {"access_token": self.server.token(), "token_type": "Bearer", "expires_in": LIFE_S}
        self.server.given.append(self.headers.get("User-Agent", ""))
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer if is_known else {"error": "invalid_client"}).encode())

    def log_message(self, *_):
        """Prints nothing."""


class TokenKafka(LocalKafka):
    def __init__(self, data, keys):
        super().__init__(data)
        self.port, self.keys = free_ports(1), keys

    def _java(self, options, *arguments):
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.keys.as_uri()}"
        return super()._java([*options, allowed], *arguments)

    def _server_properties(self):
        own, controller = self.bootstrap_servers, f"{HOST}:{self._controller_port}"
        of_tokens = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
        mine = "listener.name.sasl_plaintext.oauthbearer."
        listeners = f"PLAINTEXT://{own},SASL_PLAINTEXT://{HOST}:{self.port}"
        return super()._server_properties() + (
            f"listeners={listeners},CONTROLLER://{controller}\nadvertised.listeners={listeners}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"sasl.enabled.mechanisms=OAUTHBEARER\n{mine}connections.max.reauth.ms=60000\n"
            f"{mine}sasl.server.callback.handler.class={of_tokens}ValidatorCallbackHandler\n"
            f"{mine}sasl.jaas.config={of_tokens}LoginModule required ;\n"
            f"sasl.oauthbearer.jwks.endpoint.url={self.keys.as_uri()}\nsasl.oauthbearer.expected.audience=kafka\n"
        )


@pytest.fixture(scope="module")
def provider():
    with Provider() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def guarded(provider, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kafka")
    (folder / "keys.json").write_text(provider.keys())
    with TokenKafka(folder, folder / "keys.json") as running:
        yield running


@pytest.fixture
def settings(guarded, provider, topic):
    def of(**other):
        oauth = {
            "token.endpoint.url": provider.url,
            "client.credentials.client.id": "registry",
            "client.credentials.client.secret": SECRET,
            "scope": "kafka",
        }
        return NamesrvSettings.model_validate(
            {
                "kafka.bootstrap.servers": f"{HOST}:{guarded.port}",
                "kafka.topic": topic,
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "OAUTHBEARER",
            }
            | {f"kafka.sasl.oauthbearer.{key}": text for key, text in (oauth | other).items()}
        )

    return of


def test_tokens_are_renewed_by_clients_of_java_and_of_python(guarded, provider, settings, spark):
    in_force = settings()
    kafka, topic = kafka_client_arguments(in_force), in_force.kafka_topic
    ensure_topic(kafka, topic)
    kafka_records(spark, in_force, None)
    by_java = spark.read.format("kafka").options(**spark_kafka_options(in_force), subscribe=topic)

    def asked():
        return Counter("Java" in program for program in provider.given)

    with HeartbeatProducer(kafka, topic) as producer:
        for sent in (1, 2, 3):
            producer.tick().result()
            assert by_java.load().count() == sent
            before = asked()  # from here on nobody logs in: what comes are renewals
            until(lambda before=before: all(asked()[kind] > before[kind] for kind in (True, False)))


@pytest.mark.parametrize(
    ("other", "kind", "said"),
    [
        ({"client.credentials.client.secret": "other"}, KafkaRefusedError, r"invalid_client.*check kafka\.sasl"),
        (
            {"token.endpoint.url": "http://127.0.0.1:1/"},
            KafkaUnreachableError,
            r"not connect.*check kafka\.sasl",
        ),
    ],
    ids=["a wrong secret", "no token endpoint"],
)
def test_a_client_without_a_token_is_told_the_cause(settings, other, kind, said):
    kafka = kafka_client_arguments(settings(**other))
    with pytest.raises(kind, match=said):
        wait_for_kafka({"socket.timeout.ms": 4_000} | kafka, limit_s=0)
