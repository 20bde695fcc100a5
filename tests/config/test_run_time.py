import json
from pathlib import Path

from namesrv_stream.config import (
    NamesrvSettings,
    load_settings,
    printed_settings,
    to_properties_text,
)
from tests.reference_docs import example_file, with_table

ROOT = Path(__file__).parents[2]
SECRETS = {
    "tls.server.keyPassword": "s3cret",
    "tls.server.certPath": "c",
    "tls.server.keyPath": "k",
    "kafka.sasl.jaas.config": "s3cret",
    "kafka.ssl.key.password": "s3cret",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": "s3cret",
    "kafka.sasl.oauthbearer.client.credentials.client.id": "id",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://id/token",
    "kafka.ssl.keystore.key": "s3cret",
    "delta.storage.aws_secret_access_key": "s3cret",
    "delta.storage.azure_storage_account_key": "s3cret",
    "delta.storage.proxy_url": "http://user:s3cret@proxy:3128",
}


def test_an_update_leaves_the_old_object():
    before = NamesrvSettings()
    after = before.restored(before.live_changes({"waitSecondsForService": "7"}))
    assert (after.wait_seconds_for_service, before) == (7, NamesrvSettings())


def test_rows_of_a_former_run_are_restored_although_the_black_list_grew():
    settings = NamesrvSettings(config_black_list="orderMessageEnable")
    assert settings.restored({"orderMessageEnable": "true", "gone": "1"}).order_message_enable


def test_text_has_every_key_that_rocketmq_shows_with_its_default():
    answer = json.loads((ROOT / "tests/frames/probe-319.json").read_text())["response"]["body"]
    shown = dict(line.split("=", 1) for line in answer.splitlines())
    ours = dict(line.split("=", 1) for line in to_properties_text(NamesrvSettings()).splitlines())
    set_by_the_probe = {"listenPort", "configStorePath", "kvConfigPath", "orderMessageEnable", "rocketmqHome"}
    assert shown.keys() <= ours.keys()
    assert {key for key in shown if shown[key] != ours[key]} <= set_by_the_probe


def test_a_setting_without_effect_is_shown_as_the_file_has_it_and_printed_under_a_comment():
    given = load_settings(options={"scanNotActiveBrokerInterval": "7000", "controllerType": "DLedger"})
    idle = {"scanNotActiveBrokerInterval=7000", "controllerType=DLedger", "serverWorkerThreads=8"}
    assert idle <= {*to_properties_text(given).splitlines()}
    with_effect, without = printed_settings(given).split("# RocketMQ's settings without effect here:\n")
    assert idle <= {*without.splitlines()}
    assert "listenPort=9876" in with_effect.splitlines()


def test_secrets_are_shown_nowhere():
    settings = load_settings(options=SECRETS)
    assert "s3cret" not in to_properties_text(settings) + repr(settings)
    assert settings.properties(masked=False)["kafka.sasl.jaas.config"] == "s3cret"
    assert settings.storage_options["proxy_url"] == "http://user:s3cret@proxy:3128"
    shown = {
        "tls.server.keyPath=k",
        "delta.storage.proxy_url=http://******@proxy:3128",
        "kafka.sasl.oauthbearer.client.credentials.client.id=id",
        "kafka.sasl.oauthbearer.token.endpoint.url=https://id/token",
    }
    assert shown <= {*to_properties_text(settings).splitlines()}


def test_documents_are_those_of_the_catalogue():
    document = (ROOT / "docs/configuration.md").read_text()
    assert with_table(document) == document
    assert example_file() == (ROOT / "conf/namesrv.properties").read_text()
