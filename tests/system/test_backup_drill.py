"""The drill of docs/recovery.md: the tables are lost, the backup is imported, and the job reads on from Kafka."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.config import as_options
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.rules.record_types import PutKvConfig
from tests.system.heartbeats import address, registration


@pytest.fixture
def run(heartbeats):
    def run(*arguments):
        result = CliRunner().invoke(main, [*map(str, arguments), *as_options(heartbeats.options)])
        assert result.exit_code == 0, result.output
        return result.output

    return run


def kv(heartbeats):
    return {name: dict(values) for name, values in heartbeats.view().routes.kv.items()}


def test_lost_tables_come_back_from_a_backup_and_from_what_kafka_has_since(heartbeats, spark, tmp_path, run):
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        heartbeats.say(registration(1), registration(2), PutKvConfig(namespace="n", key="before", value="v"))
        job.process_all()
        run("backup", tmp_path / "backups")
        heartbeats.say(registration(3), PutKvConfig(namespace="n", key="since", value="v"))
        job.process_all()
        epoch_of_backup = int(next((tmp_path / "backups").iterdir()).stem.removeprefix("epoch-"))
    for lost in (heartbeats.root, heartbeats.settings.checkpoint_location):
        shutil.rmtree(Path(lost))
    run("import", tmp_path / "backups" / f"epoch-{epoch_of_backup}.zip")
    assert sorted(heartbeats.live()) == [address(1), address(2)]
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        job.process_all()
        assert sorted(heartbeats.live()) == [address(1), address(2), address(3)]
        assert kv(heartbeats) == {"n": {"before": "v", "since": "v"}}
