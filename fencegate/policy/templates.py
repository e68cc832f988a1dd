"""Templates: how a route reads its entity, its key or its fence out of a request.

Text with placeholders (`sources.py`), or a list of such texts: all of them that are present must
agree. A template of several values can be taken apart in one way only, so that no two requests
share an entity by accident: `{a}:{b}` refuses an `a` that holds a colon.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from fencegate.core.reading import Malformed, fence_of_text, key_of_text, spell_entity
from fencegate.policy.sources import Absent, Placeholder, Seen, Source, placeholder

Spell = Callable[[str], str | Malformed]


@dataclass(frozen=True, slots=True, repr=False)
class Template:
    """Compiled once. `literals` is what stands before, between and after the placeholders."""

    text: str
    literals: tuple[str, ...]
    placeholders: tuple[Placeholder, ...]
    spell: Spell

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    @property
    def whole(self) -> Placeholder | None:
        """The one placeholder of a template that is nothing else: its value is read whole."""
        bare = len(self.placeholders) == 1 and self.literals == ("", "")
        return self.placeholders[0] if bare else None

    @property
    def captures(self) -> frozenset[str]:
        """What the route's pattern must capture."""
        return frozenset(hole.name for hole in self.placeholders if hole.source is Source.PATH)

    def render(self, seen: Seen, *, fold: bool = False) -> str | Absent | Malformed:
        """What the template makes of a request, in its one spelling; without case, if `fold`.

        Absent if one of its values is. Malformed is a clause of its own: which value, or the
        whole template, is what.
        """
        literals = tuple(map(str.casefold, self.literals)) if fold else self.literals
        filled = literals[0]
        for hole, after in zip(self.placeholders, literals[1:], strict=True):
            value = hole.read(seen)
            if isinstance(value, str) and fold:
                value = value.casefold()
            if isinstance(value, Absent):
                return value
            if isinstance(value, str) and self.whole is None:
                value = self._fit(value, after)
            if isinstance(value, Malformed):
                return Malformed(f"{hole} is {value.expected}")
            filled += value + after
        read = self.spell(filled)
        if isinstance(read, Malformed):
            return Malformed(f"{self.text} is {read.expected}")
        if read != filled and self.whole is None:
            return Malformed(f"{self.text} is changed by its values; send plain texts")
        return read

    def _fit(self, value: str, after: str) -> str | Malformed:
        """The spelling of a value that is a part, if its end can be told from what follows."""
        spelled = spell_entity(value)
        if isinstance(spelled, Malformed) or not after or len(self.placeholders) == 1:
            return spelled
        # Not just `in`: of `-` and `--` together nobody can say where the value has ended.
        if (spelled + after).index(after) < len(spelled):
            return Malformed(f"a text that holds or runs into the `{after}` after it; send another")
        return spelled


@dataclass(frozen=True, slots=True)
class Reading:
    """One template, or several of which all that are present must agree."""

    templates: tuple[Template, ...]

    def __str__(self) -> str:
        return " or ".join(template.text for template in self.templates)

    @property
    def captures(self) -> frozenset[str]:
        return frozenset().union(*(template.captures for template in self.templates))

    @property
    def wholes(self) -> tuple[Placeholder, ...]:
        """The places that are read whole."""
        return tuple(template.whole for template in self.templates if template.whole)

    @property
    def sources(self) -> frozenset[Source]:
        return frozenset(hole.source for t in self.templates for hole in t.placeholders)

    def read(self, seen: Seen, *, fold: bool = False) -> str | Absent | Malformed:
        """The value that all present templates agree on; Absent if none is present."""
        first: tuple[str, str] | None = None
        for template in self.templates:
            value = template.render(seen, fold=fold)
            if isinstance(value, Absent):
                continue
            if isinstance(value, Malformed):
                return value
            if first is not None and first[1] != value:
                return Malformed(f"{template.text} and {first[0]} disagree; send one value")
            first = first or (template.text, value)
        return Absent() if first is None else first[1]


def never_agree(one: Template, other: Template) -> bool:
    """Do two templates begin or end so differently that no values make them the same?"""
    first, start = one.literals[0], other.literals[0]
    last, end = one.literals[-1], other.literals[-1]
    begins = first.startswith(start) or start.startswith(first)
    ends = last.endswith(end) or end.endswith(last)
    return not (begins and ends)


# --- compiling -----------------------------------------------------------------------------


def entity_template(written: str) -> Template:
    """Compile the template of an entity; ValueError says what is wrong with it."""
    return _compile(written, spell_entity)


def key_template(written: str) -> Template:
    """Compile the template of a key; ValueError says what is wrong with it."""
    template = _compile(written, key_of_text)
    if not template.placeholders:
        raise ValueError(f"`{written}` has no placeholder, so that all calls would share one key")
    return template


def fence_template(written: str) -> Template:
    """Compile the place of a fence, which is always read whole; ValueError if it is none."""
    inner = _PLACEHOLDER.fullmatch(written)
    if inner is None:
        raise ValueError(f"`{written}` is no place; a fence is one value, such as {{json./fence}}")
    hole = placeholder(inner[1], integer=True)
    if hole.source is Source.CALLER:
        raise ValueError(f"`{written}`: the name of a caller is no fence")
    return Template(written, ("", ""), (hole,), _spell_fence)


def _spell_fence(text: str) -> str | Malformed:
    fence = fence_of_text(text)
    return fence if isinstance(fence, Malformed) else str(fence)


_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def _compile(written: str, spell: Spell) -> Template:
    pieces = _PLACEHOLDER.split(written)
    literals, inner = tuple(pieces[::2]), pieces[1::2]
    if any("{" in literal or "}" in literal for literal in literals):
        raise ValueError(f"`{written}` has a brace without its other half")
    if "" in literals[1:-1]:
        raise ValueError(f"`{written}` has nothing between two placeholders to tell them apart")
    placeholders = tuple(placeholder(text) for text in inner)
    sample = "x".join(literals)
    match spell(sample):
        case Malformed(expected=expected):
            raise ValueError(f"`{written}` can only make what is {expected}")
        case read if read != sample:
            raise ValueError(f"`{written}` has quotes or characters that would be changed")
    return Template(written, literals, placeholders, spell)
