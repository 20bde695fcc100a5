import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local.jars import find_java, major_version


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
        ('java version "16.0.2"', "{}", "{}/bin/java is Java 16.0.2.*install Java 17"),
        ('java version "11.0.22"', "{}", "{}/bin/java is Java 11.0.22.*install Java 17"),
        ('java version "1.8.0_392"', "{}", "{}/bin/java is Java 1.8.0_392.*install Java 17"),
        ("Unable to locate a Java Runtime.", "{}", "does not start"),  # a placeholder
        ('openjdk version "21.0.2"', "{}/gone", "gone, which has no bin/java"),  # though PATH has one
        (None, "", "install Java 17"),
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
