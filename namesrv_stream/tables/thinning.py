"""Removal of the files that only versions need which no snapshot names any more, data and log alike.

A version of a Delta table can be read if the log has a checkpoint of it, whatever is missing before. So the versions to
keep get a checkpoint, and the commits between them go, with the data files that they alone name. A reader that asks
for a version in between gets an error, never other rows.

A run that dies leaves commits that name data files which are gone, and the next run removes these commits. Data files
that no commit names (a writer died before its commit) are not found here: VACUUM removes them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector

from namesrv_stream.tables.files import TableFiles
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TableSpec

WORTH_IT = 20
"""Number of commits that could go, below which they wait for more: what stays gets a checkpoint, which takes time."""

_LOG = "_delta_log"
_OF_VERSION = re.compile(r"\.?(\d{20})\..+")


@dataclass
class Thinning:
    """Thins the tables of a registry. Remembers the files of the versions that it keeps, which never change."""

    root: Root
    _files: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)

    def thin(self, spec: TableSpec, every_from: int, single: Iterable[int], least: int = WORTH_IT) -> int:
        """Remove what only versions below `every_from` need that are not in `single`; return how many files went.

        Nothing happens below `least` such versions. Raises DeltaError if a version to keep cannot be read.
        """
        log = self._log_files(spec)
        kept = {version for version in single if version < every_from} | {every_from}
        gone = sorted(version for version in log if version < every_from and version not in kept)
        if len(gone) < least:
            return 0
        self._make_checkpoints(spec, log, kept)
        data = self._named_by(spec, gone, log) - self._needed(spec, kept, every_from, max(log))
        # The data go first: without its commit nobody would know that a file is not needed.
        names = [*sorted(data), *(f"{_LOG}/{name}" for version in gone for name in log[version])]
        return sum(self._is_removed(spec, name) for name in names)

    def _log_files(self, spec: TableSpec) -> dict[int, list[str]]:
        """Return the names of the log's files by their version: commits, checkpoints and their checksums."""
        of_version = defaultdict(list)
        for info in self._storage(spec).get_file_info_selector(FileSelector(_LOG)):
            name = info.path.rpartition("/")[2]
            if found := _OF_VERSION.fullmatch(name):
                of_version[int(found[1])].append(name)
        return of_version

    def _make_checkpoints(self, spec: TableSpec, log: dict[int, list[str]], kept: set[int]) -> None:
        """Give each version to keep a checkpoint. The head's comes last: the last one made is where readers begin."""
        for version in sorted(kept):
            if not any(".checkpoint." in name for name in log.get(version, ())):
                self.root.open(spec, version).create_checkpoint()
        self.root.open(spec).create_checkpoint()

    def _named_by(self, spec: TableSpec, gone: list[int], log: dict[int, list[str]]) -> set[str]:
        """Return the data files that the versions which go have or name."""
        files, named = TableFiles(self.root, spec), set[str]()
        for version in gone:
            named |= files.named_by(version)
            if version - 1 not in log:  # a version that was kept by a checkpoint until now
                with suppress(DeltaError, TableNotFoundError):  # or a former run has died here
                    named |= self._files_of(spec, version)
        return named

    def _needed(self, spec: TableSpec, kept: set[int], every_from: int, head: int) -> set[str]:
        """Return the data files of the versions to keep, and what the commits after `every_from` name."""
        files = TableFiles(self.root, spec)
        of_kept = {(spec.name, version): self._files_of(spec, version) for version in kept}
        self._files = {key: paths for key, paths in self._files.items() if key[0] != spec.name} | of_kept
        later = (files.named_by(version) for version in range(every_from + 1, head + 1))
        return set[str]().union(*of_kept.values(), *later)

    def _files_of(self, spec: TableSpec, version: int) -> frozenset[str]:
        known = self._files.get((spec.name, version))
        if known is None:
            known = frozenset(self.root.open(spec, version).get_add_actions()["path"].to_pylist())
        return known

    def _is_removed(self, spec: TableSpec, name: str) -> bool:
        try:
            self._storage(spec).delete_file(name)
        except FileNotFoundError:
            return False
        return True

    def _storage(self, spec: TableSpec) -> DeltaStorageHandler:
        return DeltaStorageHandler(self.root.uri(spec), dict(self.root.storage_options or {}))
