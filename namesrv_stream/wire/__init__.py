"""RocketMQ's remoting protocol, sans-IO: turns bytes into commands and back. No socket, no clock, no log."""
