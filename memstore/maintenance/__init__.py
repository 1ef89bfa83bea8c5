"""What keeps a file well: checks, repair, copies, forgetting."""

from memstore.maintenance.by_path import diagnose, mend
from memstore.maintenance.upkeep import Maintenance
from memstore.maintenance.verifying import Summary, summary

__all__ = ["Maintenance", "Summary", "diagnose", "mend", "summary"]
