"""What a file has learnt of words, so that a search whose words it has seen need not load the stemmers."""

import json
from collections.abc import Iterable, Mapping

import apsw

from memstore.analysis import Word, term, word_of
from memstore.database import Database, all_rows, as_stored

_MOST_IN_MEMORY = 200_000


class Lexicon:
    """The words of one file with their stems in its languages; `lookup` and `respell` are what an analyser asks."""

    def __init__(self, database: Database, languages: tuple[str, ...]) -> None:
        self._database = database
        self._languages = languages
        self._known: dict[str, Word] = {}
        self._kept: set[str] = set()

    def lookup(self, spellings: Iterable[str]) -> Mapping[str, Word]:
        """Return what is known of spellings: from the file, else from the stemmers."""
        # Another thread may begin a new memory of words meanwhile: this one goes by what it found.
        known, found, missing = self._known, dict[str, Word](), set[str]()
        for one in spellings:
            if (word := known.get(one)) is not None:
                found[one] = word
            else:
                missing.add(one)
        if missing:
            new = self._read(missing)
            new |= {one: word_of(one, self._languages) for one in missing - new.keys()}
            if len(known) + len(new) > _MOST_IN_MEMORY:
                known = self._known = {}
            known.update(new)
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

    def keep(self, conn: apsw.Connection, spellings: Iterable[str]) -> set[str]:
        """Write what is known of the words of memories into the file; return those that were new to it."""
        new = {one for one in spellings if one not in self._kept}
        known = self.lookup(new)
        conn.executemany(
            "INSERT OR IGNORE INTO stems (word, stems, folded, folded_stems) VALUES (?, ?, ?, ?)",
            [
                (
                    one.spelling,
                    " ".join(one.stems),
                    None if one.folded_stems is None else term(one.spelling),
                    None if one.folded_stems is None else " ".join(one.folded_stems),
                )
                for one in known.values()
            ],
        )
        return new

    def kept(self, spellings: set[str]) -> None:
        """Note that words are in the file, once the transaction of `keep` is."""
        if len(self._kept) + len(spellings) > _MOST_IN_MEMORY:
            self._kept = set()
        self._kept.update(spellings)

    def _read(self, spellings: set[str]) -> dict[str, Word]:
        wanted = json.dumps(list(spellings))
        with self._database.read() as conn:
            rows = all_rows(
                conn,
                "SELECT word, stems, folded, folded_stems FROM stems WHERE word IN (SELECT value FROM json_each(?1))"
                " OR folded IN (SELECT value FROM json_each(?1))",
                (wanted,),
            )
        found: dict[str, Word] = {}
        languages = len(self._languages)
        for word, stems, folded, folded_stems in rows:
            with as_stored("the cache of stems"):
                plain = None if folded_stems is None else tuple(folded_stems.split(" "))
                found[word] = Word(spelling=word, stems=tuple(stems.split(" ")), folded_stems=plain)
                if len(found[word].stems) != languages or (plain is not None and len(plain) != languages):
                    raise ValueError(f"{word!r} has not one stem a language")
                if plain is not None:
                    found.setdefault(folded, Word(spelling=folded, stems=plain, folded_stems=None))
        return {one: found[one] for one in spellings & found.keys()}
