"""The way from a target to its route: mounts, patterns, guards, and paths of two readings."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from fencegate.policy import (
    Finding,
    Found,
    Guard,
    NoRoute,
    Passed,
    PathAmbiguous,
    Policies,
    load,
)
from fencegate.policy.paths import parse_pattern

PAYMENTS = """
upstream:
  name: payments
  mount: /payments
  url: http://api.payments.example/base/
routes:
  - match: POST /v1/charges/{charge}/capture
    entity: charge:{path.charge}
  - match: POST /v1/charges
    entity: charges
  - match: PUT /v1/files/**
    entity: files
  - match: GET /v1/polls/{poll}
    guard: full
    entity: poll:{path.poll}
  - match: POST /**
    guard: none
  - match: PATCH /v1/notes/{note}
    guard: none
"""
CRM = """
upstream: {name: crm, mount: /payments/crm, url: "https://crm.example:8443"}
routes:
  - match: "* /people/{person}"
    entity: person:{path.person}
"""
ROOT = """
upstream: {name: root, mount: /, url: "http://[::1]:81"}
"""


@pytest.fixture
def policies(tmp_path: Path) -> Policies:
    return written(tmp_path, payments=PAYMENTS, crm=CRM)


def written(folder: Path, **files: str) -> Policies:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return load(folder, {})


def found(finding: Finding) -> Found:
    assert isinstance(finding, Found), finding
    return finding


# --- mounts --------------------------------------------------------------------------------


def test_mount_is_exchanged_for_the_base_path_byte_for_byte(policies: Policies) -> None:
    finding = found(policies.find("POST", b"/payments/v1/ch%61rges?b=%7e&a=1&&b=+"))
    assert finding.upstream_target == b"/base/v1/ch%61rges?b=%7e&a=1&&b=+"
    assert finding.route.pattern.text == "POST /v1/charges"


@pytest.mark.parametrize(
    "target", [b"/paymentsv1", b"/payment", b"/", b"*", b"", b"http://payments/"]
)
def test_target_under_no_mount_has_no_route(policies: Policies, target: bytes) -> None:
    assert policies.find("POST", target) == NoRoute(write=False)
    assert policies.find("GET", target) == NoRoute(write=False)


def test_mount_in_another_spelling_is_no_mount(policies: Policies) -> None:
    for target in (
        b"/pay%6Dents/v1/charges",
        b"//payments/v1/charges",
        b"/x/../payments/v1/charges",
    ):
        assert policies.find("POST", target) == NoRoute(write=False)


def test_mount_within_a_mount_goes_first(tmp_path: Path) -> None:
    policies = written(tmp_path, outer=PAYMENTS, within=CRM)
    finding = found(policies.find("PUT", b"/payments/crm/people/p1"))
    assert (finding.route.upstream.name, finding.upstream_target) == ("crm", b"/people/p1")
    assert found(policies.find("POST", b"/payments/crmx")).route.upstream.name == "payments"


def test_root_mount_takes_every_path_that_no_other_takes(tmp_path: Path) -> None:
    policies = written(tmp_path, payments=PAYMENTS, root=ROOT)
    finding = policies.find("GET", b"/any/thing?x")
    assert isinstance(finding, Passed)
    assert (finding.upstream.name, finding.upstream_target) == ("root", b"/any/thing?x")
    for no_path in (b"*", b"", b"?x", b"http://root/any"):
        assert policies.find("GET", no_path) == NoRoute(write=False)


@pytest.mark.parametrize(
    ("target", "sent_on", "sent_on_without_base"),
    [
        (b"/payments", b"/base", b"/"),
        (b"/payments/", b"/base/", b"/"),
        (b"/payments?a=1", b"/base?a=1", b"/?a=1"),
    ],
)
def test_mount_alone_is_the_root_of_the_upstream(
    policies: Policies, target: bytes, sent_on: bytes, sent_on_without_base: bytes
) -> None:
    assert found(policies.find("POST", target)).upstream_target == sent_on
    finding = policies.find("GET", target.replace(b"/payments", b"/payments/crm"))
    assert isinstance(finding, Passed)
    assert finding.upstream_target == sent_on_without_base


def test_authority_leaves_out_the_port_of_the_scheme(tmp_path: Path) -> None:
    policies = written(tmp_path, payments=PAYMENTS, crm=CRM, root=ROOT)
    authorities = {upstream.name: upstream.authority for upstream in policies.upstreams}
    assert authorities == {
        "payments": "api.payments.example",
        "crm": "crm.example:8443",
        "root": "[::1]:81",
    }


# --- patterns ------------------------------------------------------------------------------


def test_captures_are_segments_as_they_came(policies: Policies) -> None:
    finding = found(policies.find("POST", b"/payments/v1/charges/ch%5F1/capture"))
    assert finding.captures == {"charge": b"ch%5F1"}


@pytest.mark.parametrize(
    ("method", "target", "pattern"),
    [
        ("POST", b"/payments/v1/charges", "POST /v1/charges"),
        ("POST", b"/payments/v1/%63harges", "POST /v1/charges"),
        ("POST", b"/payments/v1/charges/", "POST /**"),
        ("POST", b"/payments/V1/charges", "POST /**"),
        ("POST", b"/payments/v1/charges/a/b/capture", "POST /**"),
        ("POST", b"/payments/v1/charges/%2563/capture", "POST /v1/charges/{charge}/capture"),
        ("PUT", b"/payments/v1/files/a/b", "PUT /v1/files/**"),
        ("PUT", b"/payments/v1/files/", "PUT /v1/files/**"),
        ("post", b"/payments/v1/charges", "POST /v1/charges"),
        ("HEAD", b"/payments/v1/polls/1", "GET /v1/polls/{poll}"),
    ],
)
def test_first_route_that_matches_wins(
    policies: Policies, method: str, target: bytes, pattern: str
) -> None:
    assert found(policies.find(method, target)).route.pattern.text == pattern


@pytest.mark.parametrize("target", [b"/payments/v1/files", b"/payments/v1/filesx/a"])
def test_rest_is_at_least_one_segment(policies: Policies, target: bytes) -> None:
    assert policies.find("PUT", target) == NoRoute(write=True)


def test_capture_is_never_empty(policies: Policies) -> None:
    assert isinstance(policies.find("GET", b"/payments/v1/polls/"), Passed)


def test_two_unicode_forms_of_a_literal_are_one(tmp_path: Path) -> None:
    policies = written(
        tmp_path,
        a='upstream: {name: a, mount: /a, url: "http://a"}\n'
        'routes: [{match: "POST /cafe\u0301", entity: e}]',
    )
    assert found(policies.find("POST", b"/a/caf%C3%A9")).upstream_target == b"/caf%C3%A9"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("/v1/charges", "a match is a method, one space and a path"),
        ("POST  /v1", "a match is a method, one space and a path"),
        ("POST v1", "the path `v1` must begin with /"),
        ("post /v1", "`post` is no method; write POST, POST|PUT or * for all"),
        ("POST| /v1", "`` is no method"),
        ("POST /v1//x", "the path `/v1//x` has an empty segment"),
        ("POST //", "the path `//` has an empty segment"),
        ("POST /v1/*", "write {name} for one segment, and at the end ** or {name...} for the rest"),
        (
            "POST /v1/**/x",
            "write {name} for one segment, and at the end ** or {name...} for the rest",
        ),
        ("POST /v1/{x}:void", "a capture is a whole segment, {name}"),
        ("POST /v1/{a-b}", "a capture is a whole segment, {name}"),
        ("POST /v1/{x}/{x}", "captures one name twice"),
        ("POST /v1/%7e", "write the segment as it reads when decoded"),
        ("POST /v1/..", "`..` could never match, for it has a dot segment"),
        ("POST /v1?x", "could never match, for it has `?` in a segment"),
    ],
)
def test_pattern_that_cannot_be_read_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        parse_pattern(text)


