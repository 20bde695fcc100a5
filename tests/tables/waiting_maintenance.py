"""jobs/maintain_tables.py, which waits within Spark's JVM when it comes to a table, and makes a file to say so:

spark-submit waiting_maintenance.py TABLE FILE OPTIONS...
"""

import sys
from pathlib import Path

from jobs import maintain_tables
from namesrv_stream.tables.maintenance import maintain

LONG_MS = 3_600_000
TABLE, FILE = sys.argv[1], Path(sys.argv[2])


def maintain_slowly(spark, root, *, on_table, **options):
    def wait_at(name):
        on_table(name)
        if name == TABLE:
            FILE.touch()
            spark.sparkContext._jvm.java.lang.Thread.sleep(LONG_MS)

    return maintain(root, on_table=wait_at, **options)


maintain_tables.maintain = maintain_slowly
maintain_tables.main(sys.argv[3:])
