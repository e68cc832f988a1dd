"""fencegate: a fence-checking gateway for side-effect receivers.

core      the law: what is admitted, refused, replayed; how an outcome is settled
ledger    where high water and records are kept
policy    what applies to which request
gateway   the way of a call over HTTP
ops       what operators see
server    one process of all this
cli       the commands
"""

__version__ = "0.1.0"
