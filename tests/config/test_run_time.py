import json
from pathlib import Path

import pytest

from namesrv_stream.config import (
    ConfigBlackListError,
    NamesrvSettings,
    load_settings,
    to_properties_text,
)
from namesrv_stream.config.rocketmq_settings import is_idle
from tests.reference_docs import example_file, with_table

ROOT = Path(__file__).parents[2]
SECRETS = {
    "tls.server.keyPassword": "s3cret",
    "tls.server.certPath": "c",
    "tls.server.keyPath": "k",
    "kafka.sasl.jaas.config": "s3cret",
    "kafka.ssl.key.password": "s3cret",
    "kafka.ssl.keystore.key": "s3cret",
    "delta.storage.aws_secret_access_key": "s3cret",
    "delta.storage.azure_storage_account_key": "s3cret",
}


def updated(settings, properties):
    """Update settings as UPDATE_NAMESRV_CONFIG does: the changes become rows, and each process restores them."""
    return settings.restored(settings.live_changes(properties))


def test_update_changes_what_is_live_and_leaves_the_old_object():
    before = NamesrvSettings()
    after = updated(before, {"orderMessageEnable": "true", "waitSecondsForService": "7"})
    assert (after.order_message_enable, after.wait_seconds_for_service) == (True, 7)
    assert before == NamesrvSettings()


@pytest.mark.parametrize(
    "key",
    ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome", "enableTopicList"],
)
def test_black_listed_key_refuses_the_whole_update(key):
    settings = NamesrvSettings(config_black_list="enableTopicList;")
    with pytest.raises(ConfigBlackListError) as error:
        updated(settings, {"orderMessageEnable": "true", key: "x"})
    assert error.value.keys == [key]


def test_default_black_list_holds_without_the_setting():
    with pytest.raises(ConfigBlackListError):
        updated(NamesrvSettings(config_black_list=""), {"kvConfigPath": "x"})


@pytest.mark.parametrize(
    "key", ["delta.root", "delta.storage.aws_region", "kafka.security.protocol", "kafka.topic", "listenPort", "tls.new"]
)
def test_what_takes_effect_at_start_is_refused(key):
    with pytest.raises(ConfigBlackListError):
        updated(NamesrvSettings(), {key: "x"})


def test_an_unknown_key_and_one_without_effect_are_ignored():
    changes = {"noSuchKey": "1", "": "", "orderMessageenable": "true", "serverWorkerThreads": "4"}
    assert updated(NamesrvSettings(), changes) == NamesrvSettings()


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("yes", False), ("1", False), ("", False)]
)
def test_every_text_but_true_is_false(text, value):
    assert updated(NamesrvSettings(), {"enableAllTopicList": text}).enable_all_topic_list is value


@pytest.mark.parametrize(
    ("text", "value"), [("+7", 7), ("-7", -7), ("2147483647", 2**31 - 1), ("2147483648", 45), ("7.0", 45), ("", 45)]
)
def test_number_that_is_none_leaves_the_setting(text, value):
    assert updated(NamesrvSettings(), {"waitSecondsForService": text}).wait_seconds_for_service == value


def test_rows_of_a_former_run_are_restored_although_the_black_list_grew():
    settings = NamesrvSettings(config_black_list="orderMessageEnable")
    assert settings.restored({"orderMessageEnable": "true", "gone": "1"}).order_message_enable


def test_text_has_every_key_that_rocketmq_shows_and_what_the_file_sets_without_effect():
    answer = json.loads((ROOT / "tests/frames/probe-319.json").read_text())["response"]["body"]
    shown = dict(line.split("=", 1) for line in answer.splitlines())
    file = NamesrvSettings.model_validate({key: text for key, text in shown.items() if is_idle(key)})
    ours = dict(line.split("=", 1) for line in to_properties_text(file).splitlines())
    set_by_the_probe = {"listenPort", "configStorePath", "kvConfigPath", "orderMessageEnable", "rocketmqHome"}
    assert shown.keys() <= ours.keys()
    assert {key for key in shown if shown[key] != ours[key]} <= set_by_the_probe


def test_secrets_are_shown_nowhere():
    settings = load_settings(options=SECRETS)
    assert "s3cret" not in to_properties_text(settings) + repr(settings)
    assert settings.properties(masked=False)["kafka.sasl.jaas.config"] == "s3cret"
    assert "tls.server.keyPath=k\n" in to_properties_text(settings)


def test_documents_are_those_of_the_catalogue():
    document = (ROOT / "docs/configuration.md").read_text()
    assert with_table(document) == document
    assert example_file() == (ROOT / "conf/namesrv.properties").read_text()
