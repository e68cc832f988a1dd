"""The way of a call over HTTP: bytes, call, decision, outcome, settlement, reply.

`intake` reads the bytes of a request into an *order*: a call, and what to forward if it goes.
`exchange` is the whole way on one screen. `waiting` lets a call wait to be admitted again.
`holds` keeps the holds of open attempts. `settling` puts outcomes into the ledger. `replies` and
`problems` say what the client gets. `app` is the ASGI application around all this.
"""
