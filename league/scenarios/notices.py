"""Notices that a name server sends to brokers on its own."""

from __future__ import annotations

from league.scenario import Needs, scenario
from league.trial import Trial
from namesrv_stream.wire.codes import RequestCode

_NOTIFIED_WITHIN_S = 30.0


@scenario("apache/rocketmq#3978", needs=Needs.SERVERS | Needs.V5)
def a_slave_is_notified_that_its_master_has_left(trial: Trial) -> None:
    """A master dies. Its slave acts for it as soon as it knows, and goes on replicating from it until then.

    Right: With notifyMinBrokerIdChanged the slave is sent a notice that names itself as the smallest id and the master
    as offline.
    """
    listener = trial.listener()
    master = trial.broker(acting_master=True)
    slave = trial.broker(broker_id=1, acting_master=True, address=listener.address)
    for broker in (master, slave):
        broker.register(trial.topics("t", "u"))
    trial.settle()
    master.line.close()

    def notices() -> set[tuple[str | None, ...]]:
        """Return the notices without those that another server sends besides."""
        fields = ("minBrokerId", "minBrokerAddr", "offlineBrokerAddr")
        received = [each for each in listener.received if each.code == RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE]
        return {tuple((each.ext_fields or {}).get(name) for name in fields) for each in received}

    trial.await_right("notices", notices, {("1", slave.address, master.address)}, _NOTIFIED_WITHIN_S)
