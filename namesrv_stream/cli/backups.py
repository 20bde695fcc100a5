"""`export`, `import`, `backup`, `restore` and `repair`: a registry's tables at one epoch, in a file and back again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from namesrv_stream.cli.commanding import requested_by_option
from namesrv_stream.cli.output import say, time_text
from namesrv_stream.cli.view import as_of_option, open_reader, root_of
from namesrv_stream.config import Invocation
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.texts import counted, listed
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.damage import Damage
from namesrv_stream.tables.mending import damages, drop_checkpoint
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
from namesrv_stream.tools.putting_back import (
    Salvaged,
    fewer,
    import_content,
    nothing,
    of_backup,
    repair,
    require_stopped,
    restore_content,
    salvaged,
)

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


_yes_option = click.option("--yes", is_flag=True, help="Do not ask before fewer brokers or topics are published.")


@click.command("export")
@click.argument("file", type=_FILE)
@as_of_option
@click.pass_obj
def export(invocation: Invocation, file: Path, as_of: AsOf | None) -> None:
    """Write the route tables of one snapshot to FILE, without the history. A job may run meanwhile."""
    content = content_of(open_reader(invocation.settings), *(as_of or AsOf()))
    write_backup(file, content)
    click.echo(_written(file, content))


@click.command("backup")
@click.argument("folder", type=_FOLDER)
@click.option("--keep", type=click.IntRange(min=1), help="Remove all but the newest so many backups from FOLDER.")
@click.pass_obj
def backup(invocation: Invocation, folder: Path, keep: int | None) -> None:
    """Export the newest snapshot to FOLDER/epoch-N.zip, for `restore N --from FOLDER`. A job may run meanwhile."""
    content = content_of(open_reader(invocation.settings))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{folder} cannot be made: {error.strerror}") from error
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
    """Make a new registry of FILE at delta.root, which must not hold one.

    The job that is started there reads the topic from the offset at which FILE was taken. On another Kafka, or a topic
    that was made again, start it once with --accept-new-log.
    """
    settings = invocation.settings
    row = import_content(root_of(settings), settings, read_backup(file), requested_by)
    click.echo(_published(row, f"the content of {file}"))


@click.command("restore")
@click.argument("epoch", type=click.IntRange(min=1))
@click.option(
    "--from", "folder", type=_FOLDER, help="Read the file of `backup` in this folder, not a moment of the registry."
)
@click.option("--take-over", is_flag=True, help="Restore even if a job is active, and end it.")
@_yes_option
@requested_by_option
@click.pass_obj
def restore(  # noqa: PLR0913, PLR0917  # one argument for each option
    invocation: Invocation, epoch: int, folder: Path | None, take_over: bool, yes: bool, requested_by: str
) -> None:
    """Publish the tables of EPOCH as a new epoch. The epochs after it stay in the history.

    Brokers change the restored tables as ever: those that are connected register again within seconds, and those that
    have gone leave the routes when their timeout ends.
    """
    settings = invocation.settings
    content, reader = _content(invocation, epoch, folder), open_reader(settings)
    require_stopped(root_of(settings), settings, reader.snapshots.newest(), takes_over=take_over)
    _confirm(fewer(content_of(reader), {}, content), yes)
    row = restore_content(root_of(settings), settings, content, requested_by, takes_over=take_over)
    click.echo(_published(row, f"the tables of epoch {epoch}"))


def _content(invocation: Invocation, epoch: int, folder: Path | None) -> Content:
    if folder is None:
        return content_of(open_reader(invocation.settings), epoch)
    content = read_backup(folder / backup_name(epoch))
    if content.snapshot.epoch != epoch:
        held = content.snapshot.epoch
        raise BackupFileError(folder / backup_name(epoch), f"holds epoch {held}: rename it, and give that epoch")
    return content


def _written(file: Path, content: Content) -> str:
    topics = counted(len({row[0] for row in content.rows["topic"]}), "topic")
    return f"epoch {content.snapshot.epoch} with {topics}, published {time_text(content.snapshot.published_at)}: {file}"


def _published(row: SnapshotRow, what: str) -> str:
    changed = ", ".join(f"{name} {count}" for name, count in sorted(row.changes.items()))
    return f"epoch {row.epoch} has {what} (rows changed: {changed}). Start the job."


@click.command("repair")
@click.option("--from", "folder", type=_FOLDER, help="Publish the newest file of `backup` in this folder.")
@click.option("--from-log", is_flag=True, help="Publish empty tables: the job then reads all that Kafka has.")
@click.option("--take-over", is_flag=True, help="Repair even if a job is active, and end it.")
@_yes_option
@requested_by_option
@click.pass_obj
def repair_(  # noqa: PLR0913, PLR0917  # one argument for each option
    invocation: Invocation, folder: Path | None, from_log: bool, take_over: bool, yes: bool, requested_by: str
) -> None:
    """Mend tables with damaged files: publish the newest content, as far as it can be got back, or another source.

    Rows of a damaged file come from the history. The command says which rows are lost, and asks before it publishes
    fewer brokers or topics than gateways serve now.
    """
    if folder is not None and from_log:
        raise click.UsageError("--from and --from-log exclude each other: give one of them.")
    settings, root = invocation.settings, root_of(invocation.settings)
    found = _without_checkpoints(root, damages(root))
    backup = None if folder is None else of_backup(_newest_backup(folder))
    if not found and backup is None and not from_log:
        click.echo("the newest snapshot is whole, and no table was changed.")
        return
    now = _salvaged(root, found, backup)
    require_stopped(root, settings, now.content.snapshot, takes_over=take_over)
    wanted = nothing(now.content.snapshot) if from_log else backup or now.content
    for line in _losses(now):
        click.echo(line)
    if now.lost.keys() & now.content.rows.keys() and backup is None:
        click.echo("a backup may have these rows: `repair --from FOLDER` publishes the newest one of a folder.")
    for damage in found:
        if not damage.file:
            click.echo(f"{damage.table}: {damage.problem}; they become these.")
    _confirm(fewer(now.content, now.lost, wanted), yes)
    if (gone := sorted(now.lost.keys() - now.content.rows.keys())) and not yes:
        told = f"Rows of {listed(gone)} stay lost, which no backup has. Go on? (--yes for scripts)"
        click.confirm(told, abort=True, err=True)
    done = repair(root, settings, found, now, wanted, requested_by, takes_over=take_over)
    anew = f" Rewritten: {', '.join(done.rewritten)}." if done.rewritten else ""
    what = f"the tables of epoch {wanted.snapshot.epoch}" if wanted.snapshot.epoch else "empty tables"
    at = done.published.offsets.get(0)
    place_in_log = "its begin" if at is None else f"offset {at:,}"
    click.echo(
        f"epoch {done.published.epoch} has {what}.{anew} Start the job: it reads the log from {place_in_log} on."
    )


def _without_checkpoints(root: Root, found: Sequence[Damage]) -> Sequence[Damage]:
    """Remove damaged checkpoints, and return the damage that is left."""
    of_checkpoints = [damage for damage in found if damage.is_of_checkpoint]
    for damage in of_checkpoints:
        drop_checkpoint(root, damage)
        click.echo(f"removed {damage.table}/{damage.file}, which {damage.problem}: Delta reads the commits instead.")
    return damages(root) if of_checkpoints else found


def _salvaged(root: Root, found: Sequence[Damage], backup: Content | None) -> Salvaged:
    """Return what can be got back; if no snapshot can be read, a backup is all that is known."""
    try:
        return salvaged(root, found)
    except NamesrvError:
        if backup is None:
            raise
        return Salvaged(backup, {}, {})


def _losses(now: Salvaged) -> Iterator[str]:
    for table, epoch in now.made.items():
        if table == SNAPSHOT.name:
            yield f"snapshot: the row of epoch {epoch} is made from the tables' newest commits. If all others are lost,"
            yield "  each epoch with events has a row again, of the time of its last event."
            continue
        yield f"{table}: {counted(len(now.content.rows[table]), 'row')}, of epoch {epoch} and the history after it."
    for table, count in now.lost.items():
        how_many = "an unknown number of rows" if count is None else counted(count, "row")
        back = " Living brokers register them again." if table in now.content.rows else ""
        yield f"{table}: {how_many} cannot be got back.{back}"


def _confirm(has_fewer: Sequence[str], yes: bool) -> None:
    """Ask before gateways serve fewer brokers or topics than now."""
    if has_fewer and not yes:
        click.confirm(
            f"This publishes {listed(has_fewer)}, which gateways then serve. Go on? (--yes for scripts)",
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
    raise BackupFileError(folder, "has no backup epoch-N.zip that can be read")
