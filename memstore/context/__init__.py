"""What is remembered of a query as one block for a prompt: chosen, fenced, and never above its tokens."""

from memstore.context.building import Plan, build, plan
from memstore.context.formats import DEFAULT_FORMAT, DOUBT, FORMATS, NOTE, entry, fenced
from memstore.context.packing import DIVERSITY, ORDERS, Order
from memstore.context.tokenisers import NAMES, GivenTokeniser, Tokeniser, estimate, tokeniser

__all__ = [
    "DEFAULT_FORMAT",
    "DIVERSITY",
    "DOUBT",
    "FORMATS",
    "NAMES",
    "NOTE",
    "ORDERS",
    "GivenTokeniser",
    "Order",
    "Plan",
    "Tokeniser",
    "build",
    "entry",
    "estimate",
    "fenced",
    "plan",
    "tokeniser",
]
