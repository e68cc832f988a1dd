"""What applies to a request: YAML files, checked as a whole and compiled once.

Nouns: an *upstream* (an API behind the gateway, under a *mount*), a *route* (a pattern of method
and path with its settings), a *guard* (what a route asks of its calls), a *template* (how entity
and key are read out of a request), the *policies* (all of it, and the way from a target to what
applies), a *problem* (what is wrong in a file, where, and what would be right).

`load` reads a folder of files and raises `PolicyError` with every problem in them.
"""

from fencegate.policy.documents import Place, PolicyError, Problem
from fencegate.policy.loading import load
from fencegate.policy.routes import (
    Finding,
    Found,
    GatewaySettings,
    Guard,
    NoRoute,
    Passed,
    PathAmbiguous,
    Policies,
    Route,
    Unmatched,
    Upstream,
)
from fencegate.policy.templates import Template

__all__ = [
    "Finding",
    "Found",
    "GatewaySettings",
    "Guard",
    "NoRoute",
    "Passed",
    "PathAmbiguous",
    "Place",
    "Policies",
    "PolicyError",
    "Problem",
    "Route",
    "Template",
    "Unmatched",
    "Upstream",
    "load",
]
