import re
from pathlib import Path

import pytest

from namesrv_stream.config import CATALOGUE, NamesrvSettings, load_settings
from namesrv_stream.config.loading import RETIRED, environment_name
from namesrv_stream.errors import SettingError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "namesrv.properties"
        path.write_bytes(text.encode(encoding))
        return path

    return write


def test_option_wins_over_environment_over_file_over_default(file):
    path = file("triggerMillis=1\ntickMillis=1\nlistenPort=1\n")
    environ = {"NAMESRV_TICK_MILLIS": "2", "NAMESRV_LISTEN_PORT": "2"}
    settings = load_settings(path, environ, {"listenPort": "3"})
    assert (settings.listen_port, settings.tick_millis, settings.trigger_millis) == (3, 2, 1)
    assert settings.maintenance_millis == 1_800_000


def test_file_is_java_properties(file):
    text = "! comment\nproductEnvName : a\\u00e4\\\n   b\nlistenPort 1\nlistenPort=2\n"
    settings = load_settings(file(text))
    assert (settings.product_env_name, settings.listen_port) == ("aäb", 2)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_file_may_be_utf8_or_latin1(file, encoding):
    assert load_settings(file("productEnvName=Köln", encoding)).product_env_name == "Köln"


@pytest.mark.parametrize("name", ["missing.properties", "."])
def test_unreadable_file_is_one_message(tmp_path, name):
    with pytest.raises(SettingError, match=re.escape(str(tmp_path))) as error:
        load_settings(tmp_path / name)
    assert error.value.exit_status == 2


@pytest.mark.parametrize("line", ["productEnvName=\\u12", "=value", "\0a=b"])
def test_a_malformed_line_is_named_with_its_file(file, line):
    path = file(f"listenPort=1\n\n{line}\n")
    with pytest.raises(SettingError, match=f"option -c: {re.escape(str(path))}: line 3: .* KEY=VALUE"):
        load_settings(path)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("listenProt", "listenPort"),
        ("listenport", "listenPort"),
        ("delta.rot", "delta.root"),
        ("kafkaTopic", "kafka.topic"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("kafka.sasl.mechanisms", "kafka.sasl.mechanism"),
        ("kafka.ssl.trustore.location", "kafka.ssl.truststore.location"),
        ("delta.storag.x", ""),
    ],
)
def test_unknown_key_names_file_and_nearest_key(file, key, meant):
    path = file(f"{key}=1\n")
    with pytest.raises(SettingError, match=f"Did you mean {re.escape(meant)}") as error:
        load_settings(path)
    assert error.value.key == key
    assert str(path) in str(error.value)


def test_every_unknown_key_is_named_with_its_place(file):
    path = file("listenProt=1\nnonsense=2\nlistenPort=3\n")
    with pytest.raises(SettingError) as error:
        load_settings(path, options={"kafkaTopic": "t"})
    for told in (
        f"setting listenProt is not known, in {path}. Did you mean listenPort? ",
        f"nonsense is not known either, in {path}. ",
        "kafkaTopic is not known either, on the command line. Did you mean kafka.topic? ",
    ):
        assert told in str(error.value)


