"""905 step by step, beside a real NameServer 5.4.0: the same brokers are notified of the same."""

from contextlib import ExitStack

import pytest

from league.fence import becomes
from league.sides import NameServers
from league.trial import Trial
from tests.league.published_side import PublishedSide

pytestmark = pytest.mark.system

LIMIT_S = 60


class Group:
    """Brokers of one name, who listen, on one side. A member has a letter."""

    def __init__(self, trial, acting):
        self.trial = trial
        self.acting = acting
        self.brokers = {}
        self.listeners = {}
        self._read = {}
        self._next_sentinel = self._sentinel(0)

    def registers(self, letter, broker_id):
        if letter not in self.brokers:
            self.listeners[letter] = listener = self.trial.listener()
            self._read[letter] = 0
            more = {"acting_master": self.acting is True, "version": 407 if self.acting is None else 493}
            self.brokers[letter] = self.trial.broker("group", broker_id, address=listener.address, **more)
        broker = self.brokers[letter]
        broker.broker_id = broker_id
        broker.register(self.trial.topics("t", "u"))

    def unregisters(self, letter):
        self.brokers.pop(letter).unregister()

    def loses_connection(self, letter):
        self.brokers.pop(letter).line.close()

    def settle(self):
        """Wait until what was to be sent is sent, which is not yet what has arrived."""
        self.trial.settle()
        self._await_a_later_notice()

    def notices(self):
        """Return the notices to each letter since `forget`; a letter stands for an address."""
        letters = {listener.address: letter for letter, listener in self.listeners.items()}
        letters |= {f"{address}1": f"HA of {letter}" for address, letter in letters.items()}
        return {
            letter: [(each.code, each.is_oneway, named(each.ext_fields, letters)) for each in received]
            for letter, listener in self.listeners.items()
            if (received := listener.received[self._read[letter] :])
        }

    def forget(self, notices):
        """Count these as read."""
        for letter, read in notices.items():
            self._read[letter] += len(read)

    def _await_a_later_notice(self):
        """The only member of another group is promoted: what was to be sent before has been sent.

        It has registered in the step before, so that a snapshot has shown it under its former id.
        """
        sentinel, listener, number = self._next_sentinel
        self._next_sentinel = self._sentinel(number + 1)
        sentinel.broker_id = 0
        sentinel.register(self.trial.topics("t", "u"))
        self.trial.settle()
        assert becomes(lambda: len(listener.received) == 1, LIMIT_S), "an only member is notified of its promotion"

    def _sentinel(self, number):
        listener = self.trial.listener()
        sentinel = self.trial.broker(f"sentinel-{number}", 1, address=listener.address)
        sentinel.register(self.trial.topics("t", "u"))
        return sentinel, listener, number


def named(fields, letters):
    return {name: letters.get(value, value) for name, value in fields.items()}


# What happens, and the letters that the real NameServer notifies of it.
STEPS_OF_AN_ACTING_GROUP = [
    ("two join an empty group", lambda group: (group.registers("a", 0), group.registers("b", 5)), ""),
    ("the smallest takes a larger id, still the smallest", lambda group: group.registers("a", 2), ""),
    ("a smaller id joins", lambda group: group.registers("c", 1), "ab"),
    ("the smallest takes a larger id, not the smallest then", lambda group: group.registers("c", 7), ""),
    ("a member is promoted over the others", lambda group: group.registers("b", 0), "ac"),
    ("another address takes the smallest id over", lambda group: group.registers("d", 0), ""),
    ("the smallest unregisters", lambda group: group.unregisters("d"), "ac"),
    ("one that is not the smallest unregisters", lambda group: group.unregisters("c"), ""),
    ("a smaller id joins the last one", lambda group: group.registers("e", 0), "a"),
    ("the smallest loses its connection", lambda group: group.loses_connection("e"), "a"),
    ("the only member is promoted", lambda group: group.registers("a", 1), "a"),
    ("the last one leaves", lambda group: group.unregisters("a"), ""),
]
STEPS_OF_ANOTHER_GROUP = [
    ("two join an empty group", lambda group: (group.registers("a", 1), group.registers("b", 2)), ""),
    ("a smaller id joins", lambda group: group.registers("c", 0), "ab"),
    ("the smallest leaves", lambda group: group.unregisters("c"), ""),
    ("the next one loses its connection", lambda group: group.loses_connection("a"), ""),
]


@pytest.fixture(scope="module")
def sides(nobody, tmp_path_factory):
    real, ours = (tmp_path_factory.mktemp(name) for name in ("real", "ours"))
    with NameServers(real, servers=1) as name_server, PublishedSide(ours, nobody) as gateway:
        yield name_server, gateway


@pytest.mark.parametrize(
    ("acting", "steps"),
    [(True, STEPS_OF_AN_ACTING_GROUP), (False, STEPS_OF_ANOTHER_GROUP), (None, STEPS_OF_ANOTHER_GROUP)],
    ids=["acting master", "no acting master", "4.x"],
)
def test_the_same_brokers_are_notified_of_the_same(sides, acting, steps):
    with ExitStack() as trials:
        groups = [Group(trials.enter_context(Trial(side)), acting) for side in sides]
        for step, take, letters in steps:
            for group in groups:
                take(group)
                group.settle()
            # A NameServer sends each notice over a connection of its own, so one may arrive late.
            becomes(lambda expected=set(letters): all(group.notices().keys() == expected for group in groups), LIMIT_S)
            real, ours = (group.notices() for group in groups)
            assert (step, real.keys()) == (step, set(letters))
            assert (step, ours) == (step, real)
            for group in groups:
                group.forget(real)
