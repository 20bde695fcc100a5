"""All settings: RocketMQ's own, and those that the registry adds.

The alias of a field is its properties name: `NamesrvSettings(listen_port=0)` in code, `listenPort=0` in a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from namesrv_stream.config.rocketmq_settings import (
    ANSWERED_WITHOUT_EFFECT,
    CONFIG_BLACK_LIST,
    RocketmqSettings,
    is_idle,
    setting,
)
from namesrv_stream.config.values import (
    Boolean,
    Count,
    Duration,
    Hosts,
    Location,
    Millis,
    Networks,
    Port,
    Ratio,
    Servers,
    TablesLocation,
    default_checkpoint,
    default_temp_folder,
    java_text,
    link_template,
)
from namesrv_stream.errors import MASK, NamesrvError, SettingError, masked

KAFKA_PREFIX = "kafka."
STORAGE_PREFIX = "delta.storage."
_START_ONLY_PREFIXES = (KAFKA_PREFIX, "auth.", "delta.", "tls.", "checkpoint.", "snapshot.", "links.")
_SECRET = re.compile(
    r"password|secret|token(?!\.endpoint)|jaas|credential(?!s\.client\.id)|access_key|key$|proxyConfig|exporterHeader",
    re.IGNORECASE,
)

LONGEST_TICK_MS = 2_000
"""Longest time between two ticks (E7); a gateway ticks so often while no lease can end soon."""


class ConfigBlackListError(NamesrvError):
    """UPDATE_NAMESRV_CONFIG names settings that it must not change (A5). Answer response code 16, and apply nothing.

    `remark`: for keys of the black list RocketMQ's own, which clients know; for others this error's text.
    """

    def __init__(self, keys: list[str], *, is_black_listed: bool = False) -> None:
        super().__init__(
            f"{', '.join(keys)} cannot be changed at run time, so no setting was changed. Set it in the settings file "
            "and restart the processes that read it."
        )
        self.keys = keys
        self.remark = "Can not update config in black list." if is_black_listed else str(self)


class NamesrvSettings(RocketmqSettings):
    """The settings in force. Frozen: a change at run time makes a new object."""

    idle: dict[str, str] = Field(default_factory=dict)
    """RocketMQ's settings without effect here, as given."""

    kafka_bootstrap_servers: Servers = setting("kafka.bootstrap.servers", "127.0.0.1:9092", "job, gateway, fleet, cli")
    """Addresses of Kafka, as host:port separated by commas."""

    kafka_topic: str = setting(
        "kafka.topic", "broker-heartbeats", "job, gateway, fleet, cli", pattern=r"^[a-zA-Z0-9._-]{1,249}$"
    )
    """Kafka topic of the heartbeats. Created with one partition if it is missing."""

    kafka_options: dict[str, str] = setting("kafka.*", dict, "job, gateway, fleet, cli", repr=False)
    """Option of Kafka's clients that Spark and librdkafka have, such as kafka.security.protocol."""

    delta_root: TablesLocation = setting("delta.root", "data/registry", "all", min_length=1)
    """Folder of the tables: a path, or a URL of s3a://, abfss:// or gs://."""

    storage_options: dict[str, str] = setting("delta.storage.*", dict, "job, gateway, cli, maintenance", repr=False)
    """Option of delta-rs for an object store, such as delta.storage.aws_region. For S3, Spark gets it too."""

    checkpoint_location: Location = setting(
        "checkpoint.location", lambda data: default_checkpoint(data.get("delta_root", "")), "job"
    )
    """Folder of the streaming query's checkpoint. Unset: beside the tables. For tables on an object store it is then
    in the local folder data, since each batch writes several small files.
    """

    job_temp_folder: str = setting(
        "job.tempFolder", lambda data: default_temp_folder(data.get("checkpoint_location", "")), "job", min_length=1
    )
    """Local folder for the job's temporary files. Java loads native libraries from it, so it must not be mounted with
    noexec. Unset: beside the checkpoint. The next start removes the files of a killed job.
    """

    snapshot_exact: Duration = setting("snapshot.exact", "1h", "job, maintenance")
    """Time for which every snapshot is kept for readers, with its unit: 1h, 30m."""

    maintenance_millis: Millis = setting("maintenanceMillis", 1_800_000, "job")
    """Time between two maintenance runs of the job, in milliseconds. A run merges small files and removes old
    snapshots and files. 0 switches them off; run `maintain_tables` instead."""

    trigger_millis: Millis = setting("triggerMillis", 500, "job")
    """Shortest time between two micro-batches, in milliseconds."""

    max_offsets_per_trigger: Count = setting("maxOffsetsPerTrigger", 20_000, "job")
    """Largest number of records in one micro-batch. A larger backlog takes several."""

    tick_gap_millis: Millis = setting("tickGapMillis", 3_000, "job")
    """Longest time between two clock ticks that counts towards leases, in milliseconds. The rest of a longer gap counts
    as an outage on the way to Kafka, not as silence of brokers. 0 counts all of it. All jobs of a registry need the
    same value."""

    expiry_guard_ratio: Ratio = setting("expiryGuardRatio", 0.0, "job")
    """Share of all leases, 0 to 1, above which the mass-expiry guard acts. If more are late, a silent broker becomes
    suspect: it stays in the routes. 0 switches the guard off. All jobs of a registry need the same value."""

    expiry_guard_max_millis: Millis = setting("expiryGuardMaxMillis", 600_000, "job")
    """Longest time for which the mass-expiry guard keeps a silent broker, in milliseconds."""

    tick_millis: Count = setting("tickMillis", 1000, "job, gateway, fleet")
    """Time between two clock ticks of a process, in milliseconds. Only a clock tick ends the lease of a silent broker.
    A gateway sends one every 2 seconds unless a lease may end soon."""

    kafka_away_millis: Millis = setting("kafkaAwayMillis", 20_000, "gateway")
    """Time without an acknowledged record after which a gateway closes the connections of brokers, in milliseconds.
    They then use another gateway; lookups continue."""

    standby: Boolean = setting("standby", False, "job")
    """Start the job as a standby: it waits while another job is active, and takes over when that one ends."""

    job_ticker: Boolean = setting("jobTicker", False, "job")
    """Let the job send the clock ticks. Needed only without a gateway and a fleet."""

    reconcile_interval_millis: Millis = setting("reconcileIntervalMillis", 86_400_000, "gateway, fleet")
    """Time after which a gateway sends a registration to Kafka in full even if it has not changed, in milliseconds.
    0 sends each in full."""

    metrics_port: Port = setting("metricsPort", 0, "gateway")
    """Port of the gateway for Prometheus, /healthz and /readyz. 0 opens none."""

    job_metrics_port: Port = setting("job.metricsPort", 0, "job")
    """Port of the job at bindAddress for Prometheus, /healthz and /readyz. 0 opens none."""

    log_format: Literal["text", "json"] = setting("log.format", "text", "job, gateway")
    """Format of the log. json writes each line as a JSON object."""

    max_connections: Count = setting("maxConnections", 16_000, "gateway")
    """Largest number of open connections of all peers. A low `ulimit -n` lowers it."""

    max_connections_per_address: Count = setting("maxConnectionsPerAddress", 1000, "gateway")
    """Largest number of open connections of one address. Behind a trusted load balancer, the address in its PROXY
    header counts."""

    max_large_bodies_per_address: Count = setting("maxLargeBodiesPerAddress", 1, "gateway")
    """Largest number of large or compressed requests of one address that are decoded at a time. One further process
    serves all other addresses."""

    proxy_protocol_trusted: Networks = setting("proxyProtocol.trusted", "", "gateway")
    """Load balancers whose PROXY headers are trusted, such as 10.0.0.5,10.1.0.0/16. Empty trusts none."""

    tls_mode: Literal["disabled", "permissive", "enforcing"] = setting(
        "tls.server.mode", "permissive", "gateway, console"
    )
    """Mode of TLS. permissive accepts TLS and plain text on one port, enforcing only TLS, disabled only plain text."""

    tls_cert_path: Location = setting("tls.server.certPath", "", "gateway, console")
    """File with the certificate chain of the server, PEM. Empty: plain text only."""

    tls_key_path: Location = setting("tls.server.keyPath", "", "gateway, console")
    """File with the private key of the certificate, PEM."""

    tls_key_password: str = setting("tls.server.keyPassword", "", "gateway, console", repr=False)
    """Password of the private key."""

    tls_auth_client: Boolean = setting("tls.server.authClient", False, "gateway")
    """Require a certificate of every client."""

    tls_trust_cert_path: Location = setting("tls.server.trustCertPath", "", "gateway")
    """File with the certificates that verify those of clients, PEM."""

    auth_mode: Literal["off", "observe", "operators", "writes"] = setting("auth.mode", "off", "gateway, console")
    """Who may write. off: every client. operators: only users with the role admin may send operators' requests.
    writes: also, only users with the role broker may send brokers' requests. observe: no request is denied; those that
    `writes` would deny are counted and logged. off has to be set explicitly at a bindAddress that is not loopback."""

    auth_users_path: Location = setting("auth.usersPath", "", "gateway, console")
    """File with the users and their rights; see security.md."""

    console_port: Port = setting("console.port", 9870, "console")
    """Port of the console. 0 takes a free one."""

    console_bind_address: str = setting("console.bindAddress", "127.0.0.1", "console")
    """Address at which the console listens. If it is not loopback, auth.mode has to be set explicitly."""

    console_hosts: Hosts = setting("console.hosts", "", "console")
    """Names under which browsers reach the console, separated by commas. .example.org is that domain and all below it.
    Scheme, port and path of a URL are ignored. IP addresses and localhost are always accepted; requests to other names
    are rejected."""

    console_base_path: str = setting("console.basePath", "", "console", pattern=r"^(/[A-Za-z0-9._~-]+)*$")
    """Path that a proxy keeps before the console's paths, such as /routes. Empty if there is none."""

    console_trusted_proxies: Networks = setting("console.trustedProxies", "", "console")
    """Proxies whose headers X-Forwarded-Host, -Proto, -Prefix and -For are trusted, such as 10.0.0.5,10.1.0.0/16."""

    console_user_header: str = setting("console.userHeader", "", "console", pattern=r"^[A-Za-z0-9-]*$")
    """Header in which a proxy of console.trustedProxies names its logged-in user, such as X-Forwarded-User. The users
    file gives that user's role. The proxy has to set it in each request. Empty: only keys identify a user."""

    links_broker: Annotated[str, link_template("broker", "brokerId", "address", "cluster", "zone")] = setting(
        "links.broker", "", "console"
    )
    """Link of a broker on the page, such as https://grafana.example/d/broker?var-address={address}. Placeholders:
    {broker}, {brokerId}, {address}, {cluster}, {zone}. Empty: no link."""

    links_topic: Annotated[str, link_template("topic")] = setting("links.topic", "", "console")
    """Link of a topic on the page, such as https://dashboard.example/#/topic?name={topic}. Placeholder: {topic}."""

    links_cluster: Annotated[str, link_template("cluster")] = setting("links.cluster", "", "console")
    """Link of a cluster on the page. Placeholder: {cluster}."""

    links_cause: Annotated[str, link_template("cluster", "zone", "state")] = setting("links.cause", "", "console")
    """Link of a problem on the page, such as https://wiki.example/runbook/{state}. Placeholders: {cluster}, {zone},
    {state}."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: object) -> object:
        """Move keys that are no fields into their dicts: `kafka.x`, `delta.storage.x`, and settings without effect."""
        if not isinstance(data, Mapping):
            return data
        own = {key: value for key, value in data.items() if not is_passed_through(key) and not is_idle(key)}
        idle = {key: str(value) for key, value in data.items() if is_idle(key)}
        if idle:
            own["idle"] = idle
        for name, pattern in (("kafka_options", "kafka.*"), ("storage_options", "delta.storage.*")):
            prefix = pattern[:-1]
            more = {k[len(prefix) :]: v for k, v in data.items() if is_passed_through(k) and k.startswith(prefix)}
            if more:
                own[pattern] = {**own.pop(name, {}), **own.pop(pattern, {}), **more}
        return own

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if bool(self.tls_cert_path) != bool(self.tls_key_path):
            missing = "tls.server.keyPath" if self.tls_cert_path else "tls.server.certPath"
            raise SettingError(missing, "is missing", "TLS needs both tls.server.certPath and tls.server.keyPath.")
        if self.tls_mode == "enforcing" and not self.tls_cert_path:
            raise SettingError(
                "tls.server.mode", "enforcing needs a certificate", "Set tls.server.certPath and keyPath."
            )
        return self

    @model_validator(mode="after")
    def _check_auth(self) -> Self:
        if self.auth_mode != "off" and not self.auth_users_path:
            raise SettingError("auth.usersPath", f"is missing, and auth.mode is {self.auth_mode}", "Set both.")
        return self

    @model_validator(mode="after")
    def _check_ticks(self) -> Self:
        if self.tick_millis > LONGEST_TICK_MS and self.tick_gap_millis:
            raise SettingError(
                "tickMillis",
                f"is {self.tick_millis} ms, so leases of silent brokers would end late",
                f"Set {LONGEST_TICK_MS} or less.",
            )
        if self.kafka_away_millis <= 2 * LONGEST_TICK_MS:
            raise SettingError(
                "kafkaAwayMillis",
                f"is {self.kafka_away_millis} ms, and an idle gateway sends only one record in {LONGEST_TICK_MS} ms",
                f"Set more than {2 * LONGEST_TICK_MS}.",
            )
        return self

    def properties(self, *, masked: bool = True) -> dict[str, str]:
        """Return all settings, key -> text, sorted by key. `masked` hides passwords and other secrets.

        All names are there with which a NameServer answers GET_NAMESRV_CONFIG, also those without effect here (A6).
        """
        texts = ANSWERED_WITHOUT_EFFECT | self.idle
        for info in CATALOGUE.values():
            value = getattr(self, info.name)
            if isinstance(value, dict):
                texts |= {info.key[:-1] + key: text for key, text in value.items()}
            else:
                texts[info.key] = java_text(value)
        return {key: masked_text(key, text) if masked else text for key, text in sorted(texts.items())}

    def live_changes(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the entries of `properties` that UPDATE_NAMESRV_CONFIG applies (A5), as RocketMQ prints them.

        Unknown keys, settings without effect and numbers that cannot be parsed are ignored. Raises
        ConfigBlackListError for a key of the black list, and for a key that only has an effect at a start, which would
        otherwise be accepted and change nothing.
        """
        black_list = {*CONFIG_BLACK_LIST, *self.config_black_list.split(";")}
        if refused := sorted(key for key in properties if key in black_list or _is_start_only(key)):
            raise ConfigBlackListError(refused, is_black_listed=not black_list.isdisjoint(refused))
        parsed = {key: _as_rocketmq_parses(key, text) for key, text in properties.items() if key in CATALOGUE}
        return {key: java_text(value) for key, value in parsed.items() if value is not None}

    def restored(self, changes: Mapping[str, str]) -> NamesrvSettings:
        """Return these settings changed by rows of the table `namesrv_config`.

        The rows were checked when they were written.
        """
        parsed = {key: _as_rocketmq_parses(key, text) for key, text in changes.items() if key in CATALOGUE}
        known = {key: value for key, value in parsed.items() if value is not None}
        return self.model_copy(update={CATALOGUE[key].name: value for key, value in known.items()})


