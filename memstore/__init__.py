"""A single-file SQLite memory store: keywords, vectors and entities, fused and explained."""

from memstore.analysis import Analysis, analyze
from memstore.embedding import Embedder, OpenAIEmbedder, from_function
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
    Answers,
    Comparison,
    Context,
    ContextItem,
    Entity,
    Filled,
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
    "Answers",
    "BusyError",
    "Comparison",
    "Context",
    "ContextItem",
    "DamagedStoreError",
    "Embedder",
    "EmbedderError",
    "Entity",
    "Filled",
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
    "OpenAIEmbedder",
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
    "from_function",
]
