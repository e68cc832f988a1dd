"""How policies read identities, and when another reading is adopted.

A record is found by names that a policy reads from a call. A policy that reads them in another way
no longer finds the records that were made before, and would send once more what they stand for.

    changed    an item that is kept and is missing or different in what is wanted
    refused    if an upstream with a changed item has open or unknown records, unless accepted
    adopted    else: what is wanted replaces all that is kept

What is only wanted is no change: no record was made under it. A token that is gone is none, but
one that shows another caller than before is. An item that says that its route observes is none
either. When one of these goes, its route begins to enforce: it starts from the
high water that was observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fencegate.core.model import Entity, EntityId

Identities = Mapping[str, Mapping[str, str]]
"""Per upstream: the name of an item, such as `caller billing`, and how it is read."""

OBSERVE = "observe "  # begins the name of an item: this route observes only
TOKEN = "token "  # begins the name of an item: whom this token shows
OBSERVED = "observe:"  # begins the domain of what is only observed


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """What is read in another way than before, and how many records are open or unknown there."""

    upstream: str
    items: tuple[str, ...]
    live: int


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was wanted is kept now. `switched`: a route that observed enforces, or is gone."""

    changes: tuple[Change, ...]
    switched: bool


@dataclass(frozen=True, slots=True)
class NotAdopted:
    """Nothing was changed: some of these upstreams have records under the old reading."""

    changes: tuple[Change, ...]


Adoption = Adopted | NotAdopted


def adopt(
    stored: Identities, wanted: Identities, live: Mapping[str, int], accept: bool
) -> Adoption:
    """May what is wanted replace what is stored? `live`: the open and unknown records of each
    upstream that `changed` names."""
    changes = tuple(
        Change(upstream, items, live[upstream])
        for upstream, items in sorted(changed(stored, wanted).items())
    )
    if any(change.live for change in changes) and not accept:
        return NotAdopted(changes)
    return Adopted(changes, _switched(stored, wanted))


def changed(stored: Identities, wanted: Identities) -> dict[str, tuple[str, ...]]:
    """The changed items of each upstream that has any."""
    found = {
        upstream: _changed(items, wanted.get(upstream, {})) for upstream, items in stored.items()
    }
    return {upstream: items for upstream, items in found.items() if items}


def _changed(stored: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        item
        for item, reading in sorted(stored.items())
        if not item.startswith(OBSERVE)
        and wanted.get(item, reading if item.startswith(TOKEN) else None) != reading
    )


def _switched(stored: Identities, wanted: Identities) -> bool:
    return any(
        item.startswith(OBSERVE) and item not in wanted.get(upstream, {})
        for upstream, items in stored.items()
        for item in items
    )


# --- from observing to enforcing -----------------------------------------------------------


def enforced(observed: EntityId) -> EntityId | None:
    """The entity that was watched under this name; None if it is no name of a watched one."""
    if not observed.domain.startswith(OBSERVED):
        return None
    return EntityId(observed.domain.removeprefix(OBSERVED), observed.name)


def taken_over(entity: Entity, observed: Entity) -> Entity:
    """The enforced entity with high water at least as it was observed; frozen stays frozen."""
    if observed.high_water <= entity.high_water:
        return entity
    return replace(
        entity,
        high_water=observed.high_water,
        holder=observed.holder,
        accepted_at=observed.accepted_at,
    )
