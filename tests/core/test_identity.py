"""When another reading of identities is adopted, and what is taken over from observing."""

from __future__ import annotations

import pytest

from fencegate.core.identity import (
    OBSERVE,
    OBSERVED,
    Adopted,
    Change,
    Identities,
    NotAdopted,
    adopt,
    changed,
    enforced,
    taken_over,
)
from fencegate.core.model import Entity, EntityId

CHARGES, REFUNDS, AGENTS = "route POST /v1/charges", "route POST /v1/refunds", "caller agents"
WATCHED = f"{OBSERVE}POST /v1/charges"
PAYMENTS = {AGENTS: "known", CHARGES: "entity={path.charge}"}
CRM = {"route POST /notes": "entity={json./note}"}
STORED: Identities = {"payments": PAYMENTS, "crm": CRM}


# --- what has changed ----------------------------------------------------------------------

CHANGES: dict[str, tuple[Identities, dict[str, tuple[str, ...]]]] = {
    "the same": ({"crm": {**CRM}, "payments": {**PAYMENTS}}, {}),
    "another reading": (
        {"payments": {**PAYMENTS, CHARGES: "entity={query.charge}"}, "crm": CRM},
        {"payments": (CHARGES,)},
    ),
    "an item gone": (
        {"payments": {CHARGES: PAYMENTS[CHARGES]}, "crm": CRM},
        {"payments": (AGENTS,)},
    ),
    "an upstream gone": ({"crm": CRM}, {"payments": (AGENTS, CHARGES)}),
    "an upstream renamed": (
        {"payment": PAYMENTS, "crm": CRM},
        {"payments": (AGENTS, CHARGES)},
    ),
    "all gone": ({}, {"payments": (AGENTS, CHARGES), "crm": tuple(CRM)}),
    "an item more": ({"payments": {**PAYMENTS, REFUNDS: "entity={path.id}"}, "crm": CRM}, {}),
    "an upstream more": ({**STORED, "mail": {"route POST /send": "entity={json./to}"}}, {}),
    "an item of the same name elsewhere": (
        {"payments": {AGENTS: "known"}, "crm": {**CRM, CHARGES: PAYMENTS[CHARGES]}},
        {"payments": (CHARGES,)},
    ),
}


@pytest.mark.parametrize("about", CHANGES)
def test_an_item_has_changed_if_it_is_kept_and_no_longer_wanted_as_it_was(about: str) -> None:
    wanted, items = CHANGES[about]
    assert changed(STORED, wanted) == items


def test_the_first_identities_of_a_ledger_change_nothing() -> None:
    assert adopt({}, STORED, {}, accept=False) == Adopted((), switched=False)


@pytest.mark.parametrize("items", [{}, {WATCHED: "another text"}])
def test_that_a_route_observes_is_no_identity(items: dict[str, str]) -> None:
    assert changed({"payments": {WATCHED: "observe"}}, {"payments": items}) == {}


def test_only_what_begins_as_an_observing_item_is_one() -> None:
    stored = {"payments": {"observer POST /": "a", "route POST /observe ": "b"}}
    assert changed(stored, {}) == {"payments": ("observer POST /", "route POST /observe ")}


# --- what is refused -----------------------------------------------------------------------

BOTH: Identities = {"payments": {CHARGES: "entity={query.charge}"}}


@pytest.mark.parametrize(
    ("live", "accept", "adopted"),
    [
        ({"payments": 0, "crm": 0}, False, True),
        ({"payments": 0, "crm": 0}, True, True),
        ({"payments": 1, "crm": 0}, False, False),
        ({"payments": 0, "crm": 1}, False, False),
        ({"payments": 7, "crm": 1}, True, True),
    ],
)
def test_a_change_is_refused_while_records_are_live_unless_accepted(
    live: dict[str, int], accept: bool, adopted: bool
) -> None:
    changes = (
        Change("crm", tuple(CRM), live["crm"]),
        Change("payments", (AGENTS, CHARGES), live["payments"]),
    )
    told = Adopted(changes, switched=False) if adopted else NotAdopted(changes)
    assert adopt(STORED, BOTH, live, accept) == told


def test_records_of_an_upstream_that_did_not_change_matter_to_nobody() -> None:
    wanted = {"payments": PAYMENTS}
    told = adopt(STORED, wanted, {"payments": 7, "crm": 0}, accept=False)
    assert told == Adopted((Change("crm", tuple(CRM), 0),), switched=False)


# --- from observing to enforcing -----------------------------------------------------------

WATCHING: Identities = {"payments": {**PAYMENTS, WATCHED: "observe"}, "crm": CRM}


@pytest.mark.parametrize(
    ("stored", "wanted", "switched"),
    [
        (WATCHING, WATCHING, False),
        (STORED, WATCHING, False),
        (WATCHING, STORED, True),
        (WATCHING, {"payments": {**PAYMENTS, WATCHED: "another text"}, "crm": CRM}, False),
        (WATCHING, {"payments": {**PAYMENTS, f"{OBSERVE}POST /v1/refunds": ""}, "crm": CRM}, True),
        (WATCHING, {"payments": PAYMENTS, "crm": {**CRM, WATCHED: "observe"}}, True),
    ],
)
def test_a_route_has_switched_if_it_observed_and_does_so_no_longer(
    stored: Identities, wanted: Identities, switched: bool
) -> None:
    assert adopt(stored, wanted, {}, accept=False) == Adopted((), switched)


def test_with_its_upstream_gone_a_route_no_longer_observes() -> None:
    told = adopt(WATCHING, {"crm": CRM}, {"payments": 0}, accept=False)
    assert told == Adopted((Change("payments", (AGENTS, CHARGES), 0),), switched=True)


@pytest.mark.parametrize(
    ("domain", "of"),
    [
        (OBSERVED, ""),
        (f"{OBSERVED}crm", "crm"),
        (f"{OBSERVED}:keys", ":keys"),
        ("", None),
        ("crm", None),
        ("observe", None),
        (f"x{OBSERVED}crm", None),
    ],
)
def test_a_watched_entity_is_known_by_its_domain(domain: str, of: str | None) -> None:
    assert enforced(EntityId(domain, "n")) == (None if of is None else EntityId(of, "n"))


NAME, SHADOW = EntityId("crm", "note:1"), EntityId(f"{OBSERVED}crm", "note:1")


@pytest.mark.parametrize("frozen", [False, True])
def test_a_higher_water_comes_with_its_holder_and_leaves_frozen_alone(frozen: bool) -> None:
    entity = Entity(NAME, 41, "old", 1, frozen)
    observed = Entity(SHADOW, 42, "new", 2, frozen=not frozen)
    assert taken_over(entity, observed) == Entity(NAME, 42, "new", 2, frozen)


@pytest.mark.parametrize("high_water", [0, 40, 41])
def test_high_water_is_never_lowered_and_an_equal_one_changes_no_holder(high_water: int) -> None:
    entity = Entity(NAME, 41, "old", 1)
    assert taken_over(entity, Entity(SHADOW, high_water, "new", 2)) == entity
