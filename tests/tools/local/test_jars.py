"""Java and the jars: which Java is taken, and what Ivy fetches."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local import jars
from namesrv_stream.tools.local.jars import find_java, major_version, retrieved_jars


@pytest.fixture(autouse=True)
def look_again():
    find_java.cache_clear()
    yield
    find_java.cache_clear()


@pytest.mark.parametrize(
    ("version", "major"),
    [("17", 17), ("17.0.15", 17), ("21-ea", 21), ("25.0.1+8", 25), ("1.8.0_392", 8), ("11.0.2", 11)],
)
def test_major_version_is_read_in_the_old_and_the_new_numbering(version, major):
    assert major_version(version) == major


@pytest.mark.parametrize(
    ("said", "java_home", "refused"),
    [
        ('java version "16.0.2"', "{}", "{}/bin/java is Java 16.0.2.*Install Java 17"),
        ('java version "11.0.22"', "{}", "{}/bin/java is Java 11.0.22.*Install Java 17"),
        ('java version "1.8.0_392"', "{}", "{}/bin/java is Java 1.8.0_392.*Install Java 17"),
        ("Unable to locate a Java Runtime.", "{}", "does not start"),  # a placeholder
        ('openjdk version "21.0.2"', "{}/gone", "gone, which has no bin/java"),  # though PATH has one
        (None, "", "Install Java 17"),
    ],
)
def test_a_java_that_does_not_serve_is_an_error_that_names_it_and_what_to_do(
    tmp_path, monkeypatch, said, java_home, refused
):
    if said:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", java_home.format(tmp_path))
    with pytest.raises(NamesrvError, match=refused.format(tmp_path)):
        find_java()


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


def test_a_changed_ivy_xml_is_fetched_anew(stamped, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    jars.IVY_FILE.write_text("<ivy-module><info/></ivy-module>")
    with pytest.raises(NamesrvError, match="no Java found"):
        retrieved_jars("spark")


def test_jars_that_ivy_cannot_bring_are_an_error_with_its_words_and_leave_no_stamp(stamped):
    with pytest.raises(NamesrvError, match=r"(?s)cannot fetch the jars.*\n.*\w"):
        retrieved_jars("nonesuch")
    assert not (jars.JARS / "nonesuch" / "ivy.xml.sha256").exists()


@pytest.mark.usefixtures("unnamed")
def test_without_a_home_ivy_keeps_its_files_beside_the_jars(stamped, tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho \'version "17"\' >&2\necho "$@" >> "$0.log"\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    retrieved_jars("kafka")
    assert f"-Divy.home={jars.JARS}/.ivy2 " in Path(f"{java}.log").read_text()


def test_a_place_of_the_jars_where_this_user_may_not_write_is_named(stamped, monkeypatch):
    monkeypatch.setattr(jars, "JARS", stamped / "ivy.xml.sha256")
    with pytest.raises(
        NamesrvError, match=r"cannot write the jars of .* to \S+: not a directory\. Run `namesrv-stream jars` once"
    ):
        retrieved_jars("kafka")


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
