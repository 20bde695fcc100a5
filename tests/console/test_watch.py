"""Watchers get every change once, in order, also over a restart; those who read too slowly are dropped."""

import asyncio
import contextlib
import re
import shutil

import pytest

from namesrv_stream.console import hub, running
from namesrv_stream.console.hub import Hub, Place, Watch, Watcher, WatchEvent, WatchResponse
from namesrv_stream.rules.record_types import AddWritePerm, DeleteTopic, WipeWritePerm
from namesrv_stream.tables.registry import Registry
from tests.console.background import BackgroundConsole
from tests.console.conftest import A, C, Client
from tests.console.watching import watch
from tests.registry import PublishedRegistry


def first(events, count):
    return [next(events) for _ in range(count)]


def test_a_watcher_gets_the_state_and_then_each_change_of_its_topic(registry, client):
    events = watch(client.url, ["TopicA"])
    assert next(events).epoch == 3
    registry.register(C, "c9", "broker-c", topics=("Other",))
    registry.command(WipeWritePerm(broker_name="broker-a"))
    registry.command(DeleteTopic(topic="TopicA"))
    wiped, deleted = first(events, 2)
    assert (wiped.epoch, deleted.epoch) == (5, 6)
    assert wiped.data["routes"]["TopicA"]["queueDatas"][0]["perm"] == 4
    assert deleted.data["routes"] == {"TopicA": None}


@pytest.mark.parametrize("topics", [(), ("TopicA",)])
def test_nothing_is_lost_or_repeated_over_a_restart(registry, settings, topics):
    with BackgroundConsole(settings()) as console:
        events = watch(console.url, topics)
        last = next(events).epoch
        registry.command(WipeWritePerm(broker_name="broker-a"))
        last = next(events).epoch
        events.close()
    assert last == 4
    registry.register(C, "c1", "broker-a", 1)
    registry.command(DeleteTopic(topic="TopicA"))
    with BackgroundConsole(settings()) as console:
        events = watch(console.url, topics, last)
        assert [each.epoch for each in first(events, 2)] == [5, 6]
        registry.register(A, "c1", "broker-a", topics=("TopicA",), zone_name="z9")
        assert next(events).epoch == 7


def test_last_event_id_wins_over_the_epoch_of_the_url(still):
    assert re.fullmatch(r"[0-9a-f]{8}-3", next(watch(still.url, since=2, epoch=1)).place)


@pytest.mark.parametrize(("epoch", "most"), [(99, 9), (0, 9), (1, 1)])
def test_a_place_that_is_not_known_or_too_far_behind_is_answered_by_a_reset_and_the_state(
    still, monkeypatch, epoch, most
):
    monkeypatch.setattr(hub, "MAX_REPLAYED", most)
    reset, state = first(watch(still.url, ["TopicA"], epoch), 2)
    assert (reset.name, state.name, state.epoch) == ("reset", "route", 3)
    assert re.search("epoch|snapshot", reset.data["reason"])


def test_a_registry_that_was_made_anew_is_a_reset(registry, client):
    events = watch(client.url, ["TopicA"])
    assert next(events).epoch == 3
    shutil.rmtree(registry.root)
    again = PublishedRegistry(registry.root, registry.now_ms + 1)
    again.register(A, "c1", "broker-a", topics=("TopicA", "TopicZ"))
    assert next(events).name == "reset"
    assert next(event for event in events if event.epoch == 2).data["routes"]["TopicA"]


def test_there_is_a_limit_of_watchers_and_of_their_topics(settings, still_root, monkeypatch):
    monkeypatch.setattr(running, "MAX_WATCHERS", 1)
    with BackgroundConsole(settings(delta__root=still_root)) as console:
        events = watch(console.url)
        next(events)
        answer = Client(console.url).get("/v1/watch?wait=1s&epoch=3")
        assert (answer.status, "Ask another console" in answer.json["detail"]) == (503, True)
        topics = "&".join(f"topic=t{number}" for number in range(101))
        assert Client(console.url).get(f"/v1/watch?{topics}").status == 400


