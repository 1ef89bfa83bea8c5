"""Faults planted in a file by SQL, past memstore: what doctor must name and a repair must mend."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
from conftest import FakeEmbedder

from memstore import MemoryStore, NewMemory
from memstore.database.extension import find_extension

LONG = " ".join(f"This is sentence {n} of a long text about Maria da Silva." for n in range(35))
WRITTEN = [
    NewMemory(text="falei com Maria da Silva e Beto", author="Ana", thread="talk", tags=["a", "b"]),
    NewMemory(text="a reunião ficou para sexta", author="Beto", thread="talk", metadata={"n": 1}),
    NewMemory(text="e o orçamento da padaria?", author="Ana", thread="talk"),
    NewMemory(text="ERR-4018 means that the card has expired", key="card", tags=["a"]),
    NewMemory(text=LONG, entities=["Projeto X"]),
    NewMemory(text="we met Rita Lima in São Paulo", created_at="2023-05-08T10:00:00+00:00"),
]


def made(path: Path, embedder=None) -> None:
    """Make a store with a memory of each kind."""
    with MemoryStore(path, embedder=FakeEmbedder() if embedder is None else embedder) as store:
        store.terms.add("Rita Lima", kind="person", aliases=["Rita"])
        store.add_many(WRITTEN)
        store.mark_used([1, 2])


def plant(path: Path, *statements: str | Callable[[apsw.Connection], None]) -> None:
    """Change a file by SQL, as another program could."""
    conn = apsw.Connection(str(path))
    conn.enable_load_extension(True)
    conn.load_extension(find_extension())
    try:
        for one in statements:
            if callable(one):
                one(conn)
            else:
                conn.execute(one)
    finally:
        conn.close()


def flip_vector(conn: apsw.Connection) -> None:
    """Flip a bit of the vector of the second passage, where sqlite-vec keeps it."""
    (content,) = conn.execute("SELECT vectors FROM vectors_1_vector_chunks00").fetchone()
    changed = bytearray(content)
    changed[8 * 4 + 2] ^= 1
    conn.execute("UPDATE vectors_1_vector_chunks00 SET vectors = ?", (bytes(changed),))


def zero_vector(conn: apsw.Connection) -> None:
    """Store a vector of zeros, noted as if that were what the model gave."""
    from memstore.checks import digest

    nothing = bytes(8 * 4)
    (content,) = conn.execute("SELECT vectors FROM vectors_1_vector_chunks00").fetchone()
    conn.execute("UPDATE vectors_1_vector_chunks00 SET vectors = ?", (nothing + content[len(nothing) :],))
    conn.execute("UPDATE passage_vectors SET vector_hash = ? WHERE passage_id = 1", (digest(nothing),))


def hollow_chunk(conn: apsw.Connection) -> None:
    """Take the last vectors of a chunk away, so that it is shorter than sqlite-vec believes."""
    conn.execute("UPDATE vectors_1_vector_chunks00 SET vectors = substr(vectors, 1, 5 * 32)")


def unlisted_row(conn: apsw.Connection) -> None:
    """Mark a place of a chunk as taken by a row that is in no list."""
    (validity, rowids) = conn.execute("SELECT validity, rowids FROM vectors_1_chunks").fetchone()
    bits, rows = bytearray(validity), bytearray(rowids)
    bits[100] |= 1
    rows[800 * 8 : 801 * 8] = struct.pack("<q", 4_000)
    conn.execute("UPDATE vectors_1_chunks SET validity = ?, rowids = ?", (bytes(bits), bytes(rows)))


def schema_row(sql: str) -> Callable[[apsw.Connection], None]:
    """Change the schema itself, past all checks."""

    def change(conn: apsw.Connection) -> None:
        conn.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        conn.execute("PRAGMA writable_schema = 1")
        conn.execute(sql)
        conn.execute("PRAGMA schema_version = 4711")
        conn.execute("PRAGMA writable_schema = 0")

    return change


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is planted, the part and the sentence that name it, and the memories in the finding."""

    planted: tuple[str | Callable[[apsw.Connection], None], ...]
    part: str
    says: str
    memories: tuple[int, ...] = ()


