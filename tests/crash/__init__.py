"""Crash runs of the real process, judged by the upstream's own log and the clients' answers.

A *kill point* is a step of the source at which a process may die or be stopped; they are derived
from the source, nobody keeps a list. A *strike* is a signal that a gateway sends itself at a
point. A *scenario* is a short story of calls; it is played once for every passage of every point
that it reaches, and a takeover follows: a successor repeats the keys, the old worker comes back.
The *checker* reads what the upstream and the clients saw, never the ledger.

`python -m tests.crash` prints the whole matrix.
"""
