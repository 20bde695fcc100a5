"""RocketMQ's remoting protocol, sans-IO: bytes in, commands out, and the reverse. No socket, no clock, no log."""
