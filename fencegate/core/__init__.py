"""The law: what a call is, when it is admitted, how it ends. Standard library only.

Nouns: a *call* (entity, fence, key, fingerprint), the *snapshot* of what a ledger holds, a
*decision* (go, wait, replay, refuse), an *outcome*, a *settlement*. Identity is read by
`reading` and `fingerprint`. Nothing here awaits, asks a clock, draws a random number or logs:
times and numbers come in as parameters, and a rule returns what should become of the rows.
"""
