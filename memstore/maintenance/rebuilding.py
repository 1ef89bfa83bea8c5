"""What is made of the memories, made again: the keyword index, stems, entities, passages, counts."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import apsw

from memstore import database, entities, keyword, memories, passages, semantic, staleness, threads
from memstore.analysis import LANGUAGES, Analyser, word_of
from memstore.database import Database, all_rows, one_value
from memstore.entities import Mentions, Recogniser
from memstore.lexicon import Kept, Lexicon
from memstore.maintenance.file_checks import highest_ids
from memstore.maintenance.keyword_checks import stored_stems
from memstore.maintenance.memory_checks import senseless_uses
from memstore.maintenance.reporting import Faults
from memstore.memories import Row
from memstore.records import Entity
from memstore.writing import found_in

# What one transaction makes again: an interruption costs no more, and other writers wait no longer.
_BATCH = 64
_MANY = {"table": "tables", "index": "indexes", "trigger": "triggers"}
# Each column that names a row of another table, the first of what hangs on the other first.
_REFERENCES = (
    ("tags", "memory_id", "memories"),
    ("uses", "memory_id", "memories"),
    ("memory_entities", "memory_id", "memories"),
    ("memory_entities", "entity_id", "entities"),
    ("passages", "memory_id", "memories"),
    ("analysed", "memory_id", "memories"),
    ("passage_vectors", "embedder_id", "embedders"),
    ("space_statistics", "embedder_id", "embedders"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What a memory gives again, as far as it is wanted, before the transaction."""

    row: Row
    languages: tuple[str, ...]
    terms: Sequence[str]
    words: set[str]
    found: Mentions | None


