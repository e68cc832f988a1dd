"""One gateway process: policies, ledger, legs and its ports, wired and taken down in order.

Nouns: *serving* (from the first check to the last settlement), *ports* (the data port and the
admin port), *applied* (the policies that new calls are read by, and how others take their place).
"""

from fencegate.server.ports import CannotListen
from fencegate.server.serving import NotStarted, run, serve

__all__ = ["CannotListen", "NotStarted", "run", "serve"]
