"""Where the library of sqlite-vec is."""

import importlib.util
import os

from memstore.errors import MemstoreError


def find_extension() -> str | MemstoreError:
    """Return the path of sqlite-vec's library, without importing its package."""
    found = importlib.util.find_spec("sqlite_vec")
    if found is None or not found.submodule_search_locations:
        return MemstoreError("sqlite-vec is not installed; pip install sqlite-vec")
    return os.path.join(found.submodule_search_locations[0], "vec0")
