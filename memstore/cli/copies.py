"""`memstore backup` and `memstore salvage`: a whole file written to another."""

from pathlib import Path

import click

from memstore import render
from memstore.cli.place import key_of
from memstore.cli.support import (
    Place,
    file_options,
    key_file_option,
    notice,
    opened,
    print_json,
    progress_bar,
    warnings_told,
)
from memstore.health import Finding
from memstore.salvaging import salvage as salvaged

_PATH = click.Path(path_type=Path, readable=False)


@click.command()
@click.argument("destination", metavar="DEST")
@file_options
def backup(place: Place, destination: str) -> None:
    """Copy the file to DEST, a new file, while others use it, and read the copy back; in a folder it is named for now.

    It holds all that was stored, which a plain copy of a file in use need not. Nothing is left at DEST when it fails.
    """
    with opened(place, must_exist=True) as store, progress_bar(place.quiet, "copying") as progress:
        made = store.maintenance.backup(destination, progress=progress)
    if place.as_json:
        print_json(render.record(made))
    else:
        click.echo(
            render.plain(f"{made.memories} memories and {made.vectors} vectors are in {made.path}, which was read back")
        )
    if made.damaged:
        notice(
            f"{made.damaged} memories are not as they were stored, in the file as in the copy; memstore doctor names"
            " them.",
            place.quiet,
        )


@click.command()
@click.argument("file", type=_PATH)
@click.argument("destination", metavar="DEST")
@click.option("--include-uncertain", is_flag=True, help="Take memories too that may have been deleted.")
@key_file_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No notices and no progress on standard error.")
def salvage(
    file: Path, destination: str, include_uncertain: bool, key_file: Path | None, as_json: bool, quiet: bool
) -> None:
    """Recover what can be read of a damaged FILE into DEST, a new file; FILE is not changed.

    Each memory is checked against the hash that was kept of it, and what was deleted stays so. The exit code is 0 when
    all that FILE held is in DEST, but for what can be made again, and 1 when something is lost or not as it was stored.
    """
    key = None if key_file is None else key_of(key_file, lambda sentence: notice(sentence, quiet))
    with warnings_told(quiet), progress_bar(quiet, "writing") as progress:
        found = salvaged(file, destination, include_uncertain=include_uncertain, key=key, progress=progress)
    if as_json:
        print_json({"complete": found.complete, **render.record(found)})
    else:
        click.echo(render.plain(f"{found.memories} memories and {found.vectors} vectors are in {found.path}."))
        for one in found.findings:
            if one.severity == "damage":
                click.echo(render.plain(_sentence(one)))
    for one in found.findings:
        if one.severity == "notice":
            notice(f"note: {_sentence(one)}", quiet)
    click.get_current_context().exit(0 if found.complete else 1)


def _sentence(finding: Finding) -> str:
    return f"{finding.sentence}; {finding.remedy}." if finding.remedy else f"{finding.sentence}."
