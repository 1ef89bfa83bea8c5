"""The command line."""

import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from memstore.cli.commands import cli as cli

__all__ = ["cli", "main"]


def main() -> NoReturn:
    """Run the command line; an agent waits for `mcp`, which starts without what the other commands need."""
    if sys.argv[1:2] == ["mcp"]:
        from memstore.cli.mcp import main as run
    else:
        from memstore.cli.commands import main as run
    run()


def __getattr__(name: str) -> Any:
    if name != "cli":
        raise AttributeError(f"module 'memstore.cli' has no attribute {name!r}")
    from memstore.cli.commands import cli

    return cli
