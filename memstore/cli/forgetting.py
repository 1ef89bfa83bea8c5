"""`memstore delete`, also `forget`, and `memstore purge`."""

import click

from memstore.cli.support import Place, file_options, opened, print_json
from memstore.errors import NotFoundError


@click.command()
@click.argument("ids", type=int, nargs=-1, required=True)
@click.option("--secure", is_flag=True, help="Leave no trace of them in the file, nor of what was deleted before.")
@file_options
def delete(place: Place, ids: tuple[int, ...], secure: bool) -> None:
    """Delete memories by their IDS, from every index.

    They are found no more from then on, but their bytes stay in the file and its log until the place is used again.
    With --secure they are overwritten, the file is written anew without them, its log is emptied and its automatic
    backups are removed: seconds for ten thousand memories, and twice the file's size of free disk.

    What --secure can't reach: copies, exports and backups that you made, what a killed backup or salvage left in a
    folder NAME.partial-... (named where it lies beside the file), snapshots of the file system, what a disk
    keeps of blocks that were given back or moved (SSDs do), and the memory of programs that have the file open.
    memstore purge --secure does the same for what was deleted or changed without it.
    """
    with opened(place, must_exist=True) as store:
        missing = [one for one in ids if store.get(one) is None]
        if missing:
            also = " memstore purge --secure takes away what was deleted or has expired." if secure else ""
            raise NotFoundError(f"there is no memory {missing[0]}; nothing was deleted.{also}")
        deleted = store.delete(ids, secure=secure)
    if place.as_json:
        print_json({"deleted": deleted})
    else:
        click.echo(f"deleted {_memories(deleted)}{', without a trace' if secure else ''}")


@click.command()
@click.option("--secure", is_flag=True, help="Leave no trace of them in the file, nor of what was deleted before.")
@file_options
def purge(place: Place, secure: bool) -> None:
    """Delete all memories that have expired. They are shown nowhere before either; each write deletes some of them.

    With --secure no trace of them is left, nor of whatever was deleted or changed before, and a secure deletion that
    did not come to its end is ended. See memstore delete --help for what that takes and what it can't reach.
    """
    with opened(place, must_exist=True) as store:
        purged = store.maintenance.purge(secure=secure)
    if place.as_json:
        print_json({"purged": purged})
    else:
        traces = "; no trace is left of what was deleted before" if secure else ""
        click.echo(f"deleted {_memories(purged)} that had expired{traces}")


def _memories(number: int) -> str:
    return f"{number} {'memory' if number == 1 else 'memories'}"
