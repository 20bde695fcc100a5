"""Files that are no scenario cases: each is one message with the file, the place and where to look next."""

import json

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main

UNREGISTER = {"op": "unregister", "t": 0, "cluster": "c1", "broker": "b", "brokerId": 0, "addr": "10.0.0.1:10911"}
PUT = {"op": "put_kv", "t": 1, "namespace": "n", "key": "k", "value": "v"}


@pytest.fixture
def replay(tmp_path):
    """Replays cases that are given as dictionaries, in files 0.json, 1.json ..."""

    def run(*cases):
        files = [tmp_path / f"{number}.json" for number in range(len(cases))]
        for file, case in zip(files, cases, strict=True):
            file.write_text(json.dumps(case))
        return CliRunner().invoke(main, ["replay", "--out", str(tmp_path / "out" / "of"), *map(str, files)])

    return run


def case(*steps, **other):
    return {"name": "a-case", "steps": list(steps or (UNREGISTER, PUT)), "expect": {"checks": [{"after": 0}]}} | other


def without(step, field):
    return {name: value for name, value in step.items() if name != field}


def asking(**ask):
    return case(expect={"checks": [{"after": 0}, {"after": 1, "lookups": [{"ask": ask, "answer": {}}]}]})


def test_the_case_that_the_others_are_made_of_is_replayed(replay, tmp_path):
    assert replay(case()).exit_code == 0
    assert (tmp_path / "out" / "of" / "a-case.json").exists()


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (case(UNREGISTER, PUT | {"op": "explode"}), "'explode' - at `$.steps[1].op`"),
        (case(UNREGISTER, without(PUT, "op")), "`op` - at `$.steps[1]`"),
        (case(UNREGISTER, without(PUT, "value")), "`value` - at `$.steps[1]`"),
        (case(UNREGISTER, PUT | {"t": "soon"}), "Expected `int`, got `str` - at `$.steps[1].t`"),
        (case(without(UNREGISTER, "cluster")), "`cluster` - at `$.steps[0]`"),
        (case(UNREGISTER | {"addr": "10.0.0.1"}), "Expected host:port - at `$.steps[0].addr`"),
        (case({"op": "unregister", "t": 0, "requests": [{}]}), "`cluster` - at `$.steps[0].requests[0]`"),
        (case(config={"listenPrt": 1}), "`config.listenPrt` is not accepted"),
        (case(config={"waitSecondsForService": "soon"}), "`config.waitSecondsForService` is not accepted"),
        (case(expect={"checks": [{"after": 2}]}), "a check comes after step 2, which there is not"),
        (asking(op="rout", topic="t"), "`ask` has no `op` out of route,"),
        (asking(op="route"), "`ask` has no text `topic` - at `$.expect.checks[1].lookups[0]`"),
    ],
)
def test_each_mistake_is_reported_with_its_place(replay, tmp_path, bad, told):
    result = replay(bad)
    assert result.exit_code == 1
    assert f"{tmp_path}/0.json is no scenario case: " in result.stderr
    assert told in result.stderr
    assert "SCHEMA.md" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["../c4", "/tmp/c4", "..", "", "a/b", "c4\n", "ä"])
def test_a_name_that_is_no_file_name_is_refused(replay, tmp_path, name):
    result = replay(case(name=name))
    assert result.exit_code == 1
    assert "`$.name`" in result.stderr
    assert not (tmp_path / "out").exists()


def test_two_cases_of_one_name_are_refused(replay, tmp_path):
    result = replay(case(), case())
    assert result.exit_code == 1
    assert f"{tmp_path}/1.json is no scenario case: `name` a-case is another file's too" in result.stderr
