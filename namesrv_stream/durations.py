"""Durations as people read them."""

from __future__ import annotations


def duration_text(millis: int) -> str:
    """Return the duration in its two greatest units: `3m 20s`, `2d 4h`, `12s`; `0s` if it is below a second."""
    parts: list[str] = []
    rest = max(0, millis) // 1000
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
