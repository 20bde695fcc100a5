"""Make the options of a command from the fields of a question (answers/questions.py)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args, get_origin

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from namesrv_stream.answers.questions import ALL, Cli, Question
from namesrv_stream.config.written_times import parsed_time
from namesrv_stream.reporting.texts import SHOWN_ZONE

_OF_EVERY_QUESTION = frozenset(Question.model_fields)
"""Fields that the command line has as --as-of and --tz."""

_TIMES = {"since": True, "until": False}
"""Fields that hold a time, and whether it is the begin of a span."""


def options_of(kind: type[Question], without: Iterable[str] = ()) -> list[click.Option]:
    """Return an option for each field of a question, but for those that --as-of and --tz stand for."""
    left_out = {*_OF_EVERY_QUESTION, *without}
    return [_option(name, field) for name, field in kind.model_fields.items() if name not in left_out]


def _option(name: str, field: FieldInfo) -> click.Option:
    marks = [each for each in reversed(field.metadata) if isinstance(each, Cli)]  # a field's own comes first
    names = next((each.names for each in marks if each.names), (f"--{name}",))
    default = next((each.default for each in marks if each.default is not ...), field.default)
    metavar = next((each.metavar for each in marks if each.metavar), None)
    text = next((each.text for each in marks if each.text), field.description)
    more: dict[str, Any] = {"help": text, "metavar": metavar, "default": default}
    spellings = [*names, name]
    if name in _TIMES:
        more |= {"type": _checked_begin if _TIMES[name] else _checked_time}
    elif field.annotation is bool:
        spellings = [f"--{name}/--no-{name}", name] if default else spellings
        more |= {"is_flag": True}
    elif choices := _choices(field.annotation):
        more |= {"type": click.Choice(choices), "metavar": None}
    elif get_origin(field.annotation) is list:
        more |= {"multiple": True, "default": None}
    elif int in (field.annotation, *get_args(field.annotation)):
        least = next((each.ge for each in field.metadata if hasattr(each, "ge")), None)
        more |= {"type": click.IntRange(min=least), "show_default": default != ALL}
    else:
        more |= {"show_default": bool(default)}
    return click.Option(spellings, **more)


def _choices(annotation: Any) -> list[str]:
    """Return the texts of a Literal, or of those in a union, in order; none for other types."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [text for part in get_args(annotation) for text in _choices(part)]


def asked(kind: type[Question], options: Mapping[str, Any]) -> Any:
    """Return the question that the options of a command ask. Times count back from now.

    A limit may be over that of the console. Raises click.BadParameter.
    """
    fields = {name: value for name, value in options.items() if name != "limit"}
    try:
        question = kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise click.BadParameter(f"--{first['loc'][0]}: {first['msg']}.") from error
    limit = {"limit": options["limit"]} if "limit" in options else {}
    return question.model_copy(update=limit).counted_from(time.time_ns() // 1_000_000)


def _checked_time(text: str, *, is_begin: bool = False) -> str:
    """Return a text that names a time; click calls this for an option of that type."""
    try:
        parsed_time(text, datetime.now(UTC), SHOWN_ZONE.get(), is_begin=is_begin)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


def _checked_begin(text: str) -> str:
    return _checked_time(text, is_begin=True)