# --- guards and what no route covers -------------------------------------------------------


def test_without_a_stated_guard_reads_have_none_and_all_else_is_guarded(policies: Policies) -> None:
    guards = {
        method: found(policies.find(method, b"/payments/crm/people/p1")).route.guard
        for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE", "PURGE")
    }
    assert [method for method, guard in guards.items() if guard is Guard.NONE] == [
        "GET",
        "HEAD",
        "OPTIONS",
    ]


def test_only_guarded_routes_have_an_entity(policies: Policies) -> None:
    assert found(policies.find("POST", b"/payments/crm/people/p1")).route.entity is not None
    assert found(policies.find("GET", b"/payments/crm/people/p1")).route.entity is None


def test_read_that_no_route_covers_is_passed(policies: Policies) -> None:
    finding = policies.find("GET", b"/payments/v1/charges?limit=3")
    assert isinstance(finding, Passed)
    assert (finding.upstream.name, finding.upstream_target) == (
        "payments",
        b"/base/v1/charges?limit=3",
    )


@pytest.mark.parametrize("method", ["DELETE", "PURGE", "get", "Head"])
def test_write_that_no_route_covers_is_refused(policies: Policies, method: str) -> None:
    assert policies.find(method, b"/payments/v1/charges") == NoRoute(write=True)


