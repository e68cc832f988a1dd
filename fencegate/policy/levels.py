"""Where a route's settings may stand: in the route, in its upstream, in the gateway's defaults.

The nearest of each wins. A problem with a setting points at the place where it is stated, which
may be in another file than the route.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from fencegate.policy.documents import Document, Loc, Problem
from fencegate.policy.model import (
    GatewayFile,
    RouteSection,
    RouteSettings,
    Section,
    UpstreamFile,
    UpstreamSection,
)
from fencegate.policy.shape import example_of

F = TypeVar("F", bound=Section, covariant=True)


@dataclass(frozen=True, slots=True)
class Fitted(Generic[F]):
    """A file that has its model's shape."""

    document: Document
    model: F

    def problem(self, loc: Loc, wrong: str, *, example: str | None = None) -> Problem:
        shown = example or example_of(type(self.model), loc)
        return Problem(self.document.place(loc), wrong, shown)


@dataclass(frozen=True, slots=True)
class Levels:
    """One route and the places where its settings may stand."""

    gateway: Fitted[GatewayFile]
    file: Fitted[UpstreamFile]
    number: int

    @property
    def section(self) -> RouteSection:
        return self.file.model.routes[self.number]

    @property
    def upstream(self) -> UpstreamSection:
        return self.file.model.upstream

    def settings(self) -> RouteSettings:
        return merged(self.section, self.upstream, self.gateway.model.defaults)

    def problem(self, key: str, wrong: str, *, example: str | None = None) -> Problem:
        """A problem with a setting, at the nearest place where it is stated."""
        if key in self.section.model_fields_set:
            return self.file.problem(("routes", self.number, key), wrong, example=example)
        if key in self.upstream.model_fields_set:
            return self.file.problem(("upstream", key), wrong, example=example)
        return self.gateway.problem(("defaults", key), wrong, example=example)


def merged(*nearest_first: RouteSettings) -> RouteSettings:
    """The nearest of each setting; what is stated nowhere holds by default."""
    stated = {}
    for settings in reversed(nearest_first):
        for key in settings.model_fields_set & RouteSettings.model_fields.keys():
            stated[key] = getattr(settings, key)
    return RouteSettings.model_construct(**stated)
