"""The second stage of a search: the models that can be named, opened when first used, and checked on every answer."""

from memstore.rerank.model import Reranker, Second
from memstore.rerank.naming import NAMES, named

__all__ = ["NAMES", "Reranker", "Second", "named"]