def test_a_slow_watcher_keeps_one_event_that_does_not_move_its_place():
    async def fill():
        slow = Watcher()
        for epoch in range(3):
            slow.push(WatchEvent("route", b"x" * (hub.MAX_PENDING_BYTES // 2), Place("", epoch)))
        return slow.take(), slow.is_dropped

    kept, is_dropped = asyncio.run(fill())
    assert ([each.name for each in kept], kept[0].place, is_dropped) == (["dropped"], None, True)
    assert b"id:" not in kept[0].text


@pytest.fixture
def kept(still_root):
    return Registry(still_root)


def test_a_watcher_whose_connection_takes_nothing_is_given_up(kept, monkeypatch):
    monkeypatch.setattr(hub, "TAKE_LIMIT_S", 0.01)

    async def never(*_):
        await asyncio.Event().wait()

    async def answer():
        watchers = Hub(limit=1)
        watchers.go_to(view_at(kept, 3))
        await WatchResponse(Watch(watchers, kept, (), None))({"type": "http"}, never, never)
        with watchers.watching(()):
            pass

    asyncio.run(answer())


def view_at(kept, epoch):
    return kept.published(kept.read(lambda snapshots: snapshots.find(epoch)))


def test_an_event_is_encoded_once_for_all_watchers_of_the_same_topics(kept):
    async def step():
        watchers = Hub(limit=2)
        watchers.go_to(view_at(kept, 2))
        with contextlib.ExitStack() as stack:
            both = [stack.enter_context(watchers.watching(("Shared",))) for _ in range(2)]
            watchers.go_to(view_at(kept, 3))
            return [watcher.take() for watcher in both]

    one, other = asyncio.run(step())
    assert one[0].place.epoch == 3
    assert one[0] is other[0]


@pytest.mark.parametrize("topics", [(), ("TopicA",)])
def test_a_watcher_ahead_of_its_console_gets_only_what_is_newer(registry, tmp_path, topics):
    kept = Registry(registry.root)
    registry.command(WipeWritePerm(broker_name="broker-a"))
    registry.command(AddWritePerm(broker_name="broker-a"))
    anew = PublishedRegistry(str(tmp_path / "anew"), registry.now_ms)
    anew.register(A, "c1", "broker-a", topics=("TopicA",))

    async def told():
        watchers = Hub(limit=1)
        watchers.go_to(view_at(kept, 3))
        watching = Watch(watchers, kept, topics, Place("", 4))
        first = await watching.first(0)
        async with watching.opened() as (watcher, past):
            steps = [past]
            for view in (view_at(kept, 4), view_at(kept, 5), view_at(Registry(anew.root), 2)):
                watchers.go_to(view)
                steps.append(watcher.take())
        return first, [[(event.name == "reset", event.place.epoch) for event in events] for events in steps]

    first, steps = asyncio.run(told())
    assert (first.epoch, first.events) == (4, [])
    assert steps == [[], [], [(False, 5)], [(True, 2), (False, 2)]]


@pytest.mark.parametrize("topics", [(), ("TopicA",)])
def test_a_place_of_another_registry_is_answered_by_a_reset(registry, settings, still, tmp_path, topics):
    place = next(watch(still.url, topics)).place
    other = PublishedRegistry(str(tmp_path / "imported"), registry.now_ms)
    for epoch in range(2, 5):
        other.register(A, "c1", "broker-a", topics=("TopicA", f"Topic{epoch}"))
    with BackgroundConsole(settings(delta__root=other.root)) as console:
        reset, state = first(watch(console.url, topics, place), 2)
        assert (reset.name, state.epoch) == ("reset", 4)
        assert "is of the registry" in reset.data["reason"]
        query = "&".join(f"topic={topic}" for topic in topics)
        registry_of_place = place.split("-")[0]
        client = Client(console.url)
        answer = client.get(f"/v1/watch?{query}&epoch=4&registry={registry_of_place}&wait=30s").json
        assert answer["events"][0]["event"] == "reset"
        again = client.get(f"/v1/watch?{query}&epoch=4&registry={answer['registry']}&wait=50ms").json
        assert (again["registry"], again["epoch"], again["events"]) == (answer["registry"], 4, []), "its time is over"
