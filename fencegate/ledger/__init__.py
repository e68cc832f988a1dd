"""Where high water and records are kept.

A *ledger* answers the verbs of `Ledger`; each is one atomic step by the ledger's own clock. A step
loads a snapshot, asks the law, and writes what the law returned (`steps`), over the *rows* of a
store: a dict (`memory`) or a database (`sqlite`). Who waits for a record or an entity *watches* it.
"""
