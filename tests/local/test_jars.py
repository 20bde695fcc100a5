import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local import jars
from namesrv_stream.tools.local.jars import find_java, retrieved_jars


@pytest.fixture
def stamped(tmp_path, monkeypatch):
    """A jars folder whose configuration `spark` was fetched for the ivy.xml beside it."""
    ivy_file = tmp_path / "ivy.xml"
    ivy_file.write_text("<ivy-module/>")
    folder = tmp_path / "jars" / "spark"
    folder.mkdir(parents=True)
    (folder / "ivy.xml.sha256").write_text(hashlib.sha256(ivy_file.read_bytes()).hexdigest())
    monkeypatch.setattr(jars, "IVY_FILE", ivy_file)
    monkeypatch.setattr(jars, "JARS", tmp_path / "jars")
    return folder


@pytest.fixture
def without_java(tmp_path, monkeypatch):
    """Whoever tries to run Ivy now is told that there is none."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    find_java.cache_clear()
    yield
    find_java.cache_clear()


def test_a_changed_ivy_xml_is_fetched_anew(stamped, without_java):
    jars.IVY_FILE.write_text("<ivy-module><info/></ivy-module>")
    with pytest.raises(NamesrvError, match="no Java found"):
        retrieved_jars("spark")


def test_jars_that_ivy_cannot_bring_are_an_error_with_its_words_and_leave_no_stamp(stamped):
    with pytest.raises(NamesrvError, match=r"(?s)could not be fetched.*\)\n.*\w"):
        retrieved_jars("nonesuch")
    assert not (jars.JARS / "nonesuch" / "ivy.xml.sha256").exists()


def test_of_two_that_need_the_same_jars_one_fetches_them_and_the_other_waits(stamped, monkeypatch):
    jars.IVY_FILE.write_text("<ivy-module><info/></ivy-module>")
    fetched, both_came = [], threading.Barrier(2)

    def retrieve(configuration, folder):
        fetched.append(configuration)
        both_came.wait(30)

    def come():
        both_came.wait(30)
        return retrieved_jars("spark")

    monkeypatch.setattr(jars, "_retrieve", retrieve)
    with ThreadPoolExecutor() as threads:
        first, second = threads.submit(retrieved_jars, "spark"), threads.submit(come)
        assert first.result() == second.result() == stamped
    assert fetched == ["spark"]