def test_write_that_no_route_covers_is_passed_where_the_gateway_says_so(tmp_path: Path) -> None:
    policies = written(tmp_path, payments=PAYMENTS, gateway="gateway: {unmatched: pass}")
    assert isinstance(policies.find("DELETE", b"/payments/v1/charges"), Passed)


# --- paths that can be read in two ways ----------------------------------------------------

AMBIGUOUS = [
    (b"/v1/./charges", "a dot segment"),
    (b"/v1/x/../charges", "a dot segment"),
    (b"/v1/x/%2e%2E/charges", "a dot segment"),
    (b"/v1/x/.%2e/charges", "a dot segment"),
    (b"/v1/charges/..", "a dot segment"),
    (b"/v1//charges", "an empty segment"),
    (b"//v1/charges", "an empty segment"),
    (b"/v1/charges//", "an empty segment"),
    (b"/v1\\charges", "`\\` in a segment"),
    (b"/v1%5Ccharges", "`\\` in a segment"),
    (b"/v1%2fcharges", "`/` in a segment"),
    (b"/v1/charges;v=1", "`;` in a segment"),
    (b"/v1/charges%3Bv=1", "`;` in a segment"),
    (b"/v1/charges%3Fa", "`?` in a segment"),
    (b"/v1/charges%23a", "`#` in a segment"),
    (b"/v1/charges%00", "a control character"),
    (b"/v1/charges\x00", "a control character"),
    (b"/v1/charges%0a", "a control character"),
    (b"/v1/charges%7f", "a control character"),
    (b"/v1/charges#a", "a fragment"),
    (b"/v1/charges?a#b", "a fragment"),
    (b"/v1/charges%", "a % without two hex digits"),
    (b"/v1/charges%2", "a % without two hex digits"),
    (b"/v1/charges%zz", "a % without two hex digits"),
    (b"/v1/%ff", "not UTF-8"),
    (b"/v1/%c0%ae%c0%ae/charges", "not UTF-8"),
]


@pytest.mark.parametrize(("path", "wrong"), AMBIGUOUS)
def test_path_of_two_readings_leads_no_write_around_its_guard(
    policies: Policies, path: bytes, wrong: str
) -> None:
    finding = policies.find("POST", b"/payments" + path)
    assert isinstance(finding, PathAmbiguous), finding
    assert wrong in finding.expected


