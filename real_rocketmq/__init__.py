"""A real RocketMQ on this machine, and a demo with it."""
