"""The gateway: RocketMQ's remoting protocol in front of the registry. Requests become records, snapshots answers."""
