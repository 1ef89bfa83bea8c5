"""Checks of the entities: what each memory is linked to against what stands in it, names against their keys."""

import json
from collections.abc import Sequence

import apsw

from memstore import entities
from memstore.database import all_rows, one_value
from memstore.entities import Recogniser
from memstore.maintenance.reporting import REBUILDS, Faults, Report, are, have, number, some
from memstore.memories import Row
from memstore.writing import found_in


class Entities:
    """Judges the links of each memory; those that the caller gave are taken as they are.

    Where the file was written with a recogniser and none is at hand, links beyond what is found without it may be its
    own: they stay.
    """

    def __init__(self, conn: apsw.Connection, recogniser: Recogniser | None, report: Report, faults: Faults) -> None:
        self._conn = conn
        self._recogniser = recogniser
        self._report = report
        self._faults = faults
        self._known = entities.known_terms(conn)
        self._lenient = recogniser is None and entities.was_recognised(conn)
        self._beyond = 0

    def batch(self, rows: Sequence[Row]) -> None:
        """Judge the links of some memories."""
        links: dict[int, dict[str | None, tuple[int, int]]] = {}
        for memory_id, key, given, doubtful in all_rows(
            self._conn,
            "SELECT l.memory_id, e.key, l.given, l.doubtful FROM json_each(?) j"
            " CROSS JOIN memory_entities l ON l.memory_id = j.value LEFT JOIN entities e ON e.id = l.entity_id",
            (json.dumps([row.id for row in rows]),),
        ):
            links.setdefault(memory_id, {})[key] = (given, doubtful)
        for row in rows:
            assert row.id is not None
            there = links.get(row.id, {})
            found = found_in(row, self._known, self._recogniser)
            given = {key for key, (is_given, _) in there.items() if is_given}
            wanted = {
                **dict.fromkeys(found.doubtful, 1),
                **dict.fromkeys(found.sure, 0),
                **{key: 0 for key in given if key is not None},
            }
            held = {key: doubtful for key, (_, doubtful) in there.items()}
            if self._lenient:
                beyond = {key: held[key] for key in held if key is not None and held[key] < wanted.get(key, 2)}
                self._beyond += len(beyond)
                wanted |= beyond
            # What an earlier memstore found is found anew with the terms.
            if held != wanted and row.id not in self._faults.stale:
                self._faults.links.add(row.id)

    def finish(self) -> None:
        """Report what was found of the links, and judge the entities and the known terms."""
        report, faults = self._report, self._faults
        if faults.links:
            report.damage(
                "entity",
                f"{some(faults.links)} {are(len(faults.links))} not linked to the names in"
                f" {'its text' if len(faults.links) == 1 else 'their texts'}",
                faults.links,
            )
        if self._beyond:
            report.notice(
                "entity",
                f"{number(self._beyond, 'name', 'names')} came from a recogniser, which is not at hand: whether a"
                " memory has them can't be told",
                count=self._beyond,
                remedy="open the store with it and ask store.maintenance.doctor()",
            )
        wrong = [
            entity_id
            for entity_id, key, name, kind in self._conn.execute("SELECT id, key, name, kind FROM entities")
            if entities.key(name) != key or not kind
        ]
        report.checked["entities"] = int(one_value(self._conn, "SELECT count(*) FROM entities"))
        if wrong:
            faults.names.update(wrong)
            report.damage(
                "entity",
                f"{some(wrong, 'entity', 'entities')} {have(len(wrong))} a name that is not the one"
                f" {'it is' if len(wrong) == 1 else 'they are'} known by",
                count=len(wrong),
            )
        idle = int(
            one_value(
                self._conn,
                "SELECT count(*) FROM entities e WHERE NOT EXISTS"
                " (SELECT 1 FROM memory_entities l WHERE l.entity_id = e.id)",
            )
        )
        if idle:
            faults.strays = True
            report.damage(
                "entity",
                f"{number(idle, 'entity', 'entities')} {are(idle)} mentioned by no memory",
                count=idle,
                remedy="memstore doctor --repair removes what belongs to nothing",
            )
        self._terms()

    def _terms(self) -> None:
        rows = all_rows(self._conn, "SELECT key, spelling, name, kind FROM entity_terms")
        wrong = [
            spelling for key, spelling, name, kind in rows if entities.reading(spelling) != key or not name or not kind
        ]
        kinds: dict[str, set[str]] = {}
        for _, _, name, kind in rows:
            kinds.setdefault(name, set()).add(kind)
        unequal = [name for name, own in kinds.items() if len(own) > 1]
        if wrong:
            self._faults.terms = True
            self._report.damage(
                "entity",
                f"{number(len(wrong), 'known spelling', 'known spellings')} ({', '.join(wrong[:5])}) can't be found by"
                f" {'its key' if len(wrong) == 1 else 'their keys'}",
                count=len(wrong),
                remedy=REBUILDS,
            )
        if unequal:
            self._report.damage(
                "entity",
                f"the known term {unequal[0]} has more than one kind",
                count=len(unequal),
                remedy="memstore entities add gives it one",
                repairable=False,
            )
