"""What keeps a file well: checks, repair, copies, forgetting."""

from memstore.maintenance.upkeep import Maintenance
from memstore.maintenance.verifying import Summary, summary

__all__ = ["Maintenance", "Summary", "summary"]
