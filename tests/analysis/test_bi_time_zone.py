"""The recipes of docs/bi.md give the days and months of UTC on a machine in another time zone."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from namesrv_stream.tables.root import Root
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.answers.seeded import HOUR_MS, SeededRegistry
from tests.tables.rows import NOW

RECIPES = re.findall(
    r"^```python\n(.*?)^```", (CHECKOUT / "docs" / "bi.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
)
START_MS = int(datetime(2026, 10, 31, tzinfo=UTC).timestamp()) * 1000
"""The last day of a month, which begins in Kolkata five hours and a half earlier."""

ASKED = """
import json
by_month = pl.scan_delta(tables.delta("broker_event")).group_by("event_month").agg(pl.len()).sort("event_month")
months = by_month.collect().rows()
kinds = {name: str(ends[name].dtype) for name in ("broker_id", "epoch")}
print(json.dumps({"days": [[str(day), n] for day, n in events_by_day.fetchall()], "months": months, "kinds": kinds}))
"""


@pytest.mark.full
def test_days_and_months_are_those_of_utc_in_every_zone(tmp_path):
    root = Root(str(tmp_path / "registry"))
    registry = SeededRegistry(root, NOW)
    for hour in (1, 10, 17, 19, 23, 25, 42, 43):
        registry.register(START_MS + hour * HOUR_MS, f"10.0.0.{hour}:10911", f"broker-{hour}", topics=("T",))
        registry.publish(at_ms=START_MS + hour * HOUR_MS)
    run = [recipe for recipe in RECIPES if "not run" not in recipe]
    assert len(run) >= 5
    code = "".join(run).replace("data/registry", root.url) + ASKED
    env = os.environ | {"TZ": "Asia/Kolkata"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["days"] == [["2026-10-31", 10], ["2026-11-01", 6]]
    assert found["months"] == [["2026-10", 10], ["2026-11", 6]]
    assert set(found["kinds"].values()) == {"Int64"}