class Rebuilder:
    """Makes again what an examination found wrong, each time from the memories as they are by then."""

    def __init__(self, data: Database, recogniser: Recogniser | None, faults: Faults) -> None:
        self._data = data
        self._recogniser = recogniser
        self._faults = faults
        with data.read() as conn:
            languages = staleness.languages(conn) or LANGUAGES
        # One of its own: what the store knows of words came from the list that is mended here.
        self._lexicon = Lexicon(data)
        self._analyser = Analyser(languages, self._lexicon.lookup)
        self.made: dict[str, int] = {}

    def indexes(self) -> None:
        """Make all indexes again from their tables."""
        if self._faults.indexes:
            with self._data.write() as conn:
                database.renew_indexes(conn)
            self._count("indexes", sum(kind == "index" for kind, _ in database.expected_objects()))

    def object(self, key: tuple[str, str]) -> None:
        """Make a table, index or trigger again that is missing, changed or damaged."""
        with self._data.write() as conn:
            # With a table its indexes and triggers have come back.
            if key[0] == "table" or key not in database.objects(conn) or not _alike(conn, key):
                database.make_again(conn, key)
        self._count(f"{_MANY[key[0]]} of the schema", 1)

    def strays(self) -> None:
        """Remove what belongs to nothing."""
        if not self._faults.strays:
            return
        with self._data.write() as conn:
            for table, column, parent in _REFERENCES:
                conn.execute(
                    f"DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM {parent} o WHERE o.id = {table}.{column})"
                )
                self._count("rows removed that belonged to nothing", conn.changes())
            for memory_id in senseless_uses(conn):
                conn.execute("DELETE FROM uses WHERE memory_id = ?", (memory_id,))
                self._count("uses removed", 1)

    def idle(self) -> None:
        """Forget entities that no memory mentions, once the memories are linked to theirs."""
        if self._faults.strays:
            with self._data.write() as conn:
                conn.execute("DELETE FROM entities WHERE id NOT IN (SELECT entity_id FROM memory_entities)")
                self._count("rows removed that belonged to nothing", conn.changes())

    def sequences(self) -> None:
        """Have new ids begin above all that there are."""
        if not self._faults.sequences:
            return
        with self._data.write() as conn:
            for table, highest in highest_ids(conn).items():
                last = one_value(conn, "SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
                if not isinstance(last, int) or last < highest:
                    conn.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
                    conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, highest))
                    self._count("sequences of ids", 1)

    def rows(self, accepted: Iterable[int]) -> None:
        """Write the marks of memories again that do not fit, and those of memories that are taken as they are."""
        for ids, what in ((self._faults.content, "marks of memories"), (accepted, "memories accepted as they are")):
            with self._data.write() as conn:
                for row in filter(None, [memories.get(conn, one) for one in sorted(ids)]):
                    memories.write(conn, row)
                    self._count(what, 1)

    def entries(self) -> None:
        """Make the keyword index again from what is cached of the memories' terms, in one transaction."""
        if not self._faults.entries:
            return
        with self._data.write() as conn:
            database.make_again(conn, ("table", "memory_terms"))
            ids = [one for (one,) in all_rows(conn, "SELECT memory_id FROM analysed ORDER BY memory_id")]
            for memory_id in ids:
                keyword.write_row(conn, memory_id, threads.beside(conn, threads.place(conn, memory_id)))
            self._count("memories in the keyword index", len(ids))

    def stems(self) -> None:
        """Ask the stemmers again for words that have other stems in the file."""
        with self._data.write() as conn:
            conn.executemany(
                "UPDATE stems SET stems = ?, folded = ?, folded_stems = ? WHERE word = ?",
                [(*stored_stems(word_of(word, self._analyser.languages)), word) for word in self._faults.stems],
            )
            self._count("stems", len(self._faults.stems))

    def terms(self) -> None:
        """Have known spellings found by their keys again."""
        if not self._faults.terms:
            return
        with self._data.write() as conn:
            for old, spelling in all_rows(conn, "SELECT key, spelling FROM entity_terms"):
                if (new := entities.reading(spelling)) != old:
                    conn.execute("UPDATE OR IGNORE entity_terms SET key = ? WHERE key = ?", (new, old))
                    self._count("known spellings", conn.changes())

    def names(self) -> None:
        """Forget entities whose name and key disagree, and link their memories anew; a given one keeps its name."""
        bad = sorted(self._faults.names)
        if not bad:
            return
        chosen = json.dumps(bad)
        with self._data.write() as conn:
            known = entities.known_terms(conn)
            linked = [
                one
                for (one,) in all_rows(
                    conn,
                    "SELECT DISTINCT memory_id FROM memory_entities"
                    " WHERE entity_id IN (SELECT value FROM json_each(?))",
                    (chosen,),
                )
            ]
            given = {one: entities.given(conn, one) for one in linked}
            conn.execute("DELETE FROM memory_entities WHERE entity_id IN (SELECT value FROM json_each(?))", (chosen,))
            conn.execute("DELETE FROM entities WHERE id IN (SELECT value FROM json_each(?))", (chosen,))
            for memory_id, row in memories.rows(conn, linked).items():
                entities.index(conn, memory_id, found_in(row, known, self._recogniser), given[memory_id])
        self._count("entities", len(bad))

    def memories(self, progress: Callable[[int, int], None] | None) -> None:
        """Analyse, link and cut the memories again of which something of that is wrong."""
        ids = sorted(self._faults.memories)
        for start in range(0, len(ids), _BATCH):
            self._memories(ids[start : start + _BATCH])
            if progress is not None:
                progress(min(start + _BATCH, len(ids)), len(ids))

    def counts(self) -> None:
        """Count again what triggers keep count of."""
        with self._data.write() as conn:
            conn.execute("DELETE FROM statistics")
            conn.execute(
                "INSERT INTO statistics (memories, terms, passages) SELECT (SELECT count(*) FROM analysed),"
                " (SELECT coalesce(sum(length), 0) FROM analysed),"
                " (SELECT count(*) FROM passages WHERE embedder_id IS NULL)"
            )
            conn.execute("DELETE FROM space_statistics")
            conn.execute(
                "INSERT INTO space_statistics (embedder_id, passages) SELECT e.id, (SELECT count(*)"
                " FROM passage_vectors v JOIN passages p ON p.id = v.passage_id"
                " WHERE v.embedder_id = e.id AND p.embedder_id IS NULL) FROM embedders e"
            )
        if self._faults.counts:
            self._count("counts", 1)

    def _memories(self, ids: Sequence[int]) -> None:
        faults = self._faults
        with self._data.read() as conn:
            known = entities.known_terms(conn)
            rows = memories.rows(conn, ids)
        made = {one: self._made(row, known) for one, row in rows.items()}
        words: list[Kept] = []
        with self._data.write() as conn:
            learnt = entities.known_terms(conn)
            stale: set[int] = set()
            for one, row in memories.rows(conn, ids).items():
                ready = made.get(one)
                if ready is None or ready.row != row or learnt != known:
                    # It was changed meanwhile.
                    ready = self._made(row, learnt)
                if one in faults.analysed or one in faults.words:
                    words.append(self._lexicon.keep(conn, ready.words, self._analyser.languages))
                    keyword.index(conn, one, ready.terms, ready.languages, self._analyser.stamp)
                    stale |= {one, *threads.beside(conn, row.place)}
                    self._count("memories analysed", 1)
                if one in faults.beside:
                    stale.add(one)
                    self._count("neighbours", 1)
                if ready.found is not None:
                    names = ready.found
                    if self._recogniser is None and entities.was_recognised(conn):
                        # Only the recogniser that is not at hand could find its names again.
                        names = entities.joined(conn, one, names)
                    entities.index(conn, one, names, entities.given(conn, one))
                    self._count("memories linked to names", 1)
                if one in faults.passages:
                    self._cut(conn, row)
                    self._count("memories cut into passages", 1)
            for one in sorted(stale):
                if keyword.indexed(conn, one):
                    keyword.write_row(conn, one, threads.beside(conn, threads.place(conn, one)))
        self._lexicon.kept(words)

    def _made(self, row: Row, known: Mapping[str, Entity]) -> _Made:
        languages = self._analyser.languages_of(row.text, row.language)
        terms: Sequence[str] = ()
        words: set[str] = set()
        if row.id in self._faults.analysed or row.id in self._faults.words:
            terms, words = self._analyser.analysed(row.indexed_text(self._analyser.languages), languages)
        found = found_in(row, known, self._recogniser) if row.id in self._faults.links else None
        return _Made(row=row, languages=languages, terms=terms, words=words, found=found)

    def _cut(self, conn: apsw.Connection, row: Row) -> None:
        """Give a memory the passages that it should have; what has its vectors already keeps them."""
        assert row.id is not None
        wanted = passages.cut(row.text)
        extra: list[int] = []
        for passage_id, start, stop in all_rows(
            conn,
            "SELECT id, start, stop FROM passages WHERE memory_id = ? AND embedder_id IS NULL ORDER BY id",
            (row.id,),
        ):
            if (start, stop) in wanted:
                wanted.remove((start, stop))
            else:
                extra.append(passage_id)
        # Their vectors are then those of nothing, which the repair of the spaces removes.
        conn.executemany("DELETE FROM passages WHERE id = ?", [(one,) for one in extra])
        for start, stop in wanted:
            left = semantic.left_behind(conn, row.embedded_text(start, stop))
            if left is None:
                semantic.add_passage(conn, row.id, start, stop)
            else:
                conn.execute(
                    "INSERT INTO passages (id, memory_id, start, stop) VALUES (?, ?, ?, ?)", (left, row.id, start, stop)
                )
        for space in semantic.spaces(conn):
            self._faults.space(space.id).notes = True

    def _count(self, what: str, number: int) -> None:
        if number:
            self.made[what] = self.made.get(what, 0) + number


def _alike(conn: apsw.Connection, key: tuple[str, str]) -> bool:
    return database.objects(conn)[key].shape == database.expected_objects()[key].shape
