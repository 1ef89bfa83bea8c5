"""A single-file SQLite memory store: keywords, vectors and entities, fused and explained."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from memstore.face import *  # noqa: F403
    from memstore.face import __all__ as __all__
else:
    # A checker of types that saw this would take every misspelt name for one of ours.
    def __getattr__(name: str) -> Any:
        """Return a public name or a module; what stands behind the names is imported when the first is asked for.

        What needs none of them, such as the start of a server, does not wait for that.
        """
        if not name.isidentifier() or (name.startswith("__") and name != "__all__"):
            raise AttributeError(f"module 'memstore' has no attribute {name!r}")
        if find_spec(f"memstore.{name}") is not None:
            return import_module(f"memstore.{name}")
        face = import_module("memstore.face")
        try:
            found = getattr(face, name)
        except AttributeError:
            raise AttributeError(f"module 'memstore' has no attribute {name!r}") from None
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("memstore.face").__all__})