class SettingInfo(NamedTuple):
    """The facts about one setting. `read_by` is empty if it has no effect."""

    key: str
    name: str
    default: str
    read_by: str
    is_live: bool


def _catalogue() -> dict[str, SettingInfo]:
    defaults = NamesrvSettings()
    infos = {}
    for name, field in NamesrvSettings.model_fields.items():
        if not field.alias:
            continue
        facts: Any = field.json_schema_extra
        value = getattr(defaults, name)
        default = field.default if isinstance(field.default, str) else "" if value == {} else java_text(value)
        infos[field.alias] = SettingInfo(field.alias, name, default, facts["read_by"], facts["live"])
    return infos


def is_passed_through(key: str) -> bool:
    """Return whether the key is an option of Kafka's clients or of the object store, and no setting of this project."""
    return key.startswith((KAFKA_PREFIX, STORAGE_PREFIX)) and not key.endswith("*") and key not in _OWN_KEYS


def is_secret(key: str) -> bool:
    """Return whether a value of this key must not be printed."""
    return bool(_SECRET.search(key))


def masked_text(key: str, text: str) -> str:
    """Return the text as it may be printed. User and password in an address are hidden for every key."""
    return MASK if text and is_secret(key) else masked(text)


def _is_start_only(key: str) -> bool:
    if info := CATALOGUE.get(key):
        return bool(info.read_by) and not info.is_live
    return key.startswith(_START_ONLY_PREFIXES)