@pytest.mark.parametrize("path", [path for path, _ in AMBIGUOUS])
def test_path_of_two_readings_is_not_passed_as_an_unmatched_write(
    tmp_path: Path, path: bytes
) -> None:
    guarded = PAYMENTS.replace("  - match: POST /**\n    guard: none\n", "")
    assert guarded != PAYMENTS
    policies = written(tmp_path, payments=guarded, gateway="gateway: {unmatched: pass}")
    assert isinstance(policies.find("POST", b"/payments" + path), PathAmbiguous)


@pytest.mark.parametrize("path", [path for path, _ in AMBIGUOUS])
def test_path_of_two_readings_goes_as_it_came_where_nothing_guards_its_method(
    tmp_path: Path, path: bytes
) -> None:
    open_reads = PAYMENTS.replace("GET /v1/polls", "PUT /v1/polls")
    policies = written(tmp_path, payments=open_reads)
    finding = policies.find("GET", b"/payments" + path)
    assert isinstance(finding, Passed), finding
    assert finding.upstream_target == b"/base" + path


def test_path_of_two_readings_is_refused_to_a_read_that_may_mean_a_guarded_one(
    policies: Policies,
) -> None:
    assert isinstance(policies.find("GET", b"/payments/v1//polls/1"), PathAmbiguous)
    assert isinstance(policies.find("HEAD", b"/payments/v1//polls/1"), PathAmbiguous)
    assert isinstance(policies.find("OPTIONS", b"/payments/v1//polls/1"), Passed)


def test_unguarded_route_takes_a_path_of_two_readings_where_none_of_its_method_is_guarded(
    policies: Policies,
) -> None:
    finding = found(policies.find("PATCH", b"/payments/v1/notes/%ff;x"))
    assert (finding.route.guard, finding.upstream_target) == (Guard.NONE, b"/base/v1/notes/%ff;x")


@pytest.mark.parametrize(
    "path", [b"/v1/charges/.x/capture", b"/v1/charges/.../capture", b"/v1/charges/a%2Eb/capture"]
)
def test_dots_within_a_segment_have_one_reading(policies: Policies, path: bytes) -> None:
    assert found(policies.find("POST", b"/payments" + path)).route.guard is Guard.FULL


# --- what is compiled ----------------------------------------------------------------------


def test_policies_cannot_be_changed(policies: Policies) -> None:
    with pytest.raises(FrozenInstanceError):
        policies.routes = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("mount", "match", "key", "taken"),
    [
        ("/", "PUT /v1/orders/{id}", "{path.id}", ("path:2",)),
        ("/a/b", "PUT /v1/orders/{id}", "{path.id}", ("path:4",)),
        ("/a", "PUT /v1/orders", "{json./key}", ("json:/key",)),
        ("/a", "PUT /v1/orders", "{query.key}", ("query:key",)),
        ("/a", "PUT /v1/orders", "{header.x-request-id}", ()),
        ("/a", "PUT /v1/orders/{id}", "order:{path.id}", ()),
    ],
)
def test_place_that_is_read_whole_as_the_key_is_no_part_of_the_fingerprint(
    tmp_path: Path, mount: str, match: str, key: str, taken: tuple[str, ...]
) -> None:
    policies = written(
        tmp_path,
        a=f"upstream: {{name: a, mount: {mount}, url: 'http://a'}}\n"
        f"routes: [{{match: '{match}', entity: e, key: '{key}'}}]",
    )
    assert [route.scheme.taken for route in policies.routes] == [taken]


def test_read_of_a_match_on_all_methods_goes_as_it_came_though_its_writes_are_guarded(
    tmp_path: Path,
) -> None:
    policies = written(
        tmp_path,
        all="""
            upstream: {name: all, mount: /all, url: "http://localhost:9000"}
            routes:
              - match: "* /api/{x}"
                entity: thing:{path.x}
            """,
    )
    assert found(policies.find("GET", b"/all/api/a%2Fb")).route.guard is Guard.NONE
    assert isinstance(policies.find("POST", b"/all/api/a%2Fb"), PathAmbiguous)
    assert isinstance(policies.find("get", b"/all/api/a%2Fb"), PathAmbiguous)
