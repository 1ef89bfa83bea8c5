"""The command line."""

from memstore.cli.commands import cli, main

__all__ = ["cli", "main"]
