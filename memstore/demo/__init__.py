"""`memstore demo`: a store of real text in three languages, and questions of each kind to it."""

from memstore.demo.notes import NOTES, QUESTIONS
from memstore.demo.running import run, topics

__all__ = ["NOTES", "QUESTIONS", "run", "topics"]
