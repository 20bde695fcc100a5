"""Settings without effect that a `namesrv.properties` may hold: RocketMQ's controller's, its client's, and former ones.

Nothing here reads them: the registry has no controller, and its connections are not Netty's. They are accepted, so that
a file that RocketMQ or an earlier release accepts need not be changed, and named once at start.
"""

from __future__ import annotations

_NETTY_CLIENT = """
    channelNotActiveInterval=60000 clientAsyncSemaphoreValue=65535 clientCallbackExecutorThreads=2
    clientChannelMaxIdleTimeSeconds=120 clientCloseSocketIfTimeout=true clientOnewaySemaphoreValue=65535
    clientPooledByteBufAllocatorEnable=false clientSocketRcvBufSize=0 clientSocketSndBufSize=0 clientWorkerThreads=4
    connectTimeoutMillis=3000 disableCallbackExecutor=false disableNettyWorkerGroup=false enableReconnectForGoAway=true
    isScanAvailableNameSrv=true maxReconnectIntervalTimeSeconds=60 scanAvailableNameSrv=true socksProxyConfig={}
    useTLS=false
"""
_CONTROLLER = """
    controllerDLegerGroup= controllerDLegerPeers= controllerDLegerSelfId= controllerRequestThreadPoolQueueCapacity=50000
    controllerStorePath= controllerThreadPoolNums=16 controllerType=DLedger electMasterMaxRetryCount=3
    enableElectUncleanMaster=false isProcessReadEvent=false mappedFileSize=1073741824
    metricGrpcExporterIntervalInMills=60000 metricGrpcExporterTimeOutInMills=3000
    metricLoggingExporterIntervalInMills=10000 metricsExporterType=DISABLE metricsGrpcExporterHeader=
    metricsGrpcExporterTarget= metricsInDelta=false metricsLabel= metricsPromExporterHost= metricsPromExporterPort=5557
    notifyBrokerRoleChanged=true processReadEvent=false scanInactiveMasterInterval=5000
"""
_FORMER = "clockJumpMillis=15000 clockJumpGraceMillis=60000 registrationCacheMaxBytes=134217728"
_JRAFT_PREFIXES = ("jRaft", "jraftConfig")
OTHER_DEFAULTS = dict(pair.split("=", 1) for pair in f"{_NETTY_CLIENT} {_CONTROLLER} {_FORMER}".split())
"""Properties name -> default in RocketMQ 5.4.0, or in the release that had it."""


def is_other_setting(key: str) -> bool:
    """Return whether the key is a setting that nothing here reads."""
    return key in OTHER_DEFAULTS or key.startswith(_JRAFT_PREFIXES)