# Whatever is in here a repair makes again, without losing a memory.
FAULTS = {
    "FTS data wiped": Fault(
        planted=("DELETE FROM memory_terms_data",), part="keyword", says="the keyword index can't be read"
    ),
    "FTS sizes wiped": Fault(
        planted=("DELETE FROM memory_terms_docsize",),
        part="keyword",
        says=r"6 memories \(1, 2, 3, 4, 5, 6\) are not in the keyword index$",
        memories=(1, 2, 3, 4, 5, 6),
    ),
    "FTS shadow table dropped": Fault(
        planted=("DROP TABLE memory_terms_idx",), part="schema", says="the table memory_terms_idx is missing"
    ),
    "FTS table dropped": Fault(
        planted=("DROP TABLE memory_terms",), part="schema", says="the table memory_terms is missing"
    ),
    "row missing in FTS": Fault(
        planted=("DELETE FROM memory_terms WHERE rowid IN (2, 4)",),
        part="keyword",
        says=r"2 memories \(2, 4\) are not in the keyword index$",
        memories=(2, 4),
    ),
    "other words in FTS": Fault(
        planted=(
            "INSERT OR REPLACE INTO memory_terms (rowid, terms, neighbours) VALUES (4, 'err expired expired', '')",
        ),
        part="keyword",
        says=r"1 memory \(4\) is otherwise in the keyword index than in the text",
        memories=(4,),
    ),
    "other words beside in FTS": Fault(
        planted=(
            "INSERT OR REPLACE INTO memory_terms (rowid, terms, neighbours)"
            " SELECT 4, terms, 'card' FROM analysed WHERE memory_id = 4",
        ),
        part="keyword",
        says=r"1 memory \(4\) is otherwise in the keyword index than in the text",
        memories=(4,),
    ),
    "ghost in FTS": Fault(
        planted=("INSERT INTO memory_terms (rowid, terms, neighbours) VALUES (99, 'segredo', '')",),
        part="keyword",
        says=r"the keyword index holds words of 1 memory \(99\) that is not there",
    ),
    "FTS averages off": Fault(
        planted=("UPDATE memory_terms_data SET block = x'0a0505' WHERE id = 1",),
        part="keyword",
        says="the keyword index",
    ),
    "not analysed": Fault(
        planted=("DELETE FROM analysed WHERE memory_id = 3",),
        part="keyword",
        says=r"1 memory \(3\) is not analysed",
        memories=(3,),
    ),
    "all analysed wiped": Fault(
        planted=("DELETE FROM analysed",),
        part="keyword",
        says="6 memories .* are not analysed",
        memories=(1, 2, 3, 4, 5, 6),
    ),
    "terms changed": Fault(
        planted=("UPDATE analysed SET terms = replace(terms, 'err-4018', 'err-4019') WHERE memory_id = 4",),
        part="keyword",
        says=r"1 memory \(4\) is not analysed as it should be",
        memories=(4,),
    ),
    "count of terms changed": Fault(
        planted=("UPDATE analysed SET length = length + 7 WHERE memory_id = 1",),
        part="keyword",
        says=r"1 memory \(1\) is not analysed as it should be",
        memories=(1,),
    ),
    "neighbours changed": Fault(
        planted=("UPDATE analysed SET beside = '4 5' WHERE memory_id = 2",),
        part="keyword",
        says=r"1 memory \(2\) has other neighbours",
        memories=(2,),
    ),
    "analysed of no memory": Fault(
        planted=(
            "PRAGMA foreign_keys = 0",
            "INSERT INTO analysed VALUES (99, 'pt', 1, 'segredo', '', '', '2 pt en es')",
        ),
        part="memories",
        says="1 row of analysed belongs to nothing in memories",
    ),
    "analysed dropped": Fault(planted=("DROP TABLE analysed",), part="schema", says="the table analysed is missing"),
    "stem changed": Fault(
        planted=("UPDATE stems SET stems = 'x y z' WHERE word = 'reunião'",),
        part="keyword",
        says=r"1 word \(reunião\) has other stems",
    ),
    "stems wiped": Fault(
        planted=("DELETE FROM stems WHERE word = 'orçamento'",),
        part="keyword",
        says=r"the words of 1 memory \(3\) are not all in the list of stems",
        memories=(3,),
    ),
    "statistics off": Fault(
        planted=("UPDATE statistics SET terms = terms + 1",),
        part="keyword",
        says="the file counts memories, terms and passages wrongly",
    ),
    "statistics wiped": Fault(
        planted=("DELETE FROM statistics",), part="keyword", says="the file counts memories, terms and passages wrongly"
    ),
    "statistics of a space off": Fault(
        planted=("UPDATE space_statistics SET passages = 2",),
        part="keyword",
        says="the file counts the passages that each space has dealt with wrongly",
    ),
    "trigger dropped": Fault(
        planted=("DROP TRIGGER passages_added",), part="schema", says="the trigger passages_added is missing"
    ),
    "trigger changed": Fault(
        planted=(
            "DROP TRIGGER passages_added",
            "CREATE TRIGGER passages_added AFTER INSERT ON passages BEGIN SELECT 1; END",
        ),
        part="schema",
        says="the trigger passages_added is not as it was made",
    ),
    "index dropped": Fault(planted=("DROP INDEX tags_tag",), part="schema", says="the index tags_tag is missing"),
    "table changed": Fault(
        planted=("ALTER TABLE stems ADD COLUMN more TEXT",), part="schema", says="the table stems is not as it was made"
    ),
    "index changed": Fault(
        planted=("DROP INDEX memories_content", "CREATE INDEX memories_content ON memories (created_at)"),
        part="schema",
        says="the index memories_content is not as it was made",
    ),
    "row missing in an index": Fault(
        planted=(
            schema_row(
                "UPDATE sqlite_schema SET sql = replace(sql, '(tag, memory_id)', '(tag, memory_id) WHERE tag <> ''a''')"
                " WHERE name = 'tags_tag'"
            ),
            "REINDEX tags_tag",
            schema_row(
                "UPDATE sqlite_schema SET sql = replace(sql, ' WHERE tag <> ''a''', '') WHERE name = 'tags_tag'"
            ),
        ),
        part="file",
        says="SQLite finds .* in tags_tag",
    ),
    "sequence of ids lost": Fault(
        planted=("DELETE FROM sqlite_sequence",), part="schema", says="ids of memories would be given again"
    ),
    "content hash changed": Fault(
        planted=("UPDATE memories SET content_hash = zeroblob(16) WHERE id = 2",),
        part="memories",
        says=r"1 memory \(2\) has the wrong mark",
        memories=(2,),
    ),
    "tag of no memory": Fault(
        planted=("PRAGMA foreign_keys = 0", "INSERT INTO tags VALUES (99, 'a')"),
        part="memories",
        says="1 row of tags belongs to nothing in memories",
    ),
    "use of no memory": Fault(
        planted=("PRAGMA foreign_keys = 0", "INSERT INTO uses VALUES (99, 1, '2024-01-01T00:00:00.000000Z')"),
        part="memories",
        says="1 row of uses belongs to nothing in memories",
    ),
    "senseless use": Fault(
        planted=("UPDATE uses SET last_used_at = 'yesterday' WHERE memory_id = 2",),
        part="memories",
        says=r"what is noted of the uses of 1 memory \(2\) makes no sense",
        memories=(2,),
    ),
    "link removed": Fault(
        planted=("DELETE FROM memory_entities WHERE memory_id = 6",),
        part="entity",
        says=r"1 memory \(6\) is not linked to the names in its text",
        memories=(6,),
    ),
    "link added": Fault(
        planted=("INSERT INTO memory_entities SELECT 2, id, 0, 0 FROM entities WHERE name = 'Maria da Silva'",),
        part="entity",
        says=r"1 memory \(2\) is not linked to the names in its text",
        memories=(2,),
    ),
    "link put in doubt": Fault(
        planted=("UPDATE memory_entities SET doubtful = 1 WHERE memory_id = 1",),
        part="entity",
        says=r"1 memory \(1\) is not linked to the names in its text",
        memories=(1,),
    ),
    "link to no entity": Fault(
        planted=(
            "PRAGMA foreign_keys = 0",
            "UPDATE memory_entities SET entity_id = entity_id + 900 WHERE memory_id = 1",
        ),
        part="memories",
        says="of memory_entities belongs? to nothing in entities",
    ),
    "entity of no memory": Fault(
        planted=("INSERT INTO entities (key, name, kind) VALUES ('ze', 'Zé', 'name')",),
        part="entity",
        says="1 entity is mentioned by no memory",
    ),
    "name of an entity changed": Fault(
        planted=("UPDATE entities SET name = 'Mario da Silva' WHERE name = 'Maria da Silva'",),
        part="entity",
        says=r"1 entity \(\d+\) has a name that is not the one it is known by",
    ),
    "key of an entity changed": Fault(
        planted=("UPDATE entities SET key = 'sao pedro' WHERE name = 'São Paulo'",),
        part="entity",
        says=r"1 entity \(\d+\) has a name that is not the one it is known by",
    ),
    "key of a known term changed": Fault(
        planted=("UPDATE entity_terms SET key = 'zita' WHERE spelling = 'Rita'",),
        part="entity",
        says=r"1 known spelling \(Rita\) can't be found by its key",
    ),
    "passages wiped": Fault(
        planted=("DELETE FROM passages",),
        part="passages",
        says="6 memories .* are not cut into passages as they should be",
        memories=(1, 2, 3, 4, 5, 6),
    ),
    "passage changed": Fault(
        planted=("UPDATE passages SET stop = stop - 3 WHERE memory_id = 4",),
        part="passages",
        says=r"1 memory \(4\) is not cut into passages as it should be",
        memories=(4,),
    ),
    "passage too many": Fault(
        planted=("INSERT INTO passages (memory_id, start, stop) VALUES (4, 2, 5)",),
        part="passages",
        says=r"1 memory \(4\) is not cut into passages as it should be",
        memories=(4,),
    ),
    "vector of another text": Fault(
        planted=("UPDATE passage_vectors SET text_hash = zeroblob(16) WHERE passage_id = 2",),
        part="vectors",
        says=r"1 memory \(2\) has vectors in fake that were made of another text",
        memories=(2,),
    ),
    "bit of a vector flipped": Fault(
        planted=(flip_vector,),
        part="vectors",
        says="1 vector in fake is not as it was stored",
        memories=(2,),
    ),
    "vector of zeros": Fault(
        planted=(zero_vector,), part="vectors", says="1 vector in fake is of no use", memories=(1,)
    ),
    "vector lost": Fault(
        planted=("DELETE FROM vectors_1 WHERE rowid = 3",),
        part="vectors",
        says=r"1 memory \(3\) has lost vectors that fake should hold",
        memories=(3,),
    ),
    "vector noted for no passage": Fault(
        planted=("DELETE FROM passage_vectors WHERE passage_id = 3",),
        part="vectors",
        says="1 vector in fake is noted for no passage",
    ),
    "vectors wiped": Fault(
        planted=("DELETE FROM vectors_1_vector_chunks00",),
        part="vectors",
        says="the table of vectors of fake is broken: chunk 1 is not as long as it should be",
    ),
    "list of vectors wiped": Fault(
        planted=("DELETE FROM vectors_1_rowids",),
        part="vectors",
        says="the table of vectors of fake is broken: chunk 1 and the list of its vectors disagree",
    ),
    "vector table dropped": Fault(
        planted=("DROP TABLE vectors_1",), part="vectors", says="the table of vectors of fake is broken: .* is missing"
    ),
    "part of the vector table dropped": Fault(
        planted=("DROP TABLE vectors_1_chunks",),
        part="vectors",
        says="the table of vectors of fake is broken: vectors_1_chunks is missing",
    ),
    "chunk too short": Fault(
        planted=(hollow_chunk,),
        part="vectors",
        says="the table of vectors of fake is broken: chunk 1 is not as long as it should be",
    ),
    "chunk with a row that is in no list": Fault(
        planted=(unlisted_row,),
        part="vectors",
        says="the table of vectors of fake is broken: chunk 1 and the list of its vectors disagree",
    ),
    "table of no space": Fault(
        planted=("CREATE VIRTUAL TABLE vectors_7 USING vec0 (embedding FLOAT[4])",),
        part="schema",
        says="the table vectors_7 belongs to no embedding space",
    ),
}
