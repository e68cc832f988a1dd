"""Where a route's settings may stand: in the route, in its upstream, in the gateway's defaults.

The nearest of each wins. A problem with a setting points at the place where it is stated, which
may be in another file than the route.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fencegate.policy.codes import Code
from fencegate.policy.documents import Loc, Problem
from fencegate.policy.model import (
    GatewayFile,
    RouteSection,
    RouteSettings,
    UpstreamFile,
    UpstreamSection,
)
from fencegate.policy.shape import Fitted, example_of

__all__ = ["Fitted", "Levels", "merged"]


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

    def stated(self, key: str) -> bool:
        """Whether the setting stands in any of the places."""
        return self.place(key) is not None

    def place(self, key: str) -> tuple[Fitted[GatewayFile] | Fitted[UpstreamFile], Loc] | None:
        """The nearest place where the setting stands."""
        for file, above, section in self._places():
            if key in section.model_fields_set:
                return file, (*above, key)
        return None

    def spoilt(self, key: str) -> bool:
        """Whether it stood in any of them and could not be used."""
        return any(file.spoilt((*above, key)) for file, above, _ in self._places())

    def problem(
        self,
        key: str,
        wrong: str,
        *,
        example: str | None = None,
        code: Code = Code.WRONG_VALUE,
        hint: str = "",
        at_key: bool = False,
    ) -> Problem:
        """A problem with a setting, at the nearest place where it is stated; with one that is
        stated nowhere, at the route."""
        if (stated := self.place(key)) is not None:
            file, loc = stated
            return file.problem(loc, wrong, example=example, code=code, hint=hint, at_key=at_key)
        route = ("routes", self.number, "match")
        default = example_of(UpstreamFile, ("routes", self.number, key))
        shown = default if example is None else example
        return self.file.problem(route, wrong, example=shown, code=code, hint=hint)

    def _places(
        self,
    ) -> Iterator[tuple[Fitted[GatewayFile] | Fitted[UpstreamFile], Loc, RouteSettings]]:
        yield self.file, ("routes", self.number), self.section
        yield self.file, ("upstream",), self.upstream
        yield self.gateway, ("defaults",), self.gateway.model.defaults


def merged(*nearest_first: RouteSettings) -> RouteSettings:
    """The nearest of each setting; what is stated nowhere holds by default."""
    stated = {}
    for settings in reversed(nearest_first):
        for key in settings.model_fields_set & RouteSettings.model_fields.keys():
            stated[key] = getattr(settings, key)
    return _DEFAULTS.model_copy(update=stated)


_DEFAULTS = RouteSettings()  # made once: all routes share what they do not state
