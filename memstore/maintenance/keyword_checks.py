"""Checks of the keyword index: an analysis of each memory, and every entry of the index, against what is stored."""

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import apsw
import numpy as np
from numpy.typing import NDArray

from memstore import keyword, staleness, threads
from memstore.analysis import LANGUAGES, Analyser, Word, beyond, term, word_of
from memstore.database import all_rows, one_value
from memstore.maintenance.reporting import REBUILDS, Faults, Report, are, have, it, number, some
from memstore.memories import Row

# A term's share in the sum of a row, by column; odd, so that no two terms that differ become one.
_COLUMNS = {"terms": 1, "neighbours": 0x9E3779B97F4A7C15}
_MASK = (1 << 64) - 1
_AT_ONCE = 200_000
_MOST_WORDS_KNOWN = 200_000

Numbers = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A row of `analysed`."""

    languages: str
    length: int
    terms: str
    counts: str
    beside: str
    analyser: str

    @property
    def noted(self) -> tuple[str, int, str, str]:
        return self.languages, self.length, self.terms, self.counts


class Keywords:
    """Judges what is cached of each memory's terms, then the index by all of its entries.

    FTS5's own check compares nothing in a table without content. So each row of the index is summed up here twice: from
    the entries that the index holds, and from the terms that the memories give. A sum is that of a hash of each term.
    """

    def __init__(self, conn: apsw.Connection, report: Report, faults: Faults) -> None:
        self._conn = conn
        self._report = report
        self._faults = faults
        # What the file has learnt of words is itself to be judged: only the stemmers are asked.
        self._learnt = lru_cache(_MOST_WORDS_KNOWN)(word_of)
        self._analyser = Analyser(
            staleness.languages(conn) or LANGUAGES,
            lambda spellings, languages: {one: self._learnt(one, languages) for one in spellings},
        )
        self._missing: set[int] = set()
        self._beyond: set[int] = set()
        self._known_words: set[str] = set()
        # By memory, in the order of the ids: the sums of its own terms, each as often as it stands there and once, and
        # how many those are.
        self._ids = array("q")
        self._own, self._distinct = array("Q"), array("Q")
        self._length, self._different = array("Q"), array("Q")
        # Which memory stands beside which.
        self._near, self._other = array("q"), array("q")

    def batch(self, rows: Sequence[Row]) -> None:
        """Judge what is cached of some memories, and note what the index must hold of them."""
        ids = [row.id for row in rows if row.id is not None]
        stored = {
            memory_id: _Stored(*rest)
            for memory_id, *rest in all_rows(
                self._conn,
                "SELECT memory_id, languages, length, terms, counts, beside, analyser FROM analysed"
                " WHERE memory_id IN (SELECT value FROM json_each(?))",
                (json.dumps(ids),),
            )
        }
        words: dict[int, set[str]] = {}
        for row, memory_id in zip(rows, ids, strict=True):
            there, beside = stored.get(memory_id), threads.beside(self._conn, row.place)
            if there is not None and there.analyser != self._analyser.stamp:
                # What it holds can't be judged, but the index must hold the same.
                (self._beyond if beyond(there.analyser) else self._faults.stale).add(memory_id)
                counts = keyword.counted(there.terms, there.counts)
                self._expect(memory_id, counts, there.length, beside)
            else:
                languages = self._analyser.languages_of(row.text, row.language)
                terms, words[memory_id] = self._analyser.analysed(row.indexed_text(self._analyser.languages), languages)
                self._expect(memory_id, Counter(terms), len(terms), beside)
                if there is None:
                    self._missing.add(memory_id)
                    continue
                if there.noted != keyword.noted(terms, languages):
                    self._faults.analysed.add(memory_id)
            if there.beside != " ".join(map(str, beside)):
                self._faults.beside.add(memory_id)
        self._look_for(words)

    def finish(self, every: "array[int]", entries: str) -> None:
        """Report what was found, and judge the index itself by the table of its entries.

        `every` are all memories, those left out too.
        """
        report, faults = self._report, self._faults
        report.checked["analysed"] = len(self._ids)
        for ids, what in (
            (self._missing, "not analysed"),
            (faults.analysed, f"not analysed as {it(len(faults.analysed))} should be"),
        ):
            if ids:
                report.damage("keyword", f"{some(ids)} {are(len(ids))} {what}", ids)
        faults.analysed |= self._missing
        for ids, whose, remedy in (
            (faults.stale, "an earlier memstore, or in other languages", "memstore reindex analyses them anew"),
            (self._beyond, "a later memstore", "upgrade memstore"),
        ):
            if ids:
                report.notice(
                    "keyword",
                    f"{number(len(ids), 'memory was', 'memories were')} analysed by {whose}, and words may miss them",
                    ids,
                    remedy=remedy,
                )
        if faults.beside:
            report.damage(
                "keyword",
                f"{some(faults.beside)} {have(len(faults.beside))} other neighbours in the index than in the thread",
                faults.beside,
            )
        if faults.words:
            report.damage(
                "keyword", f"the words of {some(faults.words)} are not all in the list of stems", faults.words
            )
        if not entries:
            self._unreadable("it is missing, or none")
            return
        try:
            self._index(entries, np.frombuffer(every, dtype=np.int64) if len(every) else np.zeros(0, np.int64))
        except (apsw.Error, UnicodeDecodeError) as error:
            self._unreadable(str(error))

    def _unreadable(self, why: str) -> None:
        self._faults.entries = True
        self._report.damage("keyword", f"the keyword index can't be read ({why})", count=1)

    def stems(self) -> None:
        """Judge the list of stems by what the stemmers say of each word."""
        count = 0
        for word, *said in self._conn.execute(
            # What another analysis said is not asked.
            "SELECT word, stems, folded, folded_stems FROM stems WHERE analyser = ?",
            (self._analyser.stamp,),
        ):
            count += 1
            if tuple(said) != stored_stems(self._learnt(word, self._analyser.languages)):
                self._faults.stems.add(word)
        self._report.checked["stems"] = count
        wrong = self._faults.stems
        if wrong:
            shown = ", ".join(sorted(wrong)[:5]) + (", …" if len(wrong) > 5 else "")
            self._report.damage(
                "keyword",
                f"{number(len(wrong), 'word', 'words')} ({shown}) {have(len(wrong))} other stems in the file than the"
                " stemmers give",
                count=len(wrong),
            )

    def _expect(self, memory_id: int, counts: Mapping[str, int], length: int, beside: Iterable[int]) -> None:
        self._ids.append(memory_id)
        self._own.append(sum(hash(one) * count for one, count in counts.items()) & _MASK)
        self._distinct.append(sum(map(hash, counts)) & _MASK)
        self._length.append(length & _MASK)
        self._different.append(len(counts))
        for other in beside:
            self._near.append(memory_id)
            self._other.append(other)

    def _look_for(self, words: dict[int, set[str]]) -> None:
        """Note the memories that have words which the list of stems lacks."""
        new = set[str]().union(*words.values()) - self._known_words
        there = {
            word
            for (word,) in all_rows(
                self._conn,
                "SELECT j.value FROM json_each(?) j JOIN stems s ON s.word = j.value AND s.analyser = ?",
                (json.dumps(list(new)), self._analyser.stamp),
            )
        }
        if len(self._known_words) > _MOST_WORDS_KNOWN:
            self._known_words = set()
        self._known_words |= there
        missing = new - there
        if missing:
            self._faults.words.update(one for one, own in words.items() if not own.isdisjoint(missing))

    def _index(self, entries: str, every: NDArray[np.int64]) -> None:
        ids = np.frombuffer(self._ids, dtype=np.int64) if self._ids else np.zeros(0, np.int64)
        near = _places(ids, np.frombuffer(self._near, dtype=np.int64)) if self._near else np.zeros(0, np.int64)
        other = _places(ids, np.frombuffer(self._other, dtype=np.int64)) if self._other else np.zeros(0, np.int64)
        # Beside one that can't be judged nothing can be: its terms are not known.
        judged = np.ones(len(ids), dtype=bool)
        judged[near[other < 0]] = False
        near, other = near[other >= 0], other[other >= 0]
        lent, lent_length = np.zeros(len(ids), np.uint64), np.zeros(len(ids), np.uint64)
        distinct, different = _unsigned(self._distinct), _unsigned(self._different)
        np.add.at(lent, near, distinct[other])
        np.add.at(lent_length, near, different[other])
        wanted = _unsigned(self._own) + lent * np.uint64(_COLUMNS["neighbours"])
        length = _unsigned(self._length)

        held, ghosts = self._held(entries, ids, every)
        sizes, ghosts_by_size = self._sizes(ids, every)
        nothing = sizes[:, 0] == _NO_SIZE
        wrong = judged & ~nothing & ((held != wanted) | (sizes[:, 0] != length) | (sizes[:, 1] != lent_length))
        report = self._report
        for where, what in (
            (nothing, "not in the keyword index"),
            (wrong, "otherwise in the keyword index than in the text"),
        ):
            found = ids[where].tolist()
            if found:
                report.damage("keyword", f"{some(found)} {are(len(found))} {what}", found)
        strangers = sorted(ghosts | ghosts_by_size)
        if strangers:
            report.damage(
                "keyword",
                f"the keyword index holds words of {some(strangers)} that {are(len(strangers))} not there",
                count=len(strangers),
            )
        averages = self._averages()
        totals = (len(ids), int(length.sum()), int(lent_length.sum()))
        uneven = bool(judged.all()) and len(ids) == len(every) and averages != totals
        if uneven and not (nothing.any() or wrong.any() or strangers):
            report.damage("keyword", "the keyword index counts its rows and words wrongly", count=1)
        if nothing.any() or wrong.any() or strangers or uneven:
            self._faults.entries = True

    def _held(self, table: str, ids: NDArray[np.int64], every: NDArray[np.int64]) -> tuple[Numbers, set[int]]:
        """Return the sums of all entries by memory, and the memories of entries that are not there."""
        sums = np.zeros(len(ids), np.uint64)
        ghosts: set[int] = set()
        entries = 0
        for docs, hashes in self._entries(table):
            entries += len(docs)
            at = _places(ids, docs)
            np.add.at(sums, at[at >= 0], hashes[at >= 0])
            unknown = docs[at < 0]
            ghosts.update(unknown[_places(every, unknown) < 0].tolist())
        self._report.checked["index entries"] = entries
        return sums, ghosts

    def _entries(self, table: str) -> Iterator[tuple[NDArray[np.int64], Numbers]]:
        docs, hashes = array("q"), array("Q")
        for one, doc, column in self._conn.execute(f"SELECT term, doc, col FROM {table}"):
            docs.append(doc)
            hashes.append((hash(one) * _COLUMNS[column]) & _MASK)
            if len(docs) >= _AT_ONCE:
                yield np.frombuffer(docs, np.int64), np.frombuffer(hashes, np.uint64)
                docs, hashes = array("q"), array("Q")
        if docs:
            yield np.frombuffer(docs, np.int64), np.frombuffer(hashes, np.uint64)

    def _sizes(self, ids: NDArray[np.int64], every: NDArray[np.int64]) -> tuple[Numbers, set[int]]:
        """Return how many entries the index notes of each memory by column, and the memories that are not there."""
        sizes = np.full((len(ids), 2), _NO_SIZE, np.uint64)
        ghosts: set[int] = set()
        rows = self._conn.execute("SELECT id, sz FROM memory_terms_docsize")
        while batch := list(islice(rows, _AT_ONCE)):
            docs = np.array([doc for doc, _ in batch], np.int64)
            at = _places(ids, docs)
            for place, (_, packed) in zip(at.tolist(), batch, strict=True):
                if place >= 0:
                    sizes[place] = (*_numbers(packed), 0, 0)[:2]
            unknown = docs[at < 0]
            ghosts.update(unknown[_places(every, unknown) < 0].tolist())
        return sizes, ghosts

    def _averages(self) -> tuple[int, ...]:
        """Return how many rows the index counts, and how many words in each column."""
        packed = one_value(self._conn, "SELECT block FROM memory_terms_data WHERE id = 1") or b""
        return (*_numbers(packed), 0, 0, 0)[:3]


_NO_SIZE = np.uint64(_MASK)


def stored_stems(known: Word) -> tuple[str, str | None, str | None]:
    """Return what the list of stems must say of a word: its stems, and its plain spelling with the stems of that."""
    plain = None if known.folded_stems is None else " ".join(known.folded_stems)
    return " ".join(known.stems), None if plain is None else term(known.spelling), plain


def check_counts(conn: apsw.Connection, report: Report, faults: Faults) -> None:
    """The counts that triggers keep are those of the tables."""
    told = all_rows(conn, "SELECT memories, terms, passages FROM statistics")
    counted = all_rows(
        conn,
        "SELECT (SELECT count(*) FROM analysed), (SELECT coalesce(sum(length), 0) FROM analysed),"
        " (SELECT count(*) FROM passages WHERE embedder_id IS NULL)",
    )
    by_space = all_rows(
        conn,
        "SELECT e.id, (SELECT count(*) FROM passage_vectors v JOIN passages p ON p.id = v.passage_id"
        " WHERE v.embedder_id = e.id AND p.embedder_id IS NULL) FROM embedders e ORDER BY e.id",
    )
    wrong = [
        what
        for what, stored, real in (
            ("memories, terms and passages", told, counted),
            (
                "the passages that each space has dealt with",
                all_rows(conn, "SELECT embedder_id, passages FROM space_statistics ORDER BY embedder_id"),
                by_space,
            ),
        )
        if stored != real
    ]
    faults.counts = bool(wrong)
    for what in wrong:
        report.damage("keyword", f"the file counts {what} wrongly", count=1, remedy=REBUILDS)


def _unsigned(values: "array[int]") -> Numbers:
    return np.frombuffer(values, dtype=np.uint64) if values else np.zeros(0, np.uint64)


def _places(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each wanted id stands in ascending ids, -1 where it does not."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[at] == wanted, at, -1)


def _numbers(packed: bytes) -> Iterator[int]:
    """Yield the numbers of a blob as FTS5 packs them: SQLite's varints (https://www.sqlite.org/fileformat2.html)."""
    value = length = 0
    for byte in packed:
        length += 1
        if length == 9:
            yield (value << 8) | byte
            value = length = 0
            continue
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            yield value
            value = length = 0
