"""`python -m replay OPTIONS CASE.json ...` is the command `namesrv-stream replay`."""

import sys

from namesrv_stream.cli.entry import main

main(["replay", *sys.argv[1:]], prog_name="namesrv-stream")
