"""Parts of an answer, as rows of tests name them."""

from typing import Any


def part(value: Any, place: str) -> Any:
    """Return a part of an answer: `a.b`, `a.*.b` of each, `a.0.b` of the first, `a,b` both; "absent" if it lacks it."""
    if not place or value in (None, "absent"):
        return value
    if "," in place and "*" not in place:
        return [part(value, each) for each in place.split(",")]
    head, _, rest = place.partition(".")
    if head == "*":
        return [part(each, rest) for each in value]
    return part(value[int(head)] if isinstance(value, list) else value.get(head, "absent"), rest)
