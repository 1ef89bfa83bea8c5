-- The memstore file, schema 6. This is the only place with DDL, but for the vector tables at the end, and for what
-- brings a file of an earlier schema to this one (memstore/database/migrations.py): it makes the same tables.
--
-- Source of truth: memories, tags, uses, the given rows of memory_entities, entity_terms, vocabulary, embedders and
-- the vectors.
-- All else is a cache of those and can be rebuilt; each such table says so.
-- Times are text, UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`, so that they sort as they read.

CREATE TABLE meta (             -- schema, languages
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Cache. How many memories are analysed, how many terms they have together, and how many passages there are for every
-- space; one row, kept by triggers of `analysed` and `passages`.
CREATE TABLE statistics (
    memories INTEGER NOT NULL,
    terms    INTEGER NOT NULL,
    passages INTEGER NOT NULL
) STRICT;
INSERT INTO statistics VALUES (0, 0, 0);

CREATE TABLE memories (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,   -- never reused
    key            TEXT,                                -- the caller's name for it, unique in its namespace
    namespace      TEXT NOT NULL,
    text           TEXT NOT NULL,
    author         TEXT,
    thread         TEXT,
    position       REAL,                                -- order in the thread
    language       TEXT,                                -- as given by the caller; else NULL
    created_at     TEXT NOT NULL,                       -- when it happened
    created_offset INTEGER,                             -- minutes east of UTC of a date the caller gave; else NULL
    updated_at     TEXT NOT NULL,
    expires_at     TEXT,
    metadata       TEXT NOT NULL CHECK (json_type(metadata) = 'object'),
    pinned         INTEGER NOT NULL DEFAULT 0,
    replaces       INTEGER,                             -- the memory that this one supersedes; it may be gone since
    content_hash   BLOB NOT NULL,                       -- of namespace, author, thread and normalised text: the identity
    row_hash       BLOB NOT NULL                        -- of all the fields above and the tags: a check against damage
) STRICT;
CREATE UNIQUE INDEX memories_key ON memories (namespace, key) WHERE key IS NOT NULL;
CREATE INDEX memories_content ON memories (content_hash);
CREATE INDEX memories_thread ON memories (namespace, thread, position) WHERE thread IS NOT NULL;
CREATE INDEX memories_created ON memories (created_at);
CREATE INDEX memories_updated ON memories (updated_at);
CREATE INDEX memories_replaces ON memories (replaces) WHERE replaces IS NOT NULL;
CREATE INDEX memories_expires ON memories (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE tags (
    memory_id INTEGER NOT NULL REFERENCES memories (id),
    tag       TEXT NOT NULL,
    PRIMARY KEY (memory_id, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_tag ON tags (tag, memory_id);

-- How often a memory reached its reader, as the caller reported it. It is no part of the row's hash: being read does
-- not change a memory, and noting it must not rewrite its row.
CREATE TABLE uses (
    memory_id    INTEGER PRIMARY KEY REFERENCES memories (id),
    times        INTEGER NOT NULL,
    last_used_at TEXT NOT NULL
) STRICT;

-- Cache. The spans of a memory's text that embedders see, in characters; start included, stop not. Where a model can't
-- read a whole passage, its space has pieces of it: passages of that space alone.
CREATE TABLE passages (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,      -- never reused: it names vectors
    memory_id   INTEGER NOT NULL REFERENCES memories (id),
    start       INTEGER NOT NULL,
    stop        INTEGER NOT NULL,
    embedder_id INTEGER                                 -- the space of a piece; else NULL: a passage of every space
) STRICT;
CREATE INDEX passages_memory ON passages (memory_id);
CREATE INDEX passages_pieces ON passages (embedder_id) WHERE embedder_id IS NOT NULL;

-- Cache. A memory's distinct terms, parted by spaces, the most frequent first, with the counts of those that stand
-- there more than once, and how many terms it has in all: what BM25 counts, and what the row of a neighbour is rewritten
-- from without analysing again; the languages they were analysed in; the ids of the memories beside it in its thread (two
-- before, two after), as its row of the index was made; and the analyser that made the terms: its version and the file's
-- languages then (`2 pt en es`). A row of another analyser than the program's is stale: a query may miss it.
CREATE TABLE analysed (
    memory_id INTEGER PRIMARY KEY REFERENCES memories (id),
    languages TEXT NOT NULL,
    length    INTEGER NOT NULL,
    terms     TEXT NOT NULL,
    counts    TEXT NOT NULL,
    beside    TEXT NOT NULL DEFAULT '',
    analyser  TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX analysed_analyser ON analysed (analyser);
CREATE TRIGGER analysed_added AFTER INSERT ON analysed BEGIN
    UPDATE statistics SET memories = memories + 1, terms = terms + new.length;
END;
CREATE TRIGGER analysed_changed AFTER UPDATE OF length ON analysed BEGIN
    UPDATE statistics SET terms = terms - old.length + new.length;
END;
CREATE TRIGGER analysed_removed AFTER DELETE ON analysed BEGIN
    UPDATE statistics SET memories = memories - 1, terms = terms - old.length;
END;

-- Cache. What the stemmers said of each word that memories hold: its stem in each of the file's languages, parted by
-- spaces, and those of its spelling without accents where that is another. A search need not load the stemmers then. What
-- another analyser said is not asked.
CREATE TABLE stems (
    word         TEXT PRIMARY KEY,
    stems        TEXT NOT NULL,
    folded       TEXT,
    folded_stems TEXT,
    analyser     TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX stems_folded ON stems (folded) WHERE folded IS NOT NULL;

-- The number of each term in sparse vectors, given when it is first asked for and never given to another.
CREATE TABLE vocabulary (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    term TEXT NOT NULL UNIQUE
) STRICT;

-- Cache. The inverted index: rowid is the memory's id. Terms arrive analysed and parted by spaces, so the tokenizer
-- splits at ASCII white space only and keeps all punctuation.
CREATE VIRTUAL TABLE memory_terms USING fts5 (
    terms,
    neighbours,                                         -- terms of the memories beside it in its thread
    content = '',
    contentless_delete = 1,
    tokenize = 'ascii tokenchars ''!"#$%&''''()*+,-./:;<=>?@[\]^_`{|}~'''
);

-- In how many memories each term stands, by column.
CREATE VIRTUAL TABLE memory_terms_count USING fts5vocab (memory_terms, col);

CREATE TABLE entities (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    key  TEXT NOT NULL UNIQUE,                          -- the name without case and accents
    name TEXT NOT NULL,
    kind TEXT NOT NULL
) STRICT;

-- Cache but for the given rows: those came from the caller. A capital that opens a sentence may be no name: such a
-- mention is in doubt, and counts only where another memory mentions the entity without doubt.
CREATE TABLE memory_entities (
    memory_id INTEGER NOT NULL REFERENCES memories (id),
    entity_id INTEGER NOT NULL REFERENCES entities (id),
    given     INTEGER NOT NULL DEFAULT 0,
    doubtful  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (memory_id, entity_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_entities_entity ON memory_entities (entity_id, doubtful, memory_id);

-- The user's own list: every spelling (the name and its aliases) of each known term.
CREATE TABLE entity_terms (
    key      TEXT PRIMARY KEY,                          -- the spelling without case and accents
    spelling TEXT NOT NULL,
    name     TEXT NOT NULL,
    kind     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX entity_terms_name ON entity_terms (name);

CREATE TABLE embedders (        -- one row for each embedding space
    id             INTEGER PRIMARY KEY AUTOINCREMENT,   -- never reused: it names the vector table
    name           TEXT NOT NULL UNIQUE,
    spec           TEXT,                                -- the string that opens the model again; NULL: an object of the caller's
    model_id       TEXT NOT NULL,
    dimensions     INTEGER NOT NULL,
    metric         TEXT NOT NULL DEFAULT 'cosine',
    query_prefix   TEXT NOT NULL DEFAULT '',
    passage_prefix TEXT NOT NULL DEFAULT '',
    pooling        TEXT NOT NULL DEFAULT '',
    fingerprint    BLOB NOT NULL,                       -- float32 vector of one fixed sentence
    background     BLOB NOT NULL DEFAULT x'',           -- float32 vectors of plain sentences, one after the other
    languages      TEXT NOT NULL DEFAULT '',            -- those whose queries it is asked, parted by spaces; none: all
    state          TEXT NOT NULL,                       -- 'ready': can be searched; 'filling': not yet
    searched       INTEGER NOT NULL DEFAULT 1           -- 1: asked by a search that names no space
) STRICT;

-- Weights that were tuned for the memories of this file, by the name of their profile.
CREATE TABLE profiles (
    name    TEXT PRIMARY KEY,
    weights TEXT NOT NULL CHECK (json_type(weights) = 'object')
) STRICT, WITHOUT ROWID;

-- Which passage has which vector in which space. It is readable where the vectors are not (no extension), and a row
-- without its passage names a vector that is still to be removed.
CREATE TABLE passage_vectors (
    embedder_id INTEGER NOT NULL REFERENCES embedders (id),
    passage_id  INTEGER NOT NULL,
    text_hash   BLOB NOT NULL,                          -- of the text that was embedded
    vector_hash BLOB,                                   -- of the vector's bytes; NULL: it has none here
    pieces      INTEGER NOT NULL DEFAULT 0,             -- how many pieces stand for it; 0 without a vector: refused
    PRIMARY KEY (embedder_id, passage_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX passage_vectors_text ON passage_vectors (embedder_id, text_hash);

-- Cache. How many of the passages of every space each space has dealt with: what is left of them waits. Kept by triggers.
CREATE TABLE space_statistics (
    embedder_id INTEGER PRIMARY KEY REFERENCES embedders (id),
    passages    INTEGER NOT NULL
) STRICT;
CREATE TRIGGER embedders_added AFTER INSERT ON embedders BEGIN
    INSERT INTO space_statistics VALUES (new.id, 0);
END;
CREATE TRIGGER embedders_removed BEFORE DELETE ON embedders BEGIN
    DELETE FROM space_statistics WHERE embedder_id = old.id;
END;
CREATE TRIGGER passages_added AFTER INSERT ON passages WHEN new.embedder_id IS NULL BEGIN
    UPDATE statistics SET passages = passages + 1;
END;
CREATE TRIGGER passages_removed AFTER DELETE ON passages WHEN old.embedder_id IS NULL BEGIN
    UPDATE statistics SET passages = passages - 1;
    UPDATE space_statistics SET passages = passages - 1 WHERE EXISTS
        (SELECT 1 FROM passage_vectors v WHERE v.embedder_id = space_statistics.embedder_id AND v.passage_id = old.id);
END;
CREATE TRIGGER passage_vectors_added AFTER INSERT ON passage_vectors
WHEN EXISTS (SELECT 1 FROM passages p WHERE p.id = new.passage_id AND p.embedder_id IS NULL) BEGIN
    UPDATE space_statistics SET passages = passages + 1 WHERE embedder_id = new.embedder_id;
END;
CREATE TRIGGER passage_vectors_removed AFTER DELETE ON passage_vectors
WHEN EXISTS (SELECT 1 FROM passages p WHERE p.id = old.passage_id AND p.embedder_id IS NULL) BEGIN
    UPDATE space_statistics SET passages = passages - 1 WHERE embedder_id = old.embedder_id;
END;

-- Each embedding space <n> has its own table of vectors, made by memstore/semantic.py when the space is added, since
-- its width is not known before:
--     CREATE VIRTUAL TABLE vectors_<n> USING vec0 (embedding FLOAT[<dimensions>] DISTANCE_METRIC=cosine);
-- Its rowid is the passage's id.
