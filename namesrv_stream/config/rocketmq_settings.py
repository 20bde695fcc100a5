"""RocketMQ's own settings: those of its NameServer and its Netty server, with the names and defaults of 5.4.0."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from namesrv_stream.config.values import Boolean, Count, Int, Location, Millis, Port

CONFIG_BLACK_LIST = ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")
"""Keys that cannot change at run time, even if the setting `configBlackList` does not list them (A5)."""


def setting(  # returns Any, as pydantic's Field does: the field's annotation gives the type
    key: str,
    default: Any,
    description: str,
    read_by: str = "",
    *,
    live: bool = False,
    **more: Any,
) -> Any:
    """Return a pydantic field with the properties name `key`; `default` may be a function that returns the default.

    `read_by` is empty for a setting that is accepted and has no effect here. `live` is true if UPDATE_NAMESRV_CONFIG
    changes the setting at once.
    """
    facts: dict[str, JsonValue] = {"read_by": read_by, "live": live}
    given = {"default_factory": default} if callable(default) else {"default": default}
    return Field(**given, alias=key, description=description, json_schema_extra=facts, **more)


class RocketmqSettings(BaseModel):
    """The settings that a `namesrv.properties` of RocketMQ 5.4.0 may hold."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, validate_default=True, defer_build=True
    )

    rocketmq_home: str = setting("rocketmqHome", "", "Where RocketMQ is installed; not needed here.")
    kv_config_path: Location = setting(
        "kvConfigPath",
        "~/namesrv/kvConfig.json",
        "A NameServer's KV file. The gateway takes its entries over if the registry has no KV yet; from then on KV is "
        "in the tables.",
        "gateway",
    )
    config_store_path: Location = setting(
        "configStorePath",
        "~/namesrv/namesrv.properties",
        "The file given with -c. It is never written: changes at run time are kept in the table namesrv_config.",
    )
    config_black_list: str = setting(
        "configBlackList",
        "configBlackList;configStorePath;kvConfigPath",
        "Settings that UPDATE_NAMESRV_CONFIG must not change, separated by `;`. "
        f"{', '.join(CONFIG_BLACK_LIST)} are always among them.",
        "job, gateway",
    )
    product_env_name: str = setting(
        "productEnvName", "center", "Name of the production environment that clusterTest asks.", "gateway"
    )
    cluster_test: Boolean = setting(
        "clusterTest", False, "Ask the production environment for a route that the registry lacks.", "gateway"
    )
    order_message_enable: Boolean = setting(
        "orderMessageEnable", False, "Add the topic's order configuration to its route.", "lookups", live=True
    )
    return_order_topic_config_to_broker: Boolean = setting(
        "returnOrderTopicConfigToBroker", True, "Answer a registration with the order table.", "gateway", live=True
    )
    support_acting_master: Boolean = setting(
        "supportActingMaster", False, "Show the smallest id of a group without a master as 0.", "lookups", live=True
    )
    notify_min_broker_id_changed: Boolean = setting(
        "notifyMinBrokerIdChanged",
        False,
        "Send the brokers of a group a notice when its smallest id changes.",
        "gateway",
        live=True,
    )
    delete_topic_with_broker_registration: Boolean = setting(
        "deleteTopicWithBrokerRegistration",
        False,
        "Delete the topics that a registration lacks. Do not use it with brokers that register topics in parts.",
        "job",
        live=True,
    )
    need_wait_for_service: Boolean = setting(
        "needWaitForService", False, "Answer no route in the first waitSecondsForService.", "gateway", live=True
    )
    wait_seconds_for_service: Int = setting(
        "waitSecondsForService", 45, "See needWaitForService.", "gateway", live=True
    )
    enable_all_topic_list: Boolean = setting(
        "enableAllTopicList", True, "Answer requests for the list of all topics.", "gateway", live=True
    )
    enable_topic_list: Boolean = setting(
        "enableTopicList",
        True,
        "Answer requests for the topics of a cluster and for unit topics.",
        "gateway",
        live=True,
    )
    scan_not_active_broker_interval: Millis = setting(
        "scanNotActiveBrokerInterval", 5000, "There is no scan: a lease ends at the first tick after its deadline."
    )
    un_register_broker_queue_capacity: Int = setting(
        "unRegisterBrokerQueueCapacity", 3000, "There is no such queue: unregistrations go on Kafka."
    )
    client_request_thread_pool_nums: Int = setting("clientRequestThreadPoolNums", 8, "There are no thread pools.")
    client_request_thread_pool_queue_capacity: Int = setting(
        "clientRequestThreadPoolQueueCapacity", 50_000, "There are no thread pools."
    )
    default_thread_pool_nums: Int = setting("defaultThreadPoolNums", 16, "There are no thread pools.")
    default_thread_pool_queue_capacity: Int = setting(
        "defaultThreadPoolQueueCapacity", 10_000, "There are no thread pools."
    )
    enable_controller_in_namesrv: Boolean = setting(
        "enableControllerInNamesrv", False, "There is no controller here: run RocketMQ's beside it."
    )

    listen_port: Port = setting("listenPort", 9876, "Port of the gateway; 0 takes a free one.", "gateway")
    bind_address: str = setting(
        "bindAddress", "127.0.0.1", "Address at which the gateway listens (RocketMQ: 0.0.0.0, all).", "gateway"
    )
    server_channel_max_idle_time_seconds: Count = setting(
        "serverChannelMaxIdleTimeSeconds", 120, "Seconds of silence after which a connection is closed.", "gateway"
    )
    server_socket_snd_buf_size: Int = setting(
        "serverSocketSndBufSize", 0, "Send buffer of a connection in bytes; 0: the system's.", "gateway"
    )
    server_socket_rcv_buf_size: Int = setting(
        "serverSocketRcvBufSize", 0, "Receive buffer of a connection in bytes; 0: the system's.", "gateway"
    )
    server_socket_backlog: Count = setting(
        "serverSocketBacklog", 1024, "Connections that may wait to be accepted.", "gateway"
    )
    server_worker_threads: Int = setting("serverWorkerThreads", 8, "The gateway is one event loop.")
    server_callback_executor_threads: Int = setting(
        "serverCallbackExecutorThreads", 0, "The gateway is one event loop."
    )
    server_selector_threads: Int = setting("serverSelectorThreads", 3, "The gateway is one event loop.")
    server_oneway_semaphore_value: Int = setting("serverOnewaySemaphoreValue", 256, "Netty's own.")
    server_async_semaphore_value: Int = setting("serverAsyncSemaphoreValue", 64, "Netty's own.")
    server_pooled_byte_buf_allocator_enable: Boolean = setting(
        "serverPooledByteBufAllocatorEnable", True, "Netty's own."
    )
    server_netty_worker_group_enable: Boolean = setting("serverNettyWorkerGroupEnable", True, "Netty's own.")
    use_epoll_native_selector: Boolean = setting("useEpollNativeSelector", False, "Netty's own.")
    write_buffer_high_water_mark: Int = setting("writeBufferHighWaterMark", 0, "Netty's own.")
    write_buffer_low_water_mark: Int = setting("writeBufferLowWaterMark", 0, "Netty's own.")
    enable_shutdown_gracefully: Boolean = setting(
        "enableShutdownGracefully", False, "The gateway always stops in order."
    )
    shutdown_wait_time_seconds: Int = setting("shutdownWaitTimeSeconds", 30, "The gateway always stops in order.")
