"""`memstore mcp`: the store for agents that speak the Model Context Protocol over standard input and output.

Importing it loads neither the SDK of the protocol nor the store.
"""

from memstore.mcp.configuration import CLIENTS, Configuration, configuration
from memstore.mcp.holding import Options
from memstore.mcp.serving import leave, serve

__all__ = ["CLIENTS", "Configuration", "Options", "configuration", "leave", "serve"]
