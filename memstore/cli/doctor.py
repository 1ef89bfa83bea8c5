"""`memstore doctor`: whether a file is as it was stored, and what of it can be made again."""

from collections.abc import Iterator

import click

from memstore import render
from memstore.cli.support import Place, file_options, located, notice, opened, print_json, progress_bar
from memstore.errors import DamagedStoreError, NotAStoreError, StorageError
from memstore.health import Diagnosis, Finding, Repair
from memstore.maintenance import diagnose, mend


@click.command()
@click.option("--repair", is_flag=True, help="Make again what can be made again, after a copy of the file.")
@click.option(
    "--accept",
    "accepted",
    type=int,
    multiple=True,
    metavar="ID",
    help="With --repair: take memory ID as it is now, though memstore did not write it so; again for more.",
)
@file_options
def doctor(place: Place, repair: bool, accepted: tuple[int, ...]) -> None:
    """Check that the file is as it was stored: memories, every index, vectors, schema.

    The exit code is 0 for a healthy file and 1 for one with damage; after --repair it tells how the file is then. What
    is only worth knowing is marked as a note and changes no exit code.
    """
    if accepted and not repair:
        raise click.UsageError("--accept goes with --repair.")
    path = located(place, must_exist=True)
    mended: Repair | None = None
    with progress_bar(place.quiet, "checking") as progress:
        if repair:
            try:
                store = opened(place)
            except (DamagedStoreError, NotAStoreError, StorageError):
                mended = mend(path, accept=accepted, key=place.key, progress=progress)
            else:
                with store:
                    mended = store.maintenance.repair(accept=accepted, progress=progress)
        diagnosis = diagnose(path, key=place.key, progress=progress) if mended is None else mended.diagnosis
    if place.as_json:
        found = diagnosis if mended is None else mended
        print_json({"healthy": diagnosis.healthy, **render.record(found)})
    elif mended is None:
        _print_diagnosis(diagnosis, place)
    else:
        _print_repair(mended, place)
    click.get_current_context().exit(0 if diagnosis.healthy else 1)


def _print_diagnosis(found: Diagnosis, place: Place) -> None:
    for line in _lines(found):
        click.echo(render.plain(line))
    for finding in found.findings:
        if finding.severity == "notice":
            notice(f"note: {_sentence(finding)}", place.quiet)


def _lines(found: Diagnosis) -> Iterator[str]:
    damage = [finding for finding in found.findings if finding.severity == "damage"]
    yield from (_sentence(finding) for finding in damage)
    looked = f"{found.checked.get('memories', 0):,} memories were checked in {found.seconds:.1f} seconds"
    if not damage:
        yield f"{found.path.name} is healthy: {looked}."
    elif found.checked:
        yield f"{found.path.name} is damaged: {looked}."


def _print_repair(mended: Repair, place: Place) -> None:
    if mended.backup is not None:
        click.echo(f"copied the file to {mended.backup.name} before anything was changed")
    for what, number in mended.rebuilt.items():
        click.echo(f"{what}: {number:,}")
    if mended.backup is None and not mended.rebuilt:
        healthy = mended.before.healthy
        click.echo("there was nothing to repair" if healthy else "there was nothing that could be repaired")
    told = {finding.sentence for finding in mended.diagnosis.findings}
    for sentence in mended.lost:
        if sentence not in told:
            click.echo(render.plain(f"{sentence.rstrip('.')}."))
    _print_diagnosis(mended.diagnosis, place)


def _sentence(finding: Finding) -> str:
    return f"{finding.sentence}; {finding.remedy}." if finding.remedy else f"{finding.sentence}."
