"""Check a machine and its settings, before or while a process of the registry runs there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from deltalake.exceptions import DeltaError

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, StorageError, masked

State = Literal["ok", "warning", "failed", "not checked"]


class Finding(NamedTuple):
    """One line of the report. `found` is the fact; `next_step` is what to do, empty if nothing has to be done."""

    check: str
    state: State
    found: str
    next_step: str = ""


Check = Callable[[NamesrvSettings], Iterable[Finding]]


def findings(name: str, check: Check, settings: NamesrvSettings) -> Iterator[Finding]:
    """Yield the findings of a check. An error ends it as a finding that has failed; one of the storage is named."""
    try:
        for each in check(settings):
            yield each._replace(found=masked(each.found))
    except NamesrvError as error:
        yield Finding(name, "failed", str(error))
    except (DeltaError, OSError) as error:
        yield Finding(name, "failed", str(StorageError(settings.delta_root, str(error))))
    except Exception as error:
        yield Finding(name, "failed", masked(f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"))
