"""Compares a replay's output with a case: rows and answers are sets, lists of filter servers are not."""

import json

ORDERED = "filterServers"


def canonical(value, key=None):
    """The value with its sets in one order."""
    if isinstance(value, dict):
        return {name: canonical(each, name) for name, each in value.items()}
    if isinstance(value, list) and key != ORDERED:
        return sorted((canonical(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def differences(expect, output, live_lag_ms=0):
    """Return the checks with another result than expected, as texts.

    `live.lastUpdate` may be behind by less than `live_lag_ms`.
    """
    found = []
    assert [check["after"] for check in output["checks"]] == [check["after"] for check in expect["checks"]]
    for wanted, got in zip(expect["checks"], output["checks"], strict=True):
        for table, rows in wanted.items():
            rows_got = got.get(table)
            if table == "live" and live_lag_ms:
                rows_got = _caught_up(rows, rows_got, live_lag_ms)
            if canonical(rows, table) != canonical(rows_got, table):
                found.append(f"after {wanted['after']}: {table}: expected {rows}, got {rows_got}")
    return found


def _caught_up(wanted, got, live_lag_ms):
    last = {row["brokerAddr"]: row["lastUpdate"] for row in wanted}
    return [
        row | {"lastUpdate": last[row["brokerAddr"]]}
        if 0 <= last.get(row["brokerAddr"], -1) - row["lastUpdate"] < live_lag_ms
        else row
        for row in got
    ]
