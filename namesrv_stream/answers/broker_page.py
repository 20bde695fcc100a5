"""One broker name: who holds its ids, since when it is down and what ended it, and what that does to its topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from namesrv_stream.answers.claims import config_warnings
from namesrv_stream.answers.definitions import (
    WENT,
    DownBroker,
    TopicState,
    down_brokers,
    excused_names,
    gone_brokers,
    last_ends,
    last_topics,
    left_brokers,
    lost_topics,
    planned_brokers,
)
from namesrv_stream.answers.lists import Broker, brokers_of, check_known, left_broker
from namesrv_stream.answers.model import AnswerModel, Moment, Page, names_behind
from namesrv_stream.answers.questions import AskBroker
from namesrv_stream.answers.sentences import ENDED_BY, asker, given_reason
from namesrv_stream.answers.verdict import LATELY_MS, SUFFERS, system_among, topic_verdicts
from namesrv_stream.reporting.texts import clock_text, counted, duration_text, listed, role_text
from namesrv_stream.rules.record_types import MASTER_ID
from namesrv_stream.rules.rows import TopicRow
from namesrv_stream.tables.moment import RegistryAt


class TopicOfBroker(AnswerModel):
    """A topic on one broker name; `state` is that of the whole topic."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    state: TopicState


class BrokerPage(Page):
    """The brokers of a broker name or address, those that are down or left too, and a page of its topics.

    The topics of a broker name that is down or left are those that it had; one that is retired has none. `text`: the
    verdict about it. `writeQueueNums`: the write queues of all its topics.
    """

    broker_name: str
    text: str
    write_queue_nums: int
    brokers: list[Broker]
    topics: list[TopicOfBroker]


def broker_page(registry: RegistryAt, name: str, asked: AskBroker) -> BrokerPage:
    """Return the brokers of a broker name or address, and its topics."""
    down, left, away = down_brokers(registry), left_brokers(registry), planned_brokers(registry)
    retired = [each for each in gone_brokers(registry) if each.retired]
    lease = registry.live.get(name)
    fallen = next((each.broker_name for each in (*down, *left, *away, *retired) if each.broker_addr == name), name)
    broker_name = lease.broker_name if lease else fallen
    down, left, away = ([each for each in some if each.broker_name == broker_name] for some in (down, left, away))
    of_name = [*brokers_of(registry, [broker_name]), *(left_broker(each) for each in left)]
    if not of_name:
        check_known(registry, name)
    rows = _topics_of(registry, broker_name, WENT if down or left or away else ())
    verdicts, system = topic_verdicts(registry, lost_topics(registry)).of, system_among(registry, rows)
    states = {topic: verdicts[topic].state if topic in verdicts else "without_route" for topic in rows}
    suffer = _suffering([states[topic] for topic in rows if topic not in system])
    page, following = names_behind(sorted(rows), asked.after, asked.limit)
    return BrokerPage(
        Moment.of(registry.snapshot),
        len(rows),
        following,
        broker_name,
        f"{group_text(registry, broker_name)}{suffer}.",
        sum(row.write_queue_nums for row in rows.values()),
        [each for each in of_name if name in (broker_name, each.broker_addr)],
        [TopicOfBroker.of(rows[topic], state=states[topic]) for topic in page],
    )


def _topics_of(registry: RegistryAt, name: str, causes: tuple[str, ...]) -> dict[str, TopicRow]:
    """Return the topics of a broker name, of one that is gone those that went by one of the causes."""
    queues = registry.queues
    rows = (row for topic in queues.topics_on({name}) for row in queues[topic] if row.broker_name == name)
    gone = (row for _, row in last_topics(registry, [name], causes))
    return {row.topic: row for row in (*rows, *gone)}


def _suffering(states: Sequence[TopicState]) -> str:
    """Return how many of the topics of a broker group suffer, as the end of a sentence."""
    counts = Counter(states)
    for state, words in SUFFERS.items():
        if states and counts[state] == len(states):
            return f"; {'its only topic' if len(states) == 1 else f'all its {len(states):,} topics'} {words}"
    told = [f"{counts[state]:,} {words}" for state, words in SUFFERS.items() if counts[state]]
    return f"; of its {counted(len(states), 'topic')} {', '.join(told)}" if told else ""


def group_text(registry: RegistryAt, name: str) -> str:
    """Return what is said of a broker group without its topics, of which this reads none."""
    of_name = [each for each in gone_brokers(registry) if each.broker_name == name]
    of_all = down_brokers(registry), left_brokers(registry), planned_brokers(registry)
    down, left, away = ([each for each in some if each.broker_name == name] for some in of_all)
    states = []
    if registry.brokers.get(name) or down or left or not away:
        states.append(_state_text(registry, name, down, left, is_excused=name in excused_names(registry)))
    if away:
        roles = listed([role_text(each.broker_id) for each in away])
        absence = max((each.absence for each in away if each.absence), key=lambda each: each.until)
        states.append(f"{'' if states else f'{name} '}{roles} in planned absence {absence.text}")
    state = ", ".join(states)
    warned = "".join(f"; {text}" for text in config_warnings(registry, name))
    return f"{state}{_retired_text(each for each in of_name if each.retired)}{warned}"


def _state_text(
    registry: RegistryAt, name: str, down: Sequence[DownBroker], left: Sequence[DownBroker], *, is_excused: bool
) -> str:
    """Return what is said of a broker group of which some brokers are down or have unregistered, the latest first.

    `is_excused`: its master is in planned absence.
    """
    holders = registry.brokers.get(name, {})
    if not holders and down:
        return f"{name} down {_since(down[0])}"
    if not holders:
        at = clock_text(left[0].gone_ms) if left else ""
        return f"{name} unregistered at {at} and has not returned" if left else f"{name} is not up and not expected"
    if MASTER_ID not in holders and not is_excused:
        masters = [f" {_since(each)}" for each in (*down, *left) if each.broker_id == MASTER_ID]
        return f"{name} not writable: no master{''.join(masters[:1])}"
    if down:
        roles = listed([role_text(each.broker_id) for each in down])
        return f"{name} up, {roles} down {_since(down[0])}"
    return ", ".join([f"{name} up", *_returns(registry, name)])


def _retired_text(retired: Iterable[DownBroker]) -> str:
    return "".join(
        f"; {role_text(each.broker_id)}, down since {clock_text(each.gone_ms)}, was retired at "
        f"{clock_text(line.event_time)} by {asker(line)}{given_reason(line)}"
        for each in retired
        if (line := each.retired)
    )


def _since(each: DownBroker) -> str:
    return f"since {clock_text(each.gone_ms)} ({ENDED_BY.get(each.ended_by, each.ended_by)})"


def _returns(registry: RegistryAt, name: str) -> Iterator[str]:
    """Yield which brokers of a group came back within an hour before the moment, and after how long."""
    now_ms, holders = registry.now_ms, registry.brokers[name]
    for each in last_ends(registry):
        row = holders.get(each.broker_id)
        if each.broker_name == name and row and row.cluster_name == each.cluster_name:
            began_ms = registry.live[row.broker_addr].lease_began_at
            if max(each.gone_ms, now_ms - LATELY_MS) < began_ms:
                away = duration_text(began_ms - each.gone_ms)
                yield f"{role_text(each.broker_id)} came back at {clock_text(began_ms)} after {away}"
