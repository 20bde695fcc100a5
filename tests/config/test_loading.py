"""The cases in tests/config/settings.yaml: what is given as file, environment or options, and the settings then.

Cases stand under their rule. `environ` are variables, `update` is a change at run time, `no_file` a file that is not
there. `is`: all settings that are not as by default, or what the reader finds that `of` names. `has`: some of them.
`refused`: a text of the error, or several. The error also has the key that is given, or `key`, and names the file, for
whose path FILE stands.
"""

import re
from pathlib import Path

import pytest

from namesrv_stream.config import (
    CATALOGUE,
    ConfigBlackListError,
    NamesrvSettings,
    kafka_client_arguments,
    load_settings,
    spark_kafka_options,
)
from namesrv_stream.config.loading import RETIRED, environment_name
from namesrv_stream.config.values import is_object_store, s3a_options
from namesrv_stream.errors import SettingError
from tests.data import data, params, require_known

ROOT = Path(__file__).parents[2]
CASES = params(data(__file__, "settings.yaml"))
DEFAULTS = NamesrvSettings().properties(masked=False)


@pytest.fixture
def file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "namesrv.properties"
        path.write_bytes(text.encode(encoding))
        return path

    return write


def changed(settings, _case):
    found = settings.properties(masked=False)
    return {key: text for key, text in found.items() if text != DEFAULTS.get(key) and key != "configStorePath"}


def s3a(settings, case):
    """Return what the bucket `routes` gets, without what every bucket gets."""
    options = s3a_options("s3a://routes/registry", settings.storage_options, case.get("environ", {}))
    prefix = "fs.s3a.bucket.routes."
    assert all(key.startswith(prefix) for key in options), "another bucket keeps its own settings"
    short = {key.removeprefix(prefix): text for key, text in options.items()}
    assert short.pop("input.stream.type") == "classic"
    return short


READERS = {
    "settings": changed,
    "spark": lambda settings, _case: spark_kafka_options(settings),
    "python": lambda settings, _case: kafka_client_arguments(settings),
    "s3a": s3a,
}


def read(case, path):
    settings = load_settings(path, case.get("environ"), case.get("options"))
    if "update" in case:  # the changes become rows, and each process restores them
        settings = settings.restored(settings.live_changes(case["update"]))
        case = case | {"options": case.get("options", {}) | case["update"]}
    return READERS[case.get("of", "settings")](settings, case)


@pytest.mark.parametrize("case", CASES)
def test_settings_are_read_or_refused_as_the_case_has_it(case, file, tmp_path):
    require_known(case, "file no_file encoding environ options update of is has refused key")
    assert len(case.keys() & {"is", "has", "refused"}) == 1
    assert "refused" in case or "key" not in case
    path = file(case["file"], case.get("encoding", "utf-8")) if "file" in case else None
    if "no_file" in case:
        path = tmp_path / case["no_file"]
    if "is" in case:
        assert read(case, path) == case["is"]
        return
    if "has" in case:
        assert read(case, path).items() >= case["has"].items()
        return
    with pytest.raises((SettingError, ConfigBlackListError)) as error:
        read(case, path)
    if case.get("of") == "python":  # Spark takes it
        assert spark_kafka_options(load_settings(options=case["options"])).keys() >= case["options"].keys()
    key = case.get("key") or case.get("file", next(iter(case.get("options", [""])))).partition("=")[0]
    assert getattr(error.value, "keys", None) or [error.value.key] == [key]
    said = case["refused"]
    for text in ["FILE" if path else "", *([said] if isinstance(said, str) else said)]:
        assert text.replace("FILE", str(path)) in str(error.value)


def test_wrong_secret_is_not_repeated(file):
    with pytest.raises(SettingError) as error:
        load_settings(file("tls.server.keyPassword=secret\ntls.server.certPath=a\n"))
    assert "secret" not in str(error.value)


def test_tilde_in_a_path_is_the_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/registry")
    settings = load_settings(options={"delta.root": "~/tables"})
    assert settings.delta_root == "/home/registry/tables"
    assert settings.kv_config_path == "/home/registry/namesrv/kvConfig.json"


@pytest.mark.usefixtures("unnamed")
def test_without_a_home_only_a_setting_that_names_it_is_refused():
    assert load_settings().kv_config_path == "~/namesrv/kvConfig.json"
    with pytest.raises(SettingError, match=r"delta\.root.*set HOME"):
        load_settings(options={"delta.root": "~/tables"})


def test_every_setting_has_a_variable_of_its_own():
    names = [environment_name(key) for key in CATALOGUE]
    assert len(names) == len(set(names))
    assert environment_name("kvConfigPath") == "NAMESRV_KV_CONFIG_PATH"


@pytest.mark.parametrize(("key", "instead"), RETIRED.items())
def test_a_retired_setting_is_refused_with_what_to_do_instead_wherever_it_is_found(file, key, instead):
    for places in ((file(f"{key}=1\n"),), (None, {environment_name(key): "1"}), (None, {}, {key: "1"})):
        with pytest.raises(SettingError, match=f"{re.escape(key)} .*is no longer supported.*{re.escape(instead)}"):
            load_settings(*places)


def test_example_file_shows_every_default(file):
    example = (ROOT / "conf/namesrv.properties").read_text()
    uncommented = re.sub(r"(?m)^#(?=\S)", "", example)
    path = file(uncommented)
    assert load_settings(path) == NamesrvSettings(config_store_path=str(path))
    assert all(f"#{key}=" in example for key in CATALOGUE if not key.endswith("*"))


IN_OBJECT_STORES = """
    s3://bucket/registry S3A://bucket/registry gs://bucket/registry oss://bucket/registry
    abfss://box@account.dfs.core.windows.net/registry
"""


def test_all_but_folders_and_hadoops_file_systems_are_object_stores_and_s3a_gets_nothing_of_any_other():
    others = ["data/registry", "/srv/registry", "file:///srv/registry", "hdfs://namenode/registry"]
    assert [is_object_store(url) for url in IN_OBJECT_STORES.split()] == [True] * 5
    assert [is_object_store(url) for url in others] == [False] * 4
    for url in (*others, "gs://bucket/registry"):
        assert s3a_options(url, {"aws_access_key_id": "id"}, {"AWS_REGION": "eu"}) == {}
