"""Data folders: one process each, and nothing removed that somebody else put there."""

import os

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local.process import owned_folder

ANEW = ("kafka", "registry")


def put(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def test_a_folder_has_one_owner_at_a_time(tmp_path):
    with (
        owned_folder(tmp_path / "data"),
        pytest.raises(NamesrvError, match=rf"{tmp_path}/data is in use by process {os.getpid()}: .* --data"),
        owned_folder(tmp_path / "data"),
    ):
        pass
    with owned_folder(tmp_path / "data") as folder:
        assert folder.is_dir()


def test_only_what_is_made_anew_is_removed_from_a_folder_of_ours(tmp_path):
    with owned_folder(tmp_path / "data", made_anew=ANEW) as folder:
        old = [put(folder / name / "of" / "before") for name in ANEW]
        others = [put(folder / "notes" / "mine"), put(folder / "ask.sql")]
    with owned_folder(folder, made_anew=ANEW):
        assert not any(file.exists() for file in old)
        assert all(file.exists() for file in others)


@pytest.mark.parametrize("name", [".git/HEAD", "registry/table", "notes.txt"])
def test_nothing_is_touched_in_a_folder_that_is_not_ours(tmp_path, name):
    file = put(tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    with (
        pytest.raises(NamesrvError, match=f"{tmp_path} is neither empty .* --data"),
        owned_folder(tmp_path, made_anew=ANEW),
    ):
        pass
    assert sorted(tmp_path.rglob("*")) == before
    assert file.exists()


def test_the_folder_of_a_registry_that_stays_is_not_ours_to_make_anew(tmp_path):
    """`up` and `demo` with the same --data: the tables of the one are kept from the other."""
    with owned_folder(tmp_path) as folder:
        table = put(folder / "registry" / "table")
    with pytest.raises(NamesrvError, match="neither empty"), owned_folder(folder, made_anew=ANEW):
        pass
    assert table.exists()
