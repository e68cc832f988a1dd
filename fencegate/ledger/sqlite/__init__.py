"""The embedded ledger: one SQLite file, for one host.

A *writer* thread takes its *turn* among the processes that share the file, and commits everything
that is asked in the meantime in one transaction (WAL, `synchronous=FULL`): an answer is given only
after the commit. Readers have a connection of their own.
"""

from fencegate.ledger.sqlite.ledger import SqliteLedger, open_sqlite

__all__ = ["SqliteLedger", "open_sqlite"]