@pytest.mark.parametrize(
    ("key", "text", "accepted"),
    [
        ("listenPort", "65536", "65535"),
        ("listenPort", "-1", "0"),
        ("listenPort", "98 76", "whole number"),
        ("listenPort", "9_876", "whole number"),
        ("waitSecondsForService", "2147483648", "2147483647"),
        ("orderMessageEnable", "yes", "true and false"),
        ("orderMessageEnable", "1", "true and false"),
        ("log.format", "xml", "'text' or 'json'"),
        ("expiryGuardRatio", "1.1", "less than or equal to 1"),
        ("console.trustedProxies", "10.0.0.5,x", "'x'"),
        ("maxOffsetsPerTrigger", "0", "1"),
        ("snapshot.exact", "30", "30d"),
        ("snapshot.exact", "0d", "0"),
        ("kafka.bootstrap.servers", "host", "host:port"),
        ("kafka.bootstrap.servers", "a:1,b", "host:port"),
        ("kafka.topic", "a b", "a-zA-Z0-9"),
        ("delta.root", "", "1 character"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_what_is_accepted_and_its_place(file, key, text, accepted):
    path = file(f"{key}={text}\n")
    with pytest.raises(SettingError) as error:
        load_settings(path)
    assert error.value.key == key
    assert accepted in str(error.value)
    assert str(path) in str(error.value)


def test_wrong_secret_is_not_repeated(file):
    with pytest.raises(SettingError) as error:
        load_settings(file("tls.server.keyPassword=secret\ntls.server.certPath=a\n"))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("30d", "30d"), ("720h", "30d"), ("90m", "90m"), ("60 s", "1m"), ("1500ms", "1500ms"), ("36H", "36h")],
)
def test_duration_is_read_and_shown_with_its_unit(text, shown):
    assert load_settings(options={"snapshot.exact": text}).properties()["snapshot.exact"] == shown


@pytest.mark.parametrize(
    ("root", "checkpoint"),
    [
        ("/a/tables", "/a/tables-checkpoint"),
        ("hdfs://namenode/t/", "hdfs://namenode/t-checkpoint"),
        ("s3a://bucket/t/", "data/bucket/t-checkpoint"),
    ],
)
def test_checkpoint_lies_beside_the_tables_or_here_if_they_are_in_an_object_store_unless_set(root, checkpoint):
    assert load_settings(options={"delta.root": root}).checkpoint_location == checkpoint
    assert load_settings(options={"delta.root": root, "checkpoint.location": "/c"}).checkpoint_location == "/c"


def test_tilde_in_a_path_is_the_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/registry")
    settings = load_settings(options={"delta.root": "~/tables"})
    assert settings.delta_root == "/home/registry/tables"
    assert settings.kv_config_path == "/home/registry/namesrv/kvConfig.json"


def test_every_setting_has_a_variable_of_its_own():
    names = [environment_name(key) for key in CATALOGUE]
    assert len(names) == len(set(names))
    assert environment_name("kvConfigPath") == "NAMESRV_KV_CONFIG_PATH"


def test_options_of_kafka_and_storage_have_variables_too():
    settings = load_settings(
        environ={
            "NAMESRV_KAFKA_SASL_MECHANISM": "PLAIN",
            "NAMESRV_KAFKA_TOPIC": "t",
            "NAMESRV_DELTA_STORAGE_AWS_REGION": "eu",
        }
    )
    assert settings.kafka_options == {"sasl.mechanism": "PLAIN"}
    assert settings.kafka_topic == "t"
    assert settings.storage_options == {"aws_region": "eu"}


@pytest.mark.parametrize(
    "name",
    [
        "NAMESRV_ADDR",
        "NAMESRV_SERVICE_HOST",
        "NAMESRV_PORT_9876_TCP",
        "PATH",
        "NAMESRV_KAFKA_SERVICE_HOST",
        "NAMESRV_KAFKA_SERVICE_PORT",
        "NAMESRV_KAFKA_SERVICE_PORT_CLIENT",
        "NAMESRV_KAFKA_PORT",
        "NAMESRV_KAFKA_PORT_9092_TCP",
        "NAMESRV_KAFKA_PORT_9092_TCP_PROTO",
        "NAMESRV_DELTA_STORAGE_SERVICE_HOST",
        "NAMESRV_METRICS_PORT",
        "NAMESRV_LISTEN_PORT",
    ],
)
def test_variables_of_others_are_left_alone(name):
    assert load_settings(environ={name: "tcp://10.0.0.1:9876"}) == NamesrvSettings()


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"tls.server.certPath": "c"}, "tls.server.keyPath"),
        ({"tls.server.keyPath": "k"}, "tls.server.certPath"),
        ({"tls.server.mode": "enforcing"}, "tls.server.certPath"),
    ],
)
def test_tls_needs_certificate_and_key(options, missing):
    with pytest.raises(SettingError, match=re.escape(missing)):
        load_settings(options=options)


def test_e7_ticks_come_at_least_every_2_s():
    assert load_settings(options={"tickMillis": "2000"})
    with pytest.raises(SettingError, match=r"tickMillis.*silent leases would end late.*2000 or less"):
        load_settings(options={"tickMillis": "2001"})
    assert load_settings(options={"tickMillis": "15000", "tickGapMillis": "0"}), "all time counts"


@pytest.mark.parametrize(("key", "instead"), RETIRED.items())
def test_a_retired_setting_is_refused_with_what_to_do_instead_wherever_it_is_found(file, key, instead):
    for places in ((file(f"{key}=1\n"),), (None, {environment_name(key): "1"}), (None, {}, {key: "1"})):
        with pytest.raises(SettingError, match=f"{re.escape(key)} is no longer a setting.*{re.escape(instead)}"):
            load_settings(*places)


def test_example_file_shows_every_default(file):
    example = (ROOT / "conf/namesrv.properties").read_text()
    uncommented = re.sub(r"(?m)^#(?=\S)", "", example)
    path = file(uncommented)
    assert load_settings(path) == NamesrvSettings(config_store_path=str(path))
    assert all(f"#{key}=" in example for key in CATALOGUE if not key.endswith("*"))


@pytest.mark.parametrize("folder", ["100%25 reg", "a%20b", "[x]{y}*", "b]", "a\\b", "a\tb"])
def test_a_folder_that_delta_rs_takes_for_another_one_is_refused(tmp_path, folder):
    with pytest.raises(SettingError, match="take another folder"):
        load_settings(None, {}, {"delta.root": str(tmp_path / folder)})


@pytest.mark.parametrize("folder", ["{y} *?", "ü 数", "a#b;c&d+e'f", " lead"])
def test_a_folder_with_other_odd_letters_is_taken(tmp_path, folder):
    assert load_settings(None, {}, {"delta.root": str(tmp_path / folder)}).delta_root.endswith(folder)
