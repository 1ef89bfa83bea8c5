"""A single-file SQLite memory store: keywords, vectors and entities, fused and explained."""

from memstore.embedding import Embedder
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
    Stats,
    Term,
    Weights,
)
from memstore.store import MemoryStore

__version__ = "0.1.0"

__all__ = [
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
    "SearchResult",
    "SignalScore",
    "SignalUnavailableError",
    "Space",
    "Stats",
    "StorageError",
    "Term",
    "Weights",
]
