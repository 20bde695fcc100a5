"""A properties file that RocketMQ accepts is accepted unchanged (docs/migration.md).

printed/ has what `mqnamesrv -p` of real releases prints, 5.4.0 also with enableControllerInNamesrv=true.
"""

import re
from pathlib import Path

import pytest

from namesrv_stream.config import load_settings, log_notes

PRINTED = sorted((Path(__file__).parent / "printed").glob("*.txt"))
CONTROLLER_KEYS = """
    controllerDLegerGroup=group1
    controllerDLegerPeers=n0-127.0.0.1:9877
    controllerDLegerSelfId=n0
    controllerStorePath=/store
    controllerType=jRaft
    enableElectUncleanMaster=true
    notifyBrokerRoleChanged=false
    processReadEvent=true
    jRaftInitConf=localhost:9880
    jraftConfig.jRaftGroupId=group
    metricsExporterType=PROM
"""


@pytest.fixture
def loaded(tmp_path):
    def load(text):
        file = tmp_path / "namesrv.properties"
        file.write_text(text)
        return load_settings(file, environ={})

    return load


@pytest.fixture
def notes(caplog):
    def logged(settings):
        caplog.clear()
        log_notes(settings)
        return caplog.messages

    return logged


def printed_settings(file):
    return "".join(f"{line}\n" for line in re.findall(r"RocketmqNamesrvConsole - (\S+=.*)", file.read_text()))


@pytest.mark.parametrize("file", PRINTED, ids=lambda file: file.stem)
def test_every_key_that_rocketmq_prints_is_accepted(loaded, file):
    text = printed_settings(file)
    assert text.count("\n") > 19
    settings = loaded(text)
    assert (settings.listen_port, settings.server_channel_max_idle_time_seconds) == (9876, 120)


def test_the_keys_of_a_controller_are_named_in_one_line(loaded, notes):
    [note] = notes(loaded(CONTROLLER_KEYS))
    assert all(line.strip().split("=")[0] in note for line in CONTROLLER_KEYS.split())


def test_a_controller_in_the_name_server_has_a_line_of_its_own(loaded, notes):
    [note] = notes(loaded("enableControllerInNamesrv=true\n"))
    assert "this process runs no controller" in note
