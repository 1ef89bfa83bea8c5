"""What a file has learnt of words, so that a search whose words it has seen need not load the stemmers."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import apsw

from memstore.analysis import Word, stamp, term, word_of
from memstore.database import Database, all_rows, as_stored, one_value

_MOST_IN_MEMORY = 200_000
# In `meta`: how often words were taken out of the file, so that a process that had put some there knows of it.
_DROPPED = "words_dropped"


class Lexicon:
    """The words of one file with their stems; `lookup` and `respell` are what an analyser asks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # What is known in memory of one analysis; another analysis begins anew.
        self._words = _Words(made="")

    def lookup(self, spellings: Iterable[str], languages: tuple[str, ...]) -> Mapping[str, Word]:
        """Return what is known of spellings in some languages: from the file, else from the stemmers."""
        # Another thread may begin a new memory of words meanwhile: this one goes by what it found.
        words = self._of(languages)
        found, missing = dict[str, Word](), set[str]()
        for one in spellings:
            if (word := words.known.get(one)) is not None:
                found[one] = word
            else:
                missing.add(one)
        if missing:
            new = self._read(missing, words.made)
            new |= {one: word_of(one, languages) for one in missing - new.keys()}
            if len(words.known) + len(new) > _MOST_IN_MEMORY:
                words.known = {}
            words.known.update(new)
            found |= new
        return found

    def respell(self, spellings: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the accented spellings in the file of each word that the file does not have without accents."""
        wanted = json.dumps(list(spellings))
        with self._database.read() as conn:
            rows = all_rows(
                conn,
                "SELECT s.folded, s.word FROM json_each(?) j JOIN stems s ON s.folded = j.value WHERE NOT EXISTS"
                " (SELECT 1 FROM memory_terms_count c WHERE c.term = s.folded AND c.col = 'terms') ORDER BY s.word",
                (wanted,),
            )
        found: dict[str, tuple[str, ...]] = {}
        for folded, word in rows:
            found[folded] = (*found.get(folded, ()), word)
        return found

    def keep(self, conn: apsw.Connection, spellings: Iterable[str], languages: tuple[str, ...]) -> "Kept":
        """Write what is known of the words of memories into the file; return what to note with `kept` once it is there.

        What an earlier analysis said of them is replaced, what a later one said stays.
        """
        words = self._of(languages)
        dropped = one_value(conn, "SELECT value FROM meta WHERE key = ?", (_DROPPED,))
        if dropped != words.dropped:
            words.dropped, words.kept = dropped, set()
        new = {one for one in spellings if one not in words.kept}
        conn.executemany(
            "INSERT INTO stems (word, stems, folded, folded_stems, analyser) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (word) DO UPDATE SET stems = excluded.stems, folded = excluded.folded,"
            " folded_stems = excluded.folded_stems, analyser = excluded.analyser"
            f" WHERE analyser <> excluded.analyser AND {_version('stems.')} <= {_version('excluded.')}",
            [
                (
                    one.spelling,
                    " ".join(one.stems),
                    None if one.folded_stems is None else term(one.spelling),
                    None if one.folded_stems is None else " ".join(one.folded_stems),
                    words.made,
                )
                for one in self.lookup(new, languages).values()
            ],
        )
        return Kept(words=new, among=words.kept)

    @staticmethod
    def kept(written: Iterable["Kept"]) -> None:
        """Note that words are in the file, once the transaction of `keep` is."""
        for one in written:
            if len(one.among) + len(one.words) > _MOST_IN_MEMORY:
                one.among.clear()
            one.among.update(one.words)

    def forget(self) -> None:
        """Know only what the file says again, once that was mended."""
        self._words = _Words(made="")

    @staticmethod
    def forget_earlier(conn: apsw.Connection, made: str) -> None:
        """Take out what analyses earlier than this one said of words: no memory has them any more."""
        conn.execute(f"DELETE FROM stems WHERE analyser <> ?1 AND {_version()} <= CAST(?1 AS INTEGER)", (made,))

    def _of(self, languages: tuple[str, ...]) -> "_Words":
        words, made = self._words, stamp(languages)
        if words.made != made:
            words = self._words = _Words(made=made)
        return words

    def _read(self, spellings: set[str], made: str) -> dict[str, Word]:
        wanted = json.dumps(list(spellings))
        with self._database.read() as conn:
            rows = all_rows(
                conn,
                "SELECT word, stems, folded, folded_stems FROM stems WHERE analyser = ?2 AND"
                " (word IN (SELECT value FROM json_each(?1)) OR folded IN (SELECT value FROM json_each(?1)))",
                (wanted, made),
            )
        found: dict[str, Word] = {}
        languages = made.count(" ")
        for word, stems, folded, folded_stems in rows:
            with as_stored("the cache of stems"):
                plain = None if folded_stems is None else tuple(folded_stems.split(" "))
                found[word] = Word(spelling=word, stems=tuple(stems.split(" ")), folded_stems=plain)
                if len(found[word].stems) != languages or (plain is not None and len(plain) != languages):
                    raise ValueError(f"{word!r} has not one stem a language")
                if plain is not None:
                    found.setdefault(folded, Word(spelling=folded, stems=plain, folded_stems=None))
        return {one: found[one] for one in spellings & found.keys()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Words that a transaction has written, and the set of those in the file that they belong to then.

    That set is of no use any more where words were taken out of the file since: they may have been among these.
    """

    words: set[str]
    among: set[str]


@dataclass(slots=True, kw_only=True)
class _Words:
    """Words in memory as one analysis has them, and those of them that the file has too."""

    made: str
    known: dict[str, Word] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    dropped: str | None = None


def _version(row: str = "") -> str:
    """Return the SQL of the version of the analyser that made a row: the number that its name begins with."""
    return f"CAST({row}analyser AS INTEGER)"


def drop_unheld(conn: apsw.Connection) -> None:
    """Take the words that no memory holds any more out of the file."""
    conn.execute("DELETE FROM stems WHERE word NOT IN (SELECT term FROM memory_terms_count WHERE col = 'terms')")
    if conn.changes():
        conn.execute(
            "INSERT INTO meta (key, value) VALUES (?, '1') ON CONFLICT (key) DO UPDATE SET value = value + 1",
            (_DROPPED,),
        )
