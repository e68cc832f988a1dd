"""The leg to an upstream: HTTP/1.1, one attempt a call, and every end of it is a value.

A *leg* takes a connection from its pool, or makes one; checks the attempt's hold just before the
first byte; writes once; and answers with the upstream's complete `Answer`, with `NotSent` where
provably no byte was written, or with `OutcomeUnknown`. Nothing is ever resent, followed, decoded
or remembered between calls.
"""

from fencegate.gateway.upstream.leg import Leg, LegSettings, MayWrite, Outgoing

__all__ = ["Leg", "LegSettings", "MayWrite", "Outgoing"]
