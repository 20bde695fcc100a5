"""The settings that a `namesrv.properties` of RocketMQ 5.4.0 may hold, with its names and defaults.

Settings that have an effect here are fields. All others are names. They are accepted and named once at the start, so
that a file for RocketMQ need not be changed.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from namesrv_stream.config.values import Boolean, Count, HomeLocation, Int, Port

CONFIG_BLACK_LIST = ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")
"""Keys that cannot change at run time, even if the setting `configBlackList` does not list them (A5)."""

_ANSWERED = """
    clientRequestThreadPoolNums=8 clientRequestThreadPoolQueueCapacity=50000 defaultThreadPoolNums=16
    defaultThreadPoolQueueCapacity=10000 enableControllerInNamesrv=false enableShutdownGracefully=false rocketmqHome=
    scanNotActiveBrokerInterval=5000 serverAsyncSemaphoreValue=64 serverCallbackExecutorThreads=0
    serverNettyWorkerGroupEnable=true serverOnewaySemaphoreValue=256 serverPooledByteBufAllocatorEnable=true
    serverSelectorThreads=3 serverWorkerThreads=8 shutdownWaitTimeSeconds=30 unRegisterBrokerQueueCapacity=3000
    useEpollNativeSelector=false writeBufferHighWaterMark=0 writeBufferLowWaterMark=0
"""
ANSWERED_WITHOUT_EFFECT = dict(pair.split("=") for pair in _ANSWERED.split())
"""Settings without effect that a NameServer names in its answer to GET_NAMESRV_CONFIG (319), with its defaults (A6)."""

_WITHOUT_EFFECT = """
    channelNotActiveInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads clientChannelMaxIdleTimeSeconds
    clientCloseSocketIfTimeout clientOnewaySemaphoreValue clientPooledByteBufAllocatorEnable clientSocketRcvBufSize
    clientSocketSndBufSize clientWorkerThreads connectTimeoutMillis controllerDLegerGroup controllerDLegerPeers
    controllerDLegerSelfId controllerRequestThreadPoolQueueCapacity controllerStorePath controllerThreadPoolNums
    controllerType disableCallbackExecutor disableNettyWorkerGroup electMasterMaxRetryCount enableElectUncleanMaster
    enableReconnectForGoAway isProcessReadEvent isScanAvailableNameSrv mappedFileSize maxReconnectIntervalTimeSeconds
    metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills
    metricsExporterType metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta metricsLabel
    metricsPromExporterHost metricsPromExporterPort notifyBrokerRoleChanged processReadEvent scanAvailableNameSrv
    scanInactiveMasterInterval socksProxyConfig useTLS
"""
WITHOUT_EFFECT = frozenset((*ANSWERED_WITHOUT_EFFECT, *_WITHOUT_EFFECT.split()))
"""Settings of RocketMQ's NameServer, controller and Netty without effect here; docs/migration.md has the reasons."""

_JRAFT_PREFIXES = ("jRaft", "jraftConfig")


def is_idle(key: str) -> bool:
    """Return whether the key is a setting of RocketMQ's that nothing here reads."""
    return key in WITHOUT_EFFECT or key.startswith(_JRAFT_PREFIXES)


def setting(  # returns Any, as pydantic's Field does: the field's annotation gives the type
    key: str, default: Any, read_by: str = "", *, live: bool = False, **more: Any
) -> Any:
    """Return a pydantic field with the properties name `key`; `default` may be a function that returns the default.

    `live` is true if UPDATE_NAMESRV_CONFIG changes the setting at once. The docstring below the field is its meaning
    in docs/configuration.md.
    """
    facts: dict[str, JsonValue] = {"read_by": read_by, "live": live}
    given = {"default_factory": default} if callable(default) else {"default": default}
    return Field(**given, alias=key, json_schema_extra=facts, **more)


class RocketmqSettings(BaseModel):
    """RocketMQ's own settings that have an effect here: those of its NameServer and its Netty server."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, validate_default=True, defer_build=True
    )

    kv_config_path: HomeLocation = setting("kvConfigPath", "~/namesrv/kvConfig.json", "gateway")
    """File with the KV entries of a NameServer. The gateway imports them once, if the registry has no KV entry yet.
    """

    config_store_path: HomeLocation = setting("configStorePath", "~/namesrv/namesrv.properties")
    """Settings file given with -c. It is never written; changes at run time are kept in the table namesrv_config."""

    config_black_list: str = setting("configBlackList", "configBlackList;configStorePath;kvConfigPath", "job, gateway")
    """Settings that UPDATE_NAMESRV_CONFIG must not change, separated by `;`. It always includes configBlackList,
    configStorePath, kvConfigPath and rocketmqHome.
    """

    product_env_name: str = setting("productEnvName", "center", "gateway")
    """Name of the production environment for clusterTest."""

    cluster_test: Boolean = setting("clusterTest", False, "gateway")
    """Ask the production environment for routes that the registry lacks."""

    order_message_enable: Boolean = setting("orderMessageEnable", False, "lookups", live=True)
    """Add the topic's order configuration to its route."""

    return_order_topic_config_to_broker: Boolean = setting("returnOrderTopicConfigToBroker", True, "gateway", live=True)
    """Answer a registration with the order table."""

    support_acting_master: Boolean = setting("supportActingMaster", False, "lookups", live=True)
    """Show the smallest broker ID of a group without a master as 0, that of a master."""

    notify_min_broker_id_changed: Boolean = setting("notifyMinBrokerIdChanged", False, "gateway", live=True)
    """Notify the brokers of a group when its smallest broker ID changes."""

    delete_topic_with_broker_registration: Boolean = setting(
        "deleteTopicWithBrokerRegistration", False, "job", live=True
    )
    """Delete the topics that a registration lacks. Do not use it with brokers that register topics in parts."""

    need_wait_for_service: Boolean = setting("needWaitForService", False, "gateway", live=True)
    """Return no routes for the first waitSecondsForService after a start."""

    wait_seconds_for_service: Int = setting("waitSecondsForService", 45, "gateway", live=True)
    """Time without routes after a start, in seconds, if needWaitForService is true."""

    enable_all_topic_list: Boolean = setting("enableAllTopicList", True, "gateway", live=True)
    """Answer requests for the list of all topics."""

    enable_topic_list: Boolean = setting("enableTopicList", True, "gateway", live=True)
    """Answer requests for the topics of a cluster and for unit topics."""

    listen_port: Port = setting("listenPort", 9876, "gateway")
    """Port of the gateway. 0 takes a free one."""

    bind_address: str = setting("bindAddress", "127.0.0.1", "gateway")
    """Address at which the gateway listens. A NameServer listens at 0.0.0.0, all addresses."""

    server_channel_max_idle_time_seconds: Count = setting("serverChannelMaxIdleTimeSeconds", 120, "gateway")
    """Time of silence after which a connection is closed, in seconds."""

    server_socket_snd_buf_size: Int = setting("serverSocketSndBufSize", 0, "gateway")
    """Send buffer of a connection, in bytes. 0 takes the system's default."""

    server_socket_rcv_buf_size: Int = setting("serverSocketRcvBufSize", 0, "gateway")
    """Receive buffer of a connection, in bytes. 0 takes the system's default."""

    server_socket_backlog: Count = setting("serverSocketBacklog", 1024, "gateway")
    """Number of connections that may wait to be accepted."""
