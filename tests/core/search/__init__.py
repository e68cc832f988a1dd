"""A search through every reachable state of a small model of the whole system.

Three calls go through two gateways to one upstream, over one ledger that runs the real law. A
scheduler may let them take their steps in any order, with crashes, lost acknowledgements, cuts,
pauses and late effects. `scenarios` says what is searched, `way` what one call may do next,
`world` puts the parts together, `invariants` are checked on every move, `explore` walks.
"""
