"""One gateway as a whole: follows snapshots, answers requests and sends records."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from namesrv_stream.answers.health_metrics import HealthCollector
from namesrv_stream.answers.job_status import JobWatch, job_state
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import KafkaUnreachableError, NamesrvError
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.gateway.authorization import Authorization, Refusals
from namesrv_stream.gateway.connection import Connections
from namesrv_stream.gateway.dispatcher import Dispatcher
from namesrv_stream.gateway.follower import Follower
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.kafka_link import GatewayBusyError, KafkaLink
from namesrv_stream.gateway.kv_table import MAX_KV_NAMED, kv_commands, kv_not_in, log_kv
from namesrv_stream.gateway.notices import SENT_AT_A_TIME, notices, send_notice
from namesrv_stream.gateway.sending import BodyProcesses, KafkaSender
from namesrv_stream.gateway.server import Server
from namesrv_stream.gateway.writes import WriteHandler
from namesrv_stream.reporting.metrics_server import MonitoringServer
from namesrv_stream.rules.lease import LogClock
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage_watch import DamageWatch
from namesrv_stream.tables.job_progress import is_stale as is_behind
from namesrv_stream.tables.job_progress import job_progress
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root

log = logging.getLogger(__name__)

_HEALTH_EVERY_S = 10.0
"""Least time between two computations of the gauges of the health line, which take from the CPU of lookups."""

_LOOK_AROUND_EVERY_S = 1.0
_STUCK_AFTER_S = 10.0
FIRST_SNAPSHOT_LIMIT_S = 2.0
"""The time for which `start` waits until the tables are read, so that even the first lookups get answers."""


class Gateway:
    """A gateway, which serves from `start` to `stop`. Lives in the event loop in which both are called."""

    def __init__(self, settings: NamesrvSettings) -> None:
        self._settings = settings
        self.metrics = Metrics()
        self.gateway_id = uuid.uuid4().hex[:12]
        self._open_things = AsyncExitStack()
        self._answers = AnswerCache(RouteTables(), settings)
        self._latest: RegistryAt | None = None
        self._has_looked = asyncio.Event()
        self._has_snapshot = asyncio.Event()
        self._is_stale = False
        self._was_kafka_silent = False
        self._looked_around_s = time.monotonic()
        self._tasks: set[asyncio.Task[None]] = set()
        self._notice_slots = asyncio.Semaphore(SENT_AT_A_TIME)

    @property
    def port(self) -> int:
        """The port at which the gateway listens."""
        return self._server.port

    @property
    def connections(self) -> Connections:
        """The open connections."""
        return self._server.connections

    @property
    def epoch(self) -> int:
        """The epoch of the snapshot that is served, 0 before the first."""
        return self._answers.epoch

    async def start(self) -> None:
        """Listen, and serve the newest snapshot if there is one. Raises NamesrvError.

        Neither Kafka nor the tables have to be reachable: the gateway connects to them when they are.
        """
        settings = self._settings
        self._loop = asyncio.get_running_loop()
        self._link = KafkaLink(settings, self._count_outcome)
        self._refusals = Refusals(self._link.send)
        self._authorization = Authorization(settings, self.metrics, self._refusals.note)
        processes = BodyProcesses(at_a_time=self._link.bodies_at_a_time)
        sending = KafkaSender(self._link, processes, self.gateway_id, on_registration=self.metrics.registered)
        self._writes = WriteHandler(sending, settings.reconcile_interval_millis, self._answers)
        self._dispatcher = Dispatcher(self._answers, self._writes, self.metrics, self._authorization)
        self._server = Server(settings, self._dispatcher)
        async with AsyncExitStack() as opening:
            root = Root(settings.delta_root, settings.storage_options or None)
            self._watch = JobWatch(
                settings, root, lambda: None if self._latest is None else self._row_now(self._latest)
            )
            self._follower = Follower(
                Registry(root, settings=settings),
                lambda *snapshot: self._in_loop(self._serve, *snapshot),
                lambda: self._in_loop(self._serve_nothing),
            )
            self._dispatcher.problem = lambda: self._follower.problem
            self._follower.start()
            self._damage = DamageWatch(root)
            self._damage.start()
            opening.push_async_callback(asyncio.to_thread, self._damage.stop)
            opening.push_async_callback(asyncio.to_thread, self._follower.stop)
            opening.callback(processes.close)
            await opening.enter_async_context(self._link)
            try:
                async with asyncio.timeout(FIRST_SNAPSHOT_LIMIT_S):
                    await self._has_looked.wait()
            except TimeoutError:
                reason = self._follower.problem or "the storage does not answer yet"
                log.warning("the gateway cannot read the tables in %s yet, so it rejects lookups: %s",
                            settings.delta_root, reason)  # fmt: skip
            self._open_monitoring(opening)
            await self._server.start()
            self._open_things = opening.pop_all()
        self._run(self._look_around())
        self._run(self._take_over_kv())
        self._run(log_kv(lambda: self._answers.tables.kv))
        log.info("the gateway listens at %s:%d", settings.bind_address, self.port)

    async def stop(self) -> None:
        """Answer the outstanding requests, then close all connections. No lease ends because of that."""
        self._writes.registering.stop()
        for task in self._tasks:
            task.cancel()
        await self._server.stop()
        self._writes.registering.stop()  # again: meanwhile brokers may have sent heartbeats that wait
        await self._open_things.aclose()
        log.info("the gateway has stopped cleanly")

    def _open_monitoring(self, opening: AsyncExitStack) -> None:
        settings = self._settings
        if not settings.metrics_port:
            return
        self._watch.start()
        opening.callback(self._watch.stop)
        address = settings.bind_address, settings.metrics_port
        checks = {"/healthz": self._health, "/readyz": self._readiness, "/readyz/writes": self._readiness_for_writes}
        self.metrics.registry.register(HealthCollector(lambda: self._latest, _HEALTH_EVERY_S))
        server = MonitoringServer(self.metrics.registry, address, "metricsPort", checks)
        opening.push_async_callback(asyncio.to_thread, server.close)

    def _in_loop(self, serve: Callable[..., None], *snapshot: object) -> None:
        """Call `serve` in the event loop. The follower's thread calls this."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(serve, *snapshot)

    def _serve_nothing(self) -> None:
        """Answer from now on that no route exists, unless a snapshot is served already."""
        if not self._has_looked.is_set():
            self._has_looked.set()
            self._dispatcher.serve(self._answers)

    def _serve(self, newest: RegistryAt, changed_tables: frozenset[str], changed_routes: frozenset[str] | None) -> None:
        """Serve a new snapshot as a whole, and keep the encoded answers that its changes do not affect."""
        settings, row = newest.settings, newest.snapshot
        clock = LogClock.of(row)
        answers = AnswerCache(
            newest.routes, settings, row.epoch, row.offsets, clock.reading_ms or 0, row.kafka_topic_id
        )
        answers.take_over(self._answers, changed_tables, changed_routes)
        if settings.notify_min_broker_id_changed and self._latest is not None:
            for notice in notices(self._latest.brokers, answers.tables.brokers, answers.live):
                self._run(send_notice(notice, self._notice_slots))
        self._answers, self._latest = answers, newest
        self._dispatcher.serve(answers)
        self._writes.follow(answers)
        if "live" in changed_tables:
            self._link.ticks.follow(clock.late_at_ms(newest.live.values()))
        self._has_looked.set()
        self._has_snapshot.set()
        self.metrics.epoch.set(answers.epoch)
        self.metrics.brokers(Counter(row.cluster_name for row in newest.live.values()))

    async def _look_around(self) -> None:
        while True:
            self._looked_around_s = time.monotonic()
            self._authorization.reload()
            self.connections.look_around()
            self._refusals.send_due(self._loop.time())
            self.metrics.connections.set(len(self.connections.open))
            self.metrics.tables_damaged.set(self._damage.is_damaged)
            self.metrics.certificate_ends_s.set(self.connections.certificates.ends_s)
            self.metrics.records_waiting.set(self._link.on_the_way)
            self.metrics.kafka_connected.set(self._link.is_connected)
            self._watch_kafka()
            self._writes.registering.close_expired()
            if self._latest is not None:
                self._watch_age(self._latest)
            await asyncio.sleep(_LOOK_AROUND_EVERY_S)

    def _watch_kafka(self) -> None:
        """Send brokers to other gateways while Kafka has acknowledged nothing for kafkaAwayMillis.

        Two looks in a row have to find it so: after a pause of this process Kafka's answers come right after the first
        look.
        """
        is_silent = self._link.silent_s * 1_000 > self._settings.kafka_away_millis
        is_away, was_away = is_silent and self._was_kafka_silent, self._is_kafka_away
        self._was_kafka_silent = is_silent
        self.metrics.kafka_away.set(is_away)
        closed = self._writes.registering.note_kafka(is_away=is_away)
        if is_away and not was_away:
            log.error("%s; the gateway closes the connections of brokers (%d now), so that they use another gateway. "
                      "Lookups continue. Check that Kafka is running and reachable from here.",
                      self._kafka_silence, closed)  # fmt: skip
        if was_away and not is_away:
            log.info("Kafka at %s acknowledges records again; the gateway accepts brokers", self._link.address)

    @property
    def _is_kafka_away(self) -> bool:
        return self._writes.registering.is_kafka_away

    @property
    def _kafka_silence(self) -> str:
        return f"Kafka at {self._link.address} has acknowledged no record for {self._link.silent_s:.0f} s"

    def _watch_age(self, latest: RegistryAt) -> None:
        """Set the metrics of the snapshot's age, and warn if brokers live and the tables fall behind in event time.

        The cause is a job that does not run or still catches up.
        """
        now_ms = time.time_ns() // 1_000_000
        age_ms = now_ms - latest.snapshot.published_at
        sign, row = self._follower.sign, self._row_now(latest)
        if sign is not None and sign.is_about(latest.snapshot):
            self._link.ticks.follow(sign.late_from)
        progress = job_progress(row, now_ms)
        lag_ms = progress.lag_ms
        is_stale = bool(latest.live) and is_behind(row, now_ms)
        if is_stale and not self._is_stale:
            log.warning("the newest snapshot, %d, is %d s behind; the gateway serves its routes unchanged. Check that "
                        "the job runs, with `namesrv-stream status`.",
                        latest.snapshot.epoch, (lag_ms or 0) // 1000)  # fmt: skip
        if self._is_stale and not is_stale:
            log.info("the job publishes again; the gateway serves snapshot %d", latest.snapshot.epoch)
        self._is_stale = is_stale
        self.metrics.is_stale.set(is_stale)
        self.metrics.age_s.set(age_ms / 1000)
        self.metrics.lag_s.set((lag_ms or 0) / 1000)
        self.metrics.job_state.state(job_state(progress.state, self._watch.facts))
        doubt = self._watch.doubt
        self.metrics.unknown_s.set(0 if doubt is None else (now_ms - doubt.since_ms) / 1000)

    def _row_now(self, latest: RegistryAt) -> SnapshotRow:
        """Return the row of the served snapshot with the times of the sign of progress, if that is younger."""
        sign = self._follower.sign
        return latest.snapshot if sign is None else sign.brought_to(latest.snapshot)

    def _health(self) -> str | None:
        """Return the problem that /healthz reports, or None. The monitoring thread calls this.

        A stale snapshot is still served, so it is no reason to restart this process.
        """
        silent_s = time.monotonic() - self._looked_around_s
        return f"the event loop has not run for {silent_s:.0f} s" if silent_s > _STUCK_AFTER_S else None

    def _readiness(self) -> str | None:
        """Return the reason for which /readyz asks to send no requests here, or None. The monitoring thread calls this.

        Lookups need only a snapshot.
        """
        if self._has_snapshot.is_set():
            damaged = f"ok, but {self._damage.problem}" if self._damage.problem else None
            return self._health() or damaged
        return self._follower.problem or "no snapshot has been read yet"

    def _readiness_for_writes(self) -> str | None:
        """Return the reason for which /readyz/writes asks to send no brokers here, or None.

        The monitoring thread calls this.
        """
        if not self._link.has_connected.is_set():
            return f"Kafka at {self._link.address} is not connected yet"
        return self._kafka_silence if self._is_kafka_away else self._readiness()

    async def _take_over_kv(self) -> None:
        """Take over the file at kvConfigPath (K5), if the registry has no KV namespace.

        Waits until a snapshot has been published and Kafka is connected.
        """
        await self._has_snapshot.wait()
        await self._link.has_connected.wait()
        known, file = self._answers.tables.kv, self._settings.kv_config_path
        is_set = bool(file) and "kv_config_path" in self._settings.model_fields_set
        commands = kv_commands(Path(file), is_expected=is_set and not known)
        others = kv_not_in(known, commands)
        if known and others:
            names = ", ".join(f"{each.namespace}/{each.key}" for each in others[:MAX_KV_NAMED])
            log.warning(
                "the gateway ignores kvConfigPath, because the registry has KV entries already. %d entries of the file "
                "are missing in the registry or have another value (%s). Set those you need with "
                "`mqadmin updateKvConfig`.",
                len(others),
                names,
            )
        elif commands and not known:
            taken_over = [await self._put_until_logged(command) for command in commands]
            log.info("the gateway sent %d of %d KV entries of kvConfigPath to the registry",
                     sum(taken_over), len(commands))  # fmt: skip

    async def _put_until_logged(self, command: PutKvConfig) -> bool:
        """Send the entry until Kafka takes it (return True) or refuses it (return False)."""
        while True:
            try:
                await self._link.send(command)
                return True
            except (KafkaUnreachableError, GatewayBusyError):
                await asyncio.sleep(_LOOK_AROUND_EVERY_S)
            except NamesrvError as error:
                entry = f"{command.namespace}/{command.key}"
                log.error("KV entry %s of kvConfigPath rejected: %s Then set it with `mqadmin updateKvConfig`.",
                          entry, error)  # fmt: skip
                return False

    def _count_outcome(self, error: NamesrvError | None) -> None:
        if error is None:
            self.metrics.records.inc()
        else:
            self.metrics.kafka_errors.labels(type(error).__name__).inc()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
