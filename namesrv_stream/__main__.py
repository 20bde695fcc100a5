"""`python -m namesrv_stream` is the command namesrv-stream."""

from namesrv_stream.cli import main

main()
