"""Text to vectors: the models that can be named, opened when first used, and checked on every answer."""

from memstore.embedding.endpoint import OpenAIEmbedder, asks_elsewhere
from memstore.embedding.function import from_function
from memstore.embedding.model import BATCH_TEXTS, FINGERPRINT_TEXT, Embedded, Embedder, Model, Vector
from memstore.embedding.naming import NAMES, Given, named, resolve, usual
from memstore.embedding.on_disk import first_on_disk
from memstore.embedding.references import REFERENCES, REFERENCES_EACH
from memstore.embedding.tokens import Tokens

__all__ = [
    "BATCH_TEXTS",
    "FINGERPRINT_TEXT",
    "NAMES",
    "REFERENCES",
    "REFERENCES_EACH",
    "Embedded",
    "Embedder",
    "Given",
    "Model",
    "OpenAIEmbedder",
    "Tokens",
    "Vector",
    "asks_elsewhere",
    "first_on_disk",
    "from_function",
    "named",
    "resolve",
    "usual",
]
