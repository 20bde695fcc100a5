"""The gateway: RocketMQ's remoting protocol in front of the registry.

Writing requests become records on Kafka; reading requests are answered from snapshots.
"""
