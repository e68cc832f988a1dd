"""What applies to a request: YAML files, checked as a whole and compiled once.

Nouns: an *upstream* (an API behind the gateway, under a *mount*), a *route* (a pattern of method
and path with its settings), a *guard* (what a route asks of its calls), a *template* (how entity,
key and fence are read out of a request), a *reading* (one template, or several that must agree), a
*caller* (who makes calls, by a token), a *profile* (what is known of a kind of upstream), the
*policies* (all of it, and the way from a target to what applies), a *problem* (what is wrong in a
file, where, and what would be right).

`load` reads a folder of files and raises `PolicyError` with every problem in them; `check` says all
that it found, warnings too.
"""

from fencegate.policy.callers import Caller, Callers
from fencegate.policy.codes import CODES, Code, Severity
from fencegate.policy.domains import FromHeader
from fencegate.policy.identity import identities
from fencegate.policy.injected import Outside
from fencegate.policy.loading import Checked, check, load
from fencegate.policy.problems import Place, PolicyError, Problem, as_json
from fencegate.policy.routes import (
    Finding,
    Found,
    GatewaySettings,
    Guard,
    Limit,
    Mode,
    NoRoute,
    Passed,
    PathAmbiguous,
    Policies,
    Route,
    Unmatched,
    Upstream,
)
from fencegate.policy.sources import Absent, Seen
from fencegate.policy.templates import Reading, Template
from fencegate.policy.tls import Tls
from fencegate.policy.units import duration

__all__ = [
    "CODES",
    "Absent",
    "Caller",
    "Callers",
    "Checked",
    "Code",
    "Finding",
    "Found",
    "FromHeader",
    "GatewaySettings",
    "Guard",
    "Limit",
    "Mode",
    "NoRoute",
    "Outside",
    "Passed",
    "PathAmbiguous",
    "Place",
    "Policies",
    "PolicyError",
    "Problem",
    "Reading",
    "Route",
    "Seen",
    "Severity",
    "Template",
    "Tls",
    "Unmatched",
    "Upstream",
    "as_json",
    "check",
    "duration",
    "identities",
    "load",
]
