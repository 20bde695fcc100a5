"""Histories by the hour as rows of a YAML file, and what is said of them: by the views in SQL, and by answers.

What happens is a timed log (tests/timed_log.py): `24h A registers broker-a/0`, `A expires`, `A unregisters`,
`A disconnects`, a tick, or a command by its type. A row has what `happens` up to the hour `until`, and what is `asked`
then, or of the moment `at` if all is published. A list of such rows is one history. What is no SQL asks for an answer,
and behind -> for places in it. In rows an address is its letter and a time its hour. The text of a NotFoundError is an
answer too.
"""

import json
from datetime import UTC, date, datetime

import msgspec

from namesrv_stream.analysis.ask import names_in, opened
from namesrv_stream.answers.accounts import why
from namesrv_stream.answers.broker_page import broker_page
from namesrv_stream.answers.incidents import incidents
from namesrv_stream.answers.model import MAX_LISTED, NotFoundError
from namesrv_stream.answers.overview import overview
from namesrv_stream.answers.questions import AskBroker, AskIncidents, AskTopic, AskTopics, AskWhy
from namesrv_stream.answers.topics import route, topics
from namesrv_stream.records import decode_record
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.tables.registry import Registry
from tests.answers.seeded import HOUR_MS
from tests.data import require_known
from tests.places import part
from tests.timed_log import step_of

MIDNIGHT_MS = round(datetime(2026, 10, 27, tzinfo=UTC).timestamp() * 1000)
ADDRESSES = {letter: f"10.0.0.{number}:10911" for number, letter in enumerate("ABCDEFGH", 1)}
LETTERS = {address: letter for letter, address in ADDRESSES.items()}
STATES = "SELECT topic, state FROM topic_state ORDER BY topic"


def hours(count):
    return MIDNIGHT_MS + round(count * HOUR_MS)


def check_history(root, registry, row):
    """Let a row's history happen and compare what is said of it."""
    for stage in row if isinstance(row, list) else [row]:
        require_known(stage, "happens until at asked")
        if "at" not in stage:
            happens = stage.get("happens", [])
            last_ms = step_of(happens[-1]).acts[-1].at_ms if happens else 0
            assert hours(stage.get("until", 2**20)) >= MIDNIGHT_MS + last_ms
            play(registry, happens)
            registry.publish(at_ms=hours(stage["until"]) if "until" in stage else None)
        assert said_of(root, stage["asked"], stage.get("at")) == stage["asked"]


VERBS = {"registers": "register", "unregisters": "unregister", "disconnects": "close_channel", "expires": "expire"}


def play(registry, steps):
    played = [step_of(step) for step in steps]
    assert not any(step.facts for step in played), "what is said of a history is in `asked`"
    for act in (act for step in played for act in step.acts):
        assert not act.is_later, f"{act}: times count from the begin"
        at_ms = MIDNIGHT_MS + round(act.at_ms)
        match act.words:
            case ["tick"]:
                registry.tick(at_ms)
            case [command]:
                registry.command(at_ms, decode_record(json.dumps({"type": command} | act.fields).encode()))
            case [letter, verb, *holds] if verb in VERBS:
                name, _, broker_id = "".join(holds).rpartition("/")
                held = [name, int(broker_id)] if holds else []
                getattr(registry, VERBS[verb])(at_ms, ADDRESSES[letter], *held, **act.fields)
            case _:
                raise ValueError(f"{act}: nobody does that")


def said_of(root, questions, hour=None):
    at_ms = None if hour is None else hours(hour)
    registry = Registry(root).at(at_ms=at_ms)
    with opened(registry, only=names_in(STATES, *questions)) as views:
        return {asked: said(registry, views, asked) for asked in questions}


def said(registry, views, asked):
    if asked.startswith("SELECT "):
        return [list(map(in_row, each)) for each in views.rows(asked, {})]
    if asked == "states":  # on which the rows in memory agree with the views
        in_memory = [(each.topic, each.state) for each in topics(registry, AskTopics(limit=MAX_LISTED)).topics]
        assert views.rows(STATES, {}) == in_memory
        return list(map(list, in_memory))
    question, _, place = asked.partition(" -> ")
    name, *words = question.split()
    given = [ADDRESSES.get(each, each) for each in words if "=" not in each]
    try:
        answer = ANSWERS[name](registry, *given, **dict(each.split("=") for each in words if "=" in each))
    except NotFoundError as error:
        return str(error)
    found = part(msgspec.to_builtins(answer, enc_hook=str), place)
    return found.replace(registry.identity, "{identity}") if isinstance(found, str) else found


ANSWERS = {
    "incidents": lambda registry, since="0": incidents(registry, AskIncidents(since=iso_text(hours(float(since))))),
    "left": lambda registry, cluster=None, zone=None: topics(
        registry, AskTopics(state="left", system=False, cluster=cluster, zone=zone)
    ),
    "overview": overview,
    "page": lambda registry, name: broker_page(registry, name, AskBroker()),
    "route": lambda registry, topic, zone=None: route(registry, topic, AskTopic(zone=zone)),
    "why": lambda registry, topic, since=None: why(
        registry, topic, AskWhy(since=since and iso_text(hours(float(since))), is_topic=True)
    ),
}


def in_row(value):
    """A value as the rows have it: a time as the hour of the history, a day as its number, an address as its letter."""
    if isinstance(value, datetime):
        return (value.timestamp() * 1000 - MIDNIGHT_MS) / HOUR_MS
    if isinstance(value, date):
        return (value - datetime.fromtimestamp(MIDNIGHT_MS / 1000, UTC).date()).days
    return LETTERS.get(str(value), value)
