"""What keeps a file well: checks, repair, copies, forgetting."""

from memstore.maintenance.upkeep import Maintenance

__all__ = ["Maintenance"]
