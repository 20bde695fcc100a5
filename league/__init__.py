"""RocketMQ's NameServer and the gateway in the same scenarios, each from a public report of a user."""
