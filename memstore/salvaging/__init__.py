"""What is left of a damaged file, recovered into a new one."""

from memstore.salvaging.recovering import salvage

__all__ = ["salvage"]
