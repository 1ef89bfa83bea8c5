"""What keeps a file well: checks, repair, copies, forgetting."""

from memstore.maintenance.by_path import diagnose, mend
from memstore.maintenance.upkeep import Maintenance

__all__ = ["Maintenance", "diagnose", "mend"]
