"""The main job in a process that finds a hang soon: python -m tests.system.hanging_job SETTINGS [--standby]"""

import sys
import threading
from pathlib import Path

import click

from namesrv_stream.config import load_settings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.job import hang_watch
from namesrv_stream.job.registry_job import RouteRegistryJob
from namesrv_stream.job.termination import stop_on_signals
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.tools.local.spark import forget_session, local_session


def main():
    set_up_logging()
    hang_watch.JVM_LOOKS, hang_watch.QUERY_LOOKS, hang_watch.LOG_LOOKS = 40, 60, 10
    settings = load_settings(Path(sys.argv[1]), {}, {"standby": "true"} if "--standby" in sys.argv else {})
    stop = threading.Event()
    spark = local_session("hanging-job", cores="2")
    stop_on_signals(stop)
    try:
        RouteRegistryJob(spark, settings).run(stop)
    except NamesrvError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_status)
    finally:
        forget_session(spark)


if __name__ == "__main__":
    main()
