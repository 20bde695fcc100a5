"""One answer, two doors: the console and the command line with --json, on registries that no test changes.

registries.yaml has what happened, answers.yaml questions with parts of their answers, refused.yaml those without one,
and screens.txt what a terminal shows. A question without a command is the console's alone.
"""

import gzip
import json
import re
from contextlib import ExitStack
from datetime import datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from namesrv_stream.answers import periods
from namesrv_stream.cli.entry import main
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.api import ANSWERS
from namesrv_stream.reporting.texts import Time
from namesrv_stream.rules import lookup
from namesrv_stream.tables.registry import Registry
from namesrv_stream.wire import bodies
from tests.console.background import BackgroundConsole
from tests.console.conftest import A, Client, make_settings
from tests.console.registries import T0, make
from tests.data import data
from tests.places import part
from tests.registry import PublishedRegistry
from tests.waiting import eventually

SCREENS = Path(__file__).with_name("screens.txt")


class Asked:
    """A registry, and a client of its console."""

    def __init__(self, root, url):
        self.root = root
        self.client = Client(url)
        self.get = self.client.get

    def run(self, line):
        return CliRunner().invoke(main, ["--root", self.root, *line.split()])


@pytest.fixture(scope="module")
def of(tmp_path_factory, nobody):
    """Return a registry by its name."""
    with ExitStack() as consoles:

        @cache
        def of(name):
            registry = PublishedRegistry(str(tmp_path_factory.mktemp(name) / "registry"), T0)
            make(name, registry)
            console = BackgroundConsole(make_settings(registry.root, nobody))
            return Asked(registry.root, consoles.enter_context(console).url)

        yield of


PRINTED = {"brokerList": "brokers", "history": "events", "incidents": "incidents", "why": "sentences", "diff": "",
           "topicRoute": "route", "impact": "", "snapshots": "snapshots", "rejected": "rejected"}  # fmt: skip
"""Command -> the part of the answer that it prints with --json."""


def rows_of(file):
    """The rows of a file, each with the name of its registry."""
    of_registries = data(__file__, file)
    return [(name, row) for name, rows in of_registries.items() for row in rows]


@pytest.mark.parametrize(("name", "row"), rows_of("answers.yaml"))
def test_an_answer_has_what_its_row_says_and_a_command_prints_what_the_console_serves(of, name, row):
    asked, line = of(name), row.get("command")
    body = asked.get(row["ask"]).body.decode()
    served = json.loads(body.replace("(Kafka unreachable)", "(no updates)"))  # what a console finds out after a while
    places = row.keys() - {"ask", "command"}
    assert row | {place: part(served, place) for place in places} == row
    described = asked.get("/v1/openapi.json").body.decode() + '"live"'  # `absent` is no word for a misspelt field
    assert not [each for place in places for each in re.findall(r"[a-z]\w+", place) if f'"{each}"' not in described]
    if line is not None:
        printed, command = json.loads(asked.run(f"{line} --json").stdout), line.split()[0]
        in_order = (lambda found: sorted(found, key=str)) if command == "brokerList" else (lambda found: found)
        assert in_order(printed) == in_order(part(served, PRINTED[command]))


@pytest.mark.parametrize(("name", "row"), rows_of("refused.yaml"))
def test_what_cannot_be_answered_is_a_problem_that_says_what_to_do_in_the_same_words(of, name, row):
    asked, (status, told, path, *lines) = of(name), row
    answer = asked.get(path)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    of_rfc_9457 = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    assert answer.json == of_rfc_9457 | {"detail": answer.json["detail"]}
    assert told in answer.json["detail"]
    for said in map(asked.run, lines):
        assert (said.exit_code, said.stdout) == (2 if status == 400 else 1, "")
        assert said.stderr.splitlines()[-1] == f"namesrv-stream: {answer.json['detail']}"


