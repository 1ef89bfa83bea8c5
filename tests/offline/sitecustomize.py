"""What a Python that a test starts runs first: the block on the network, then this machine's own sitecustomize."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from network_block import block

block()
# This file stands before one that the distribution or the caller's PYTHONPATH may have.
_later = sys.path[sys.path.index(os.path.dirname(__file__)) + 1 :]
if (_own := PathFinder.find_spec("sitecustomize", _later)) and _own.loader:
    sys.modules["sitecustomize"] = module_from_spec(_own)
    _own.loader.exec_module(sys.modules["sitecustomize"])
