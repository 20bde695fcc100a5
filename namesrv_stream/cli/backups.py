"""`export`, `import`, `backup`, `restore` and `repair`: a registry's tables at one epoch, in a file and back again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from namesrv_stream.cli.commanding import requested_by_option
from namesrv_stream.cli.output import say, time_text
from namesrv_stream.cli.view import as_of_option, open_registry, root_of
from namesrv_stream.config import Invocation
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.texts import counted, listed
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.damage import Damage
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.repair import Repair, damages, drop_checkpoint, newest_readable, newest_tag, planned
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.tools.backup_file import (
    BackupFileError,
    Content,
    backup_name,
    content_of,
    read_backup,
    write_backup,
)
from namesrv_stream.tools.restore import (
    fewer,
    import_content,
    lost_keys,
    nothing,
    of_backup,
    publish_repair,
    require_stopped,
    restore_content,
)

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


_yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@click.command("export")
@click.argument("file", type=_FILE)
@as_of_option
@click.pass_obj
def export(invocation: Invocation, file: Path, as_of: AsOf | None) -> None:
    """Write the tables of one snapshot to FILE.

    Without the history. A job may be running.
    """
    content = content_of(open_registry(invocation.settings).at(*(as_of or AsOf())))
    write_backup(file, content)
    click.echo(_written(file, content))


@click.command("backup")
@click.argument("folder", type=_FOLDER)
@click.option("--keep", type=click.IntRange(min=1), help="Keep only this many backups in FOLDER.")
@click.pass_obj
def backup(invocation: Invocation, folder: Path, keep: int | None) -> None:
    """Export the newest snapshot to FOLDER/epoch-N.zip.

    `restore N --from FOLDER` reads it. A job may be running.
    """
    content = content_of(open_registry(invocation.settings).newest())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"cannot create {folder}: {error.strerror}.") from error
    file = folder / backup_name(content.snapshot.epoch)
    write_backup(file, content)
    click.echo(_written(file, content))
    for old in _by_epoch(folder)[:-keep] if keep else ():
        old.unlink(missing_ok=True)
        click.echo(f"removed {old}")


def _by_epoch(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-[0-9]*.zip"), key=lambda file: int(file.stem.removeprefix("epoch-")))


@click.command("import")
@click.argument("file", type=_FILE)
@requested_by_option
@click.pass_obj
def import_(invocation: Invocation, file: Path, requested_by: str) -> None:
    """Create a registry from FILE at delta.root.

    There must be none yet. The job there reads the Kafka topic from the offset at which FILE was taken. For another
    Kafka, or a topic that was created again, start it once with --accept-new-log.
    """
    settings = invocation.settings
    row = import_content(root_of(settings), settings, read_backup(file), requested_by)
    click.echo(_published(row, f"the content of {file}"))


@click.command("restore")
@click.argument("epoch", type=click.IntRange(min=1))
@click.option("--from", "folder", type=_FOLDER, help="Read the backup in this folder, not the registry.")
@click.option("--take-over", is_flag=True, help="Stop an active job first.")
@_yes_option
@requested_by_option
@click.pass_obj
def restore(  # noqa: PLR0913, PLR0917  # one argument for each option
    invocation: Invocation, epoch: int, folder: Path | None, take_over: bool, yes: bool, requested_by: str
) -> None:
    """Publish the tables of an earlier snapshot.

    EPOCH is its number. Later snapshots stay in the history. Brokers that are connected register again within seconds;
    brokers that do not are removed when their heartbeat timeout ends.
    """
    settings = invocation.settings
    content, newest = _content(invocation, epoch, folder), open_registry(settings).newest()
    require_stopped(root_of(settings), settings, newest.snapshot, takes_over=take_over)
    _confirm(fewer(content_of(newest).rows, {}, content.rows), yes)
    row = restore_content(root_of(settings), settings, content, requested_by, takes_over=take_over)
    click.echo(_published(row, f"the tables of snapshot {epoch}"))


def _content(invocation: Invocation, epoch: int, folder: Path | None) -> Content:
    if folder is None:
        return content_of(open_registry(invocation.settings).at(epoch))
    content = read_backup(folder / backup_name(epoch))
    if content.snapshot.epoch != epoch:
        held = content.snapshot.epoch
        raise BackupFileError(folder / backup_name(epoch), f"has epoch {held}. Rename it, and give that epoch")
    return content


def _written(file: Path, content: Content) -> str:
    topics = counted(len({row[0] for row in content.rows["topic"]}), "topic")
    published = time_text(content.snapshot.published_at, with_zone=True)
    return f"wrote {file}: snapshot {content.snapshot.epoch} with {topics}, published {published}"


def _published(row: SnapshotRow, what: str) -> str:
    changed = ", ".join(f"{name} {count}" for name, count in sorted(row.changes.items()))
    return f"published snapshot {row.epoch} with {what} (rows changed: {changed}). Start the job."


@click.command("repair")
@click.option("--from", "folder", type=_FOLDER, help="Publish the newest backup in this folder.")
@click.option("--from-log", is_flag=True, help="Publish empty tables; the job reads all of Kafka's log.")
@click.option("--take-over", is_flag=True, help="Stop an active job first.")
@_yes_option
@requested_by_option
@click.pass_obj
def repair_(  # noqa: PLR0913, PLR0917  # one argument for each option
    invocation: Invocation, folder: Path | None, from_log: bool, take_over: bool, yes: bool, requested_by: str
) -> None:
    """Repair tables with damaged files.

    Publishes the newest known content, or a backup. Rows of a damaged route table are rebuilt from the history. What
    the history lacks comes from the brokers, which register again, or from a backup. The command lists lost rows, and
    asks before it continues without them.
    """
    if folder is not None and from_log:
        raise click.UsageError("--from and --from-log exclude each other. Give one of them.")
    settings, root = invocation.settings, root_of(invocation.settings)
    found = _without_checkpoints(root, damages(root))
    backup = None if folder is None else of_backup(_newest_backup(folder))
    newest = newest_readable(root, found) or (backup and _above_all(root, backup.snapshot))
    if newest is None:
        raise NamesrvError(
            f"cannot repair {root.url}: no row of table snapshot can be read. Nothing was changed. Give a folder of "
            "backups with --from FOLDER; a backup has the place in Kafka's log too."
        )
    behind = newest_tag(root).epoch > newest.epoch and any(damage.table == SNAPSHOT.name for damage in found)
    if not found and backup is None and not from_log:
        click.echo("nothing to repair: the newest snapshot is complete.")
        return
    require_stopped(root, settings, newest, takes_over=take_over)
    plan = planned(root, found, newest)
    wanted = nothing(newest) if from_log else backup
    if behind:
        click.echo(
            f"snapshot: the newest row is lost. The job reads Kafka's log again from snapshot {newest.epoch} on."
        )
    for line in _plan_lines(root, plan, found):
        click.echo(line)
    _confirm(fewer(plan.rows, plan.lost, wanted.rows if wanted else plan.rows), yes)
    if plan.lost and not yes:
        told = f"Lost rows of {listed(sorted(plan.lost))} stay lost unless a backup has them."
        click.confirm(f"{told} Continue? (--yes for scripts)", abort=True, err=True)
    row = publish_repair(root, settings, plan, wanted, requested_by)
    mended = sorted({*plan.made, *plan.readable})
    repaired = f" Repaired: {', '.join(mended)}." if mended else ""
    of_epoch = wanted.snapshot.epoch if wanted else newest.epoch
    what = f"the tables of snapshot {of_epoch}" if of_epoch else "empty tables"
    what += " as far as known" if plan.needs_full_registrations and wanted is None else ""
    at = row.offsets.get(0)
    place_in_log = "its beginning" if at is None else f"offset {at:,}"
    click.echo(
        f"published snapshot {row.epoch} with {what}.{repaired} Start the job: it reads the log from {place_in_log} on."
    )


def _above_all(root: Root, row: SnapshotRow) -> SnapshotRow:
    """Return the row of a backup as the newest one, above all epochs that any table has."""
    tag = newest_tag(root)
    return row._replace(epoch=max(row.epoch, tag.epoch), term=max(row.term, tag.term))


def _without_checkpoints(root: Root, found: Sequence[Damage]) -> Sequence[Damage]:
    """Remove damaged checkpoints, and return the damage that is left."""
    of_checkpoints = [damage for damage in found if damage.is_of_checkpoint]
    for damage in of_checkpoints:
        drop_checkpoint(root, damage)
        click.echo(f"removed {damage.table}/{damage.file}, which {damage.problem}. Delta reads the commits instead.")
    return damages(root) if of_checkpoints else found


def _plan_lines(root: Root, plan: Repair, found: Sequence[Damage]) -> Iterator[str]:
    """Yield what becomes of each damaged table."""
    for damage in found:
        if not damage.file:
            yield f"{damage.table}: {damage.problem}."
    for table in sorted(plan.made):
        made = counted(len(plan.rows[table]), "row")
        unsure = (
            "; rows of the history are lost, so some may be missing or old" if plan.needs_full_registrations else ""
        )
        yield f"{table}: {made} rebuilt from row_change{unsure}."
    for table, count in plan.lost.items():
        if table not in plan.rows:
            how_many = "an unknown number of rows" if count is None else counted(count, "row")
            yield f"{table}: {how_many} lost."
    if plan.holes:
        yield f"The history {UnknownPast.joined(plan.holes).stretch} is lost."
    if plan.needs_full_registrations:
        yield "Brokers that are up register again in full within a minute."
        if keys := lost_keys(root, plan):
            yield f"Set at a time of which rows are lost, and maybe missing or outdated: {listed(keys)}."
        yield "A backup may have lost rows: `repair --from FOLDER` publishes the newest one of a folder."


def _confirm(has_fewer: Sequence[str], yes: bool) -> None:
    """Ask before gateways serve fewer brokers or topics than now."""
    if has_fewer and not yes:
        click.confirm(
            f"This publishes {listed(has_fewer)}, which gateways then serve. Continue? (--yes for scripts)",
            abort=True,
            err=True,
        )


def _newest_backup(folder: Path) -> Content:
    """Return the newest backup that can be read."""
    for file in reversed(_by_epoch(folder)):
        try:
            return read_backup(file)
        except BackupFileError as error:
            say(str(error))
    raise BackupFileError(folder, "has no readable backup epoch-N.zip")
