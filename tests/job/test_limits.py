"""Limits that end a job: no descriptor or port is left, or the release of Spark uses them up."""

import subprocess
import sys

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, StorageError
from namesrv_stream.job.failures import LimitReachedError, job_failure, require_sound_spark, storage_errors
from namesrv_stream.job.micro_batch import unread_batch

SETTINGS = NamesrvSettings()
STATE_STORE = """[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.
Caused by: org.rocksdb.RocksDBException: while open a file for lock: /tmp/spark/LOCK: Too many open files
"""


@pytest.mark.parametrize(
    ("reported", "problem"),
    [
        (STATE_STORE, "RocksDBException: while open a file for lock: /tmp/spark/LOCK: Too many open files"),
        ("java.net.SocketException: Too many open files", "SocketException: Too many open files"),
        ("java.net.BindException: Address already in use", "BindException: Address already in use"),
        ("java.net.NoRouteToHostException: Cannot assign requested address", "Cannot assign requested address"),
    ],
)
def test_a_query_that_finds_no_descriptor_or_port_is_no_outage(reported, problem):
    failure = job_failure(SETTINGS, None, reported)
    assert isinstance(failure, LimitReachedError)
    assert problem in str(failure)


def test_a_batch_that_finds_no_descriptor_is_no_outage():
    assert isinstance(job_failure(SETTINGS, unread_batch(STATE_STORE), ""), LimitReachedError)
    assert isinstance(job_failure(SETTINGS, OSError(24, "Too many open files"), ""), LimitReachedError)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(OSError(24, "Too many open files"), LimitReachedError), (OSError(28, "No space left"), StorageError)],
)
def test_tables_that_cannot_be_opened_for_lack_of_descriptors_are_no_outage_of_the_storage(error, kind):
    with pytest.raises(kind), storage_errors(SETTINGS):
        raise error


@pytest.mark.parametrize("version", ["4.1.3", "4.2.0", "3.5.9"])
def test_a_spark_that_leaks_sockets_is_refused_by_the_number_of_its_defect(version):
    with pytest.raises(NamesrvError, match=f"{version} .*SPARK-58932.* 4.2.1"):
        require_sound_spark(version)


@pytest.mark.parametrize("version", ["4.2.1", "4.2.1-SNAPSHOT", "4.3.0"])
def test_a_spark_that_closes_its_sockets_is_accepted(version):
    require_sound_spark(version)


def test_a_process_that_can_open_nothing_is_at_its_limit():
    """In a process of its own, whose limit is the descriptors that it has."""
    code = (
        "import resource\n"
        "from namesrv_stream.job.failures import LimitReachedError, require_descriptor\n"
        "require_descriptor()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "try:\n    require_descriptor()\n"
        "except LimitReachedError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Too many open files" in done.stdout
    assert "ulimit -n" in done.stdout