SHOWN = [
    (name, line, text)
    for name, block in re.findall(r"^# (\w+)\n((?:(?!# ).*\n)*)", SCREENS.read_text(), re.MULTILINE)
    for line, text in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


@pytest.mark.parametrize(("name", "line", "text"), SHOWN)
def test_an_answer_looks_on_a_terminal_as_the_file_of_screens_shows_it(of, name, line, text):
    asked = of(name)
    shown = asked.run(line).stdout.replace(asked.root, "ROOT")
    assert re.sub(r"published [^.]*? ago", "published ... ago", shown) == text


def in_answer(kind, text):
    """The value of a type that JSON has as text."""
    assert kind is Time
    return Time(round(datetime.fromisoformat(text).timestamp() * 1000))


OF_MOMENTS = sorted(set(ANSWERS) - {"/v1/commands", "/v1/watch", "/v1/status", "/v1/links"})


@pytest.mark.parametrize("path", [*OF_MOMENTS, "/v1/status", "/v1/links"])
def test_an_answer_is_of_its_moment_and_of_the_described_shape_and_is_not_sent_again(of, path):
    get, own = of("life").get, {"/v1/diff": "&from=2", "/v1/impact": "&broker=broker-a"}.get(path, "")
    place = path.replace("{topic}", "TopicA").replace("{name}", "broker-a")
    newest = get(f"{place}?{own[1:]}")
    assert newest.status == 200
    found = msgspec.json.decode(newest.body, type=ANSWERS[path], dec_hook=in_answer)
    assert {field.encode_name for field in msgspec.structs.fields(found)} == set(newest.json)
    assert not {name for name in names_in(newest.json) if "_" in name}
    if path in OF_MOMENTS:
        past = get(f"{place}?epoch=9{own}")
        assert (past.status, past.headers["x-registry-epoch"], newest.headers["x-registry-epoch"]) == (200, "9", "19")
        assert (newest.headers["etag"] == past.headers["etag"], newest.json == past.json) == (False, False)
        again = get(f"{place}?epoch=9{own}", If_None_Match=past.headers["etag"])
        assert (again.status, again.body) == (304, b"")


def names_in(value):
    """The fields of an answer, without the tables and kinds that are names of things."""
    if isinstance(value, list):
        return {name for each in value for name in names_in(each)}
    of_things = {"lastHour", "versions", "changes", "counts", "before", "after"}
    parts = [each for key, each in value.items() if key not in of_things] if isinstance(value, dict) else []
    return {*(value if isinstance(value, dict) else ()), *(name for each in parts for name in names_in(each))}


def test_the_description_has_a_shape_for_each_answer_and_error_and_names_server_tags_and_keys_of_commands(of):
    description = of("life").get("/v1/openapi.json").json
    paths = description["paths"]
    assert description["servers"] == [{"url": "/"}]
    tags = {tag for about in paths.values() for each in about.values() for tag in each["tags"]}
    assert {tag["name"] for tag in description["tags"]} == tags == {"moments", "present", "commands"}
    assert paths["/v1/commands"]["post"]["security"] == [{"keys": []}, {}]
    assert description["components"]["securitySchemes"]["keys"] == {"type": "http", "scheme": "basic"}
    of_now = {"/v1/status", "/v1/links", "/v1/watch"}
    assert {path for path, about in paths.items() if "get" in about} == {*OF_MOMENTS, *of_now}
    for path, about in paths.items():
        for method in about.values():
            answers = {code: next(iter(each["content"].values())) for code, each in method["responses"].items()}
            assert all(answer["schema"] for answer in answers.values()), path
            assert {"400", "503"} <= answers.keys(), path
            assert ("422" in answers, {"404", "410"} <= answers.keys()) == (False, path in OF_MOMENTS), path


def test_the_route_of_each_moment_at_which_it_changes_is_that_of_the_rules(of):
    asked, topics = of("life"), ("TopicA", "TopicB", "Shared")
    before, changed = dict.fromkeys(topics), []
    for epoch in range(1, 20):
        tables = Registry(asked.root).at(epoch).routes
        in_force = NamesrvSettings().restored(tables.namesrv_config)
        after = {topic: lookup.route(tables, topic, in_force) for topic in topics}
        changed += [(topic, epoch, after[topic]) for topic in topics if after[topic] != before[topic]]
        before = after
    assert {topic for topic, *_ in changed} == {*topics}
    for topic, epoch, route in changed:
        served = asked.get(f"/v1/topics/{topic}?epoch={epoch}").json.get("route")
        assert served == (None if route is None else json.loads(bodies.encode_body(route)))


def changes(client, marks):
    """The epochs of all marks, with those of a mark that stands for several."""
    found = []
    for mark in marks:
        if mark.get("epochs", 1) == 1:
            found.append(mark["epoch"])
        else:
            inside = client.get(f"/v1/timeline?epoch={mark['epoch']}&above={mark['firstEpoch'] - 1}").json["marks"]
            assert sum(each.get("epochs", 1) for each in inside) == mark["epochs"]
            found += changes(client, inside)
    return found


@pytest.mark.parametrize(("name", "epochs"), [("life", [*range(2, 17), 18, 19]), ("at_once", [*range(2, 14)])])
def test_every_epoch_is_reached_through_marks_that_stand_for_several(of, monkeypatch, name, epochs):
    monkeypatch.setattr(periods, "MAX_MARKS", 3)
    marks = of(name).get("/v1/timeline?since=23h").json["marks"]
    assert 1 < len(marks) <= 3
    assert changes(of(name).client, marks) == epochs


@pytest.mark.parametrize(("name", "row"), rows_of("pages.yaml"))
def test_pages_of_a_list_are_the_whole_list(of, name, row):
    (key, place, path), get, at, pages = row, of(name).get, "", []
    while at is not None:
        answer = get(path + (f"&{place}={at}" if at else "")).json
        pages.append(answer[key])
        at = answer["next"]
    whole = get(re.sub("limit=[0-9]", "limit=1000", path)).json[key]
    found = [each for page in (pages[::-1] if place == "before" else pages) for each in page]
    assert (len(pages) > 1, found) == (True, whole)


def test_a_moment_within_an_epoch_has_another_answer_than_the_epoch(of):
    within, whole = (of("published_late").get(f"/v1/clusters?{at}") for at in ("at=2023-11-14T23:58:20Z", "epoch=3"))
    assert (within.headers["x-registry-epoch"], within.headers["etag"] == whole.headers["etag"]) == ("3", False)


def test_the_documentation_loads_nothing_from_elsewhere(of):
    page = of("life").get("/docs")
    assert (page.status, page.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert b"//" not in page.body


def test_a_long_answer_is_packed_for_who_can_unpack_it(of):
    packed = of("crowd").get("/v1/events?limit=1000", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == of("crowd").get("/v1/events?limit=1000").body


def test_a_setting_changed_at_run_time_is_printed(of):
    assert "orderMessageEnable=true" in of("life").run("getNamesrvConfig").stdout.splitlines()


def test_the_state_of_the_job_is_printed_as_it_is_served(still, still_root):
    of_moments = {"ageMillis", "lagMillis", "kafka"}  # they were asked at two moments, of two Kafkas that are away
    served = eventually(asked_kafka)(still)
    shown = json.loads(CliRunner().invoke(main, ["--root", still_root, "status", "--json"]).stdout)
    assert shown["kafka"].startswith("cannot reach Kafka")
    assert shown.keys() == served.keys()
    assert {name for name in shown if shown[name] != served[name]} <= of_moments


def asked_kafka(client):
    """The status once the console has asked Kafka, and once the tables are so old that the present is not known."""
    found = client.get("/v1/status").json
    assert found["kafka"].startswith("cannot reach Kafka"), found
    assert found["unknownSince"], found
    return found


def test_an_answer_about_now_follows_each_new_snapshot(registry, client):
    before = client.get("/v1/brokers")
    registry.now_ms += 1_000
    registry.expire(A)
    assert client.get("/v1/watch?epoch=3&wait=30s").json["epoch"] == 4
    assert client.get("/v1/brokers", If_None_Match=before.headers["etag"]).json["brokers"][0]["state"] == "down"