def _as_rocketmq_parses(key: str, text: str) -> object:
    """Return the value as RocketMQ parses it, None if RocketMQ would keep the old value.

    Every text except `true` is false (Boolean.parseBoolean).
    """
    info = CATALOGUE[key]
    if info.default in ("true", "false"):
        return text.lower() == "true"
    try:
        return getattr(NamesrvSettings.model_validate({key: text}), info.name)
    except ValidationError:
        return None


_OWN_KEYS = frozenset(str(field.alias) for field in NamesrvSettings.model_fields.values())
CATALOGUE = _catalogue()
"""Properties name -> facts about the setting: RocketMQ's and this project's."""


def to_properties_text(settings: NamesrvSettings) -> str:
    """Return all settings as sorted `key=value` lines, secrets masked, as GET_NAMESRV_CONFIG answers them (A6)."""
    return _lines(settings.properties())


def printed_settings(settings: NamesrvSettings) -> str:
    """Return all settings as a file of settings, as -p prints them. Those without effect follow under a comment."""
    texts = settings.properties()
    idle = {key: texts.pop(key) for key in list(texts) if is_idle(key)}
    return f"{_lines(texts)}# RocketMQ's settings without effect here:\n{_lines(idle)}"


def _lines(texts: Mapping[str, str]) -> str:
    return "".join(f"{key}={text}".replace("\n", "\\n") + "\n" for key, text in texts.items())
