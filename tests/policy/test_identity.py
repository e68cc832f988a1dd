"""How policies identify calls, as texts: what changes them, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencegate.core.identity import changed
from fencegate.policy import identities, load

UPSTREAM = "upstream: {name: api, mount: /api, url: 'http://a', timeout: 5s}\n"
ROUTE = "  - {match: POST /a, entity: 'a:{json./a}', key: 'k:{json./k}'}\n"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def read(folder: Path, routes: str, gateway: str = "callers: off") -> dict[str, dict[str, str]]:
    (folder / "api.yaml").write_text(UPSTREAM + "routes:\n" + routes)
    (folder / "gateway.yaml").write_text(gateway)
    return {name: dict(items) for name, items in identities(load(folder, {})).items()}


@pytest.mark.parametrize(
    "other",
    [
        ROUTE.replace("a:{json./a}", "b:{json./a}"),
        ROUTE.replace("k:{json./k}", "k:{json./n}"),
        ROUTE.replace("POST /a,", "POST /a, guard: key-only,"),
        ROUTE.replace("POST /a,", "POST /a, fence_domain: d,"),
        ROUTE.replace("POST /a,", "POST /b,"),
        "  - {match: 'POST /**', entity: 'x:{json./x}'}\n",
        "  - {match: 'POST /{x}', entity: 'x:{path.x}', mode: enforce}\n"
        + ROUTE.replace("/a,", "/b/c,"),
    ],
)
def test_another_reading_is_a_change(tmp_path: Path, other: str) -> None:
    assert changed(read(tmp_path, ROUTE), read(tmp_path, other)).keys() == {"api"}


def test_a_route_that_takes_calls_from_an_older_one_is_a_change(tmp_path: Path) -> None:
    general = "  - {match: 'POST /{x}', entity: 'x:{path.x}'}\n"
    before = read(tmp_path, general)
    special = "  - {match: POST /a, entity: 'a:{query.a}'}\n"
    assert changed(before, read(tmp_path, special + general)).keys() == {"api"}
    assert changed(before, read(tmp_path, special.replace("POST /a", "POST /a/b") + general)) == {}


@pytest.mark.parametrize(
    "other",
    [
        ROUTE + "  - {match: POST /b, entity: b}\n",
        "  - {match: POST /b, entity: b}\n" + ROUTE,
        ROUTE.replace("POST /a,", "POST /a, timeout: 9s, retention: 2d,"),
        ROUTE.replace("POST /a,", "POST /a, mode: observe,"),
        "  - {match: GET /a}\n" + ROUTE,
    ],
)
def test_what_identifies_nothing_in_another_way_is_no_change(tmp_path: Path, other: str) -> None:
    assert changed(read(tmp_path, ROUTE), read(tmp_path, other)) == {}


def test_a_caller_more_is_no_change_and_one_less_is(tmp_path: Path) -> None:
    one = f"callers: [{{name: a, token_sha256: [{DIGEST}]}}]"
    two = one.replace("]}]", f"]}}, {{name: b, token_sha256: [{DIGEST.replace('9', '8')}]}}]")
    nobody, of_one, of_two = (read(tmp_path, ROUTE, g) for g in ("callers: off", one, two))
    assert changed(of_one, of_two) == {}
    assert changed(of_two, of_one) == {"api": ("caller b",)}
    assert changed(nobody, of_one) == {"api": ("callers",)}
    assert changed(
        read(tmp_path, ROUTE), read(tmp_path, ROUTE, "callers: off\ngateway: {fold: case}")
    )
