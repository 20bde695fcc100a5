"""Run the whole registry on this machine: Kafka, the streaming job in local Spark, a gateway, and simulated brokers."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import SettingError, TermLostError
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.job.failures import SessionLostError
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.reporting.metrics_server import require_port
from namesrv_stream.tools.fleet.broker import FleetPlan
from namesrv_stream.tools.fleet.player import Fleet
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.process import HOST, ServerEndedError, bound_log, check_free, owned_folder
from namesrv_stream.tools.local.spark import forget_session, local_session, set_up_spark_log

log = logging.getLogger(__name__)

_PUBLISH_LIMIT_S = 30.0
_JVM_LOST = (SessionLostError, Py4JError, ConnectionError)


class LocalStack:
    """The registry that runs within a `with`, which ends it in order.

    At the end brokers unregister, the job publishes all records in the log, and Kafka stops. `made_anew` names folders
    in `data` to remove before the start, as in `owned_folder`. `settings` are those in force, after the start with
    Kafka's real address.
    """

    def __init__(
        self, settings: NamesrvSettings, data: Path, port: int | None = None, *, made_anew: Collection[str] = ()
    ) -> None:
        self.settings = settings
        self._data = data
        self._made_anew = made_anew
        self._port = port
        self._fleets: list[Fleet] = []
        self._open_things = ExitStack()
        self._is_replaced = False
        self._kafka: LocalKafka | None = None

    spark: SparkSession
    job: BackgroundJob
    gateway: BackgroundGateway

    def __enter__(self) -> Self:
        if self.settings.listen_port:  # so a taken port fails now and not after half a minute
            check_free(self.settings.listen_port, "the gateway (setting listenPort)")
        require_port((self.settings.bind_address, self.settings.job_metrics_port), "job.metricsPort")
        with ExitStack() as opening:
            opening.enter_context(owned_folder(self._data, made_anew=self._made_anew))
            self._start_kafka(opening)
            self._start_job(opening)
            arguments = kafka_client_arguments(self.settings)
            self._producer = opening.enter_context(HeartbeatProducer(arguments, self.settings.kafka_topic))
            self.gateway = opening.enter_context(BackgroundGateway(self.settings))
            self._open_things = opening.pop_all()
        return self

    def _start_kafka(self, opening: ExitStack) -> None:
        folder = self._data / "kafka"
        log.info("Kafka starts in %s", folder)
        self._kafka = kafka = opening.enter_context(LocalKafka(folder, self._port))
        opening.callback(log.info, "Kafka stops")
        self.settings = self.settings.model_copy(update={"kafka_bootstrap_servers": kafka.bootstrap_servers})
        log.info("Kafka is ready at %s", kafka.bootstrap_servers)

    def _start_job(self, opening: ExitStack) -> None:
        log.info("Spark starts; its output is in %s", self._spark_log)
        self.spark = local_session("route-registry", log=self._spark_log, temp=Path(self.settings.job_temp_folder))
        opening.callback(forget_session, self.spark)
        set_up_spark_log(self.spark, self.settings.log_format)
        self.job = opening.enter_context(BackgroundJob(self.spark, self.settings))
        opening.callback(self._publish_what_waits)

    @property
    def _spark_log(self) -> Path:
        return self._data / "spark.log"

    def _publish_what_waits(self) -> None:
        """Wait until the log is published. Otherwise unregistered brokers would seem alive until the next start."""
        log.info("the job publishes all waiting records and stops")
        if not self.job.await_published(_PUBLISH_LIMIT_S):
            log.warning("the job could not publish all records in time; the next start reads the rest from Kafka")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open_things.__exit__(kind, error, at)
        if error is None:
            self._check_job()
            self._check_others()

    def check(self) -> None:
        """Raise the error that ended the job, the gateway or a fleet, if any.

        If another job has replaced this one, that is no error: the rest serves the new job. Raises ServerEndedError if
        Kafka or the job's JVM has died, for which an end in order would wait. Keeps the logs of both bounded.
        """
        if self._kafka is not None:
            self._kafka.check()
        bound_log(self._spark_log)
        try:
            self._check_job()
        except _JVM_LOST as error:
            what = "lost its JVM, which ended unexpectedly. No record is lost; start it again"
            raise ServerEndedError("Spark", what, self._spark_log) from error
        self._check_others()

    def _check_job(self) -> None:
        try:
            self.job.check()
        except TermLostError as lost:
            if not self._is_replaced:
                log.warning("run %s has taken over; Kafka, gateway and brokers of this process continue without a job",
                            lost.newer_run_id)  # fmt: skip
            self._is_replaced = True

    def _check_others(self) -> None:
        self.gateway.check()
        for fleet in self._fleets:
            fleet.check()

    def start_fleet(self, plan: FleetPlan, *, unregister: bool = True) -> Fleet:
        """Start simulated brokers, which run until the stack ends.

        At the end they unregister or, without `unregister`, stay in the tables as after a power cut.
        """
        fleet = Fleet(plan, self._producer)
        fleet.start()
        self._fleets.append(fleet)
        self._open_things.callback(fleet.stop, unregister=unregister)
        self._open_things.callback(
            log.info, "the brokers %s", "unregister and stop" if unregister else "stop without unregistering"
        )
        return fleet


def own_kafka_port(settings: NamesrvSettings) -> int:
    """Return the port in kafka.bootstrap.servers for this machine's Kafka. Raises SettingError for another machine."""
    host, _, port = settings.kafka_bootstrap_servers.rpartition(":")
    if host not in (HOST, "localhost"):
        raise SettingError(
            "kafka.bootstrap.servers",
            f"{settings.kafka_bootstrap_servers} is not on this machine",
            f"Set {HOST}:PORT to start Kafka here, or run jobs/route_registry.py with your own.",
        )
    return int(port)
