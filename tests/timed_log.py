"""One grammar of a timed log: who does what when, and what is true then. CONTRIBUTING has an example.

    STEP = ACT {", " ACT} [" -> " [FACT {"; " FACT}]]
    ACT  = [TIME] WORD {WORD} {NAME=VALUE}
    FACT = WORD {WORD}

TIME counts from the begin of the log, `2m1s`, or from the step before, `+21s`; without one an act is at the time of the
step before. A VALUE is YAML without blanks outside of brackets and quotes. `b3..b9` stands for seven words. What the
words are is said where they are played.
"""

import re
from typing import Any, NamedTuple

import yaml

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_TIME = re.compile(r"[+-]?(?:\d+(?:\.\d+)?(?:d|h|ms|m|s))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|m|s)")
_RANGE = re.compile(r"([^\d.]*)(\d+)\.\.\1(\d+)")
_OPENS, _CLOSES = "[{", "]}"


class Act(NamedTuple):
    """What somebody does. `at_ms`: None at the time of the step before; `is_later`: it counts from that step."""

    at_ms: float | None
    is_later: bool
    words: list[str]
    fields: dict[str, Any]


class Step(NamedTuple):
    """Acts, and what follows: facts as words, None if nothing is said of it."""

    acts: list[Act]
    facts: list[list[str]] | None


def step_of(text: str) -> Step:
    """Return a step. Raises a ValueError that names what cannot be read."""
    done, *follows = _cut(text, "->")
    acts = [_act(each) for each in _cut(done, ",") if each.strip()]
    facts = [_words(each) for each in _cut("".join(follows), ";") if each.strip()]
    return Step(acts, facts if follows else None)


def millis_of(text: str) -> float:
    """Return a duration in milliseconds: `2m1s`, `0.9s`, `-60m`."""
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text!r} is no time, such as 2m1s or +21s")
    sign = -1 if text.startswith("-") else 1
    return sign * sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))


def _act(text: str) -> Act:
    at_ms, is_later, words, fields = None, False, [], {}
    for number, token in enumerate(_cut(text.strip(), " ")):
        name, equals, value = token.partition("=")
        if number == 0 and _TIME.fullmatch(token):
            at_ms, is_later = millis_of(token), token[0] in "+-"
        elif equals and name.isidentifier():
            fields[name] = yaml.safe_load(value)
        elif fields:
            raise ValueError(f"{text!r}: the word {token!r} stands behind NAME=VALUE")
        else:
            words += _words(token)
    if not words and at_ms is None:
        raise ValueError(f"{text!r} says nothing")
    return Act(at_ms, is_later, words, fields)


def _words(text: str) -> list[str]:
    """Return the words of a text, ranges as what they stand for."""
    found = []
    for token in text.split():
        if (names := _RANGE.fullmatch(token)) is None:
            found.append(token)
        else:
            found += [f"{names[1]}{number}" for number in range(int(names[2]), int(names[3]) + 1)]
    return found


def _cut(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators that are in no brackets and no quotes."""
    parts, depth, quote, begin, at = [], 0, "", 0, 0
    while at < len(text):
        letter = text[at]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in _OPENS) - (letter in _CLOSES)
            if depth == 0 and text.startswith(separator, at):
                parts.append(text[begin:at])
                at = begin = at + len(separator)
                continue
        at += 1
    if quote or depth:
        raise ValueError(f"{text!r}: a bracket or a quote is open")
    return [each for each in (*parts, text[begin:]) if each or separator != " "]
