"""A single-file SQLite memory store: keywords, vectors and entities, fused and explained."""

from memstore.analysis import Analysis, analyze
from memstore.embedding import Embedder
from memstore.entities import Recogniser
from memstore.errors import (
    BusyError,
    DamagedStoreError,
    EmbedderError,
    InvalidInputError,
    MemstoreError,
    NewerSchemaError,
    NotAStoreError,
    NotFoundError,
    ReadOnlyError,
    SignalUnavailableError,
    StorageError,
)
from memstore.ranking import BM25, TFIDF
from memstore.records import (
    Entity,
    Hit,
    ImportReport,
    Memory,
    NewMemory,
    Passage,
    SearchResult,
    SignalScore,
    Space,
    SparseVector,
    Stats,
    Term,
    Weights,
)
from memstore.store import MemoryStore

__version__ = "0.1.0"

__all__ = [
    "BM25",
    "TFIDF",
    "Analysis",
    "BusyError",
    "DamagedStoreError",
    "Embedder",
    "EmbedderError",
    "Entity",
    "Hit",
    "ImportReport",
    "InvalidInputError",
    "Memory",
    "MemoryStore",
    "MemstoreError",
    "NewMemory",
    "NewerSchemaError",
    "NotAStoreError",
    "NotFoundError",
    "Passage",
    "ReadOnlyError",
    "Recogniser",
    "SearchResult",
    "SignalScore",
    "SignalUnavailableError",
    "Space",
    "SparseVector",
    "Stats",
    "StorageError",
    "Term",
    "Weights",
    "analyze",
]
