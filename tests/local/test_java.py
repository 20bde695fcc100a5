import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local.jars import find_java, major_version


@pytest.fixture(autouse=True)
def look_again():
    find_java.cache_clear()
    yield
    find_java.cache_clear()


def java_saying(folder, version_line):
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("version", "major"),
    [("17", 17), ("17.0.15", 17), ("21-ea", 21), ("25.0.1+8", 25), ("1.8.0_392", 8), ("11.0.2", 11)],
)
def test_major_version_is_read_in_the_old_and_the_new_numbering(version, major):
    assert major_version(version) == major


@pytest.mark.parametrize("version", ["16.0.2", "11.0.22", "1.8.0_392"])
def test_java_older_than_17_is_refused_with_where_it_is_and_what_to_install(tmp_path, monkeypatch, version):
    java = java_saying(tmp_path, f'java version "{version}"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NamesrvError, match=f"{java} is Java {version}.*install Java 17"):
        find_java()


def test_java_home_without_a_java_is_an_error_though_path_has_one(tmp_path, monkeypatch):
    java_saying(tmp_path, 'openjdk version "21.0.2"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(NamesrvError, match="gone, which has no bin/java"):
        find_java()


def test_no_java_anywhere_is_an_error_that_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NamesrvError, match="install Java 17"):
        find_java()


def test_a_java_that_is_only_a_placeholder_counts_as_missing(tmp_path, monkeypatch):
    java_saying(tmp_path, "Unable to locate a Java Runtime.")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NamesrvError, match="does not start"):
        find_java()
