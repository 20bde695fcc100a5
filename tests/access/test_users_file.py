"""The users file: its contents, its permissions, and the effect of a change."""

import logging
import re
import subprocess
from pathlib import Path

import pytest

from namesrv_stream.access.users import Role, users_file
from namesrv_stream.errors import SettingError
from namesrv_stream.wire.remoting_command import RemotingCommand, signed
from tests.data import data

ANN = '[[user]]\nname = "ann"\nrole = "admin"\naccessKey = "ann"\nsecretKey = "ann-secret"\n'
REFUSED = data(__file__, "users_refused.yaml")
SECURITY = Path(__file__).parents[2] / "docs/security.md"
SET_UP = re.compile(r"<!-- tested: as written -->\n```sh\n(.*?)```", re.DOTALL)


@pytest.fixture
def write(tmp_path):
    file = tmp_path / "users.toml"

    def written(text, mode=0o600):
        if file.exists():
            file.chmod(0o600)
        file.write_text(text)
        file.chmod(mode)
        return file

    return written


def signer(users, access_key, secret_key):
    command = signed(RemotingCommand(code=100, ext_fields={"key": "k"}), access_key, secret_key)
    return users.sender(command).user


def test_a_user_is_known_by_its_keys(write):
    users = users_file(write(ANN)).value
    assert signer(users, "ann", b"ann-secret").role is Role.ADMIN
    assert signer(users, "ann", b"bob-secret") is None
    assert signer(users, "bob", b"ann-secret") is None


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_owner_and_group_may_read_it(write, mode):
    assert signer(users_file(write(ANN, mode)).value, "ann", b"ann-secret")


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o620, 0o666])
def test_a_file_open_to_others_is_refused(write, mode):
    with pytest.raises(SettingError, match="chmod 600"):
        users_file(write(ANN, mode))


@pytest.mark.parametrize(("problem", "text"), [(said, text) for said, texts in REFUSED.items() for text in texts])
def test_what_is_wrong_is_named_and_no_secret_is_shown(write, problem, text):
    with pytest.raises(SettingError) as error:
        users_file(write(text))
    assert problem in str(error.value)
    assert "ann-secret" not in str(error.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(SettingError, match="no such file"):
        users_file(tmp_path / "none.toml")


def test_a_changed_file_is_in_force_and_a_bad_one_leaves_the_users_before(write, caplog):
    file = users_file(write(ANN))
    write(ANN.replace("ann-secret", "new-secret"))
    file.reload()
    assert signer(file.value, "ann", b"new-secret") and not signer(file.value, "ann", b"ann-secret")
    before = file.value
    caplog.set_level(logging.ERROR)
    for text, mode in (("[[user", 0o600), (ANN, 0o644)):
        write(text, mode)
        file.reload()
        file.reload()
        assert file.value is before
    write(ANN).unlink()
    file.reload()
    assert file.value is before
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 3, "each is told once"


def test_the_documented_set_up_makes_a_file_that_is_accepted(tmp_path):
    (commands,) = SET_UP.findall(SECURITY.read_text())
    subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=tmp_path, check=True)
    users = users_file(tmp_path / "data/security/users.toml").value
    old = users.sender(RemotingCommand(code=103), frozenset({"DNS:broker-old.example"})).user
    assert (old.name, old.role, old.addresses) == ("broker-old", Role.BROKER, ["10.0.0.7:*"])


def test_an_unchanged_file_is_not_read_again(write):
    file = users_file(write(ANN))
    before = file.value
    file.reload()
    assert file.value is before
