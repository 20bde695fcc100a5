"""RocketMQ's remoting protocol without I/O: turns bytes into commands and back. No socket, no clock, no log."""
