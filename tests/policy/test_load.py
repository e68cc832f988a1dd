"""Reading policy files: what they mean, and what each error says about its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fencegate.core.model import (
    DAY,
    SECOND,
    FenceLead,
    OneEffectPer,
    OnUnknown,
    Predecessor,
    StaleReplay,
    Terms,
)
from fencegate.core.outcomes import Statuses
from fencegate.policy import (
    Guard,
    Outside,
    Policies,
    PolicyError,
    Route,
    Severity,
    Unmatched,
    check,
    load,
)
from tests.gateway.peers import CERTIFICATE

EXAMPLES = Path(__file__).parents[2] / "policies"
UPSTREAM = """\
upstream:
  name: payments
  mount: /payments
  url: http://api.payments.example
"""
CHARGES = """\
routes:
  - match: POST /v1/charges
    entity: charges
"""


def written(folder: Path, environ: dict[str, str] | None = None, **files: str) -> Policies:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return load(folder, environ or {})


def problems(
    folder: Path, environ: dict[str, str] | None = None, **files: str
) -> list[tuple[str, str, str]]:
    """Place (without the folder), what is wrong and the hint, and the example, of every error."""
    with pytest.raises(PolicyError) as refused:
        written(folder, environ, **files)
    return [
        (
            str(p.place).removeprefix(f"{folder}/"),
            "; ".join(filter(None, (p.wrong, p.hint))),
            p.example,
        )
        for p in refused.value.problems
        if p.severity is Severity.ERROR
    ]


def only_route(policies: Policies) -> Route:
    (route,) = policies.routes
    return route


# --- what files mean -----------------------------------------------------------------------


def test_example_policies_are_loaded() -> None:
    policies = load(EXAMPLES, {})
    names = [upstream.name for upstream in policies.upstreams]
    assert names == ["crm", "jobs", "warehouse", "payments"]
    routes = [route for route in policies.routes if route.upstream.name == "payments"]
    assert [(route.pattern.text, route.guard) for route in routes] == [
        ("POST /v1/charges/{charge}/capture", Guard.FULL),
        ("POST /v1/charges", Guard.FULL),
        ("POST /v1/refunds", Guard.FULL),
        ("POST /v1/tokens", Guard.NONE),
    ]


def test_nothing_at_all_is_said_of_the_examples() -> None:
    assert check(EXAMPLES, Outside({})).problems == ()


def test_example_gateway_file_says_what_holds_without_it(tmp_path: Path) -> None:
    for file in EXAMPLES.glob("*.yaml"):
        if file.stem != "gateway":
            (tmp_path / file.name).write_text(file.read_text())
    assert load(tmp_path, {}) == load(EXAMPLES, {})


def test_what_is_not_stated_holds_by_default(tmp_path: Path) -> None:
    policies = written(tmp_path, payments=UPSTREAM + CHARGES)
    route, upstream = only_route(policies), policies.upstreams[0]
    assert route.terms == Terms(
        hold=15 * SECOND,
        timeout=30 * SECOND,
        retention=DAY,
        tombstone=400 * DAY,
        max_fence_lead=FenceLead(DAY, clock=True),
        on_unknown=OnUnknown.REFUSE,
        key_window=None,
    )
    assert (route.duplicate_wait, route.predecessor_wait) == (5.0, 5.0)
    assert (route.timeout, route.connect_timeout) == (30.0, 5.0)
    assert (route.body_limit, route.answer_limit) == (1048576, 1048576)
    assert (route.statuses, route.key) == (Statuses(), None)
    assert (upstream.timeout, upstream.connect_timeout, upstream.reuse_within) == (30.0, 5.0, 2.0)
    assert (upstream.body_limit, upstream.headers, upstream.kind) == (1048576, (), "generic")
    assert policies.gateway.unmatched is Unmatched.REFUSE
    assert policies.gateway.max_fence_lead == FenceLead(DAY, clock=True)


def test_every_route_setting_reaches_its_route(tmp_path: Path) -> None:
    text = (
        UPSTREAM
        + """\
  key_window: 24h
  reuse_within: 500ms
routes:
  - match: POST /v1/charges
    entity: charges
    key: "{header.x-request-id}"
    on_unknown: resend
    resend_limit: 7
    stale_replay: refuse
    predecessor: proceed
    predecessor_wait: 0s
    duplicate_wait: 1500ms
    one_effect_per: intent
    fingerprint: {ignore: [/sent_at], headers: [Stripe-Account]}
    max_fence_lead: 1000
    retention: 30d
    timeout: 60s
    connect_timeout: 1s
    body_limit: 2KiB
    answer_limit: 0B
    refused_statuses: [401, 503]
    unknown_statuses: [408, 500, 502, 504]
"""
    )
    gateway = "gateway: {hold: 1s, tombstone: 2d}"
    policies = written(tmp_path, payments=text, gateway=gateway)
    route = only_route(policies)
    assert route.terms == Terms(
        hold=SECOND,
        timeout=60 * SECOND,
        retention=30 * DAY,
        tombstone=2 * DAY,
        max_fence_lead=FenceLead(1000),
        stale_replay=StaleReplay.REFUSE,
        on_unknown=OnUnknown.RESEND,
        resend_limit=7,
        key_window=DAY,
        predecessor=Predecessor.PROCEED,
        one_effect_per=OneEffectPer.INTENT,
    )
    assert (route.predecessor_wait, route.duplicate_wait) == (0.0, 1.5)
    assert (route.timeout, route.connect_timeout) == (60.0, 1.0)
    assert (route.body_limit, route.answer_limit) == (2048, 0)
    assert (route.scheme.ignore, route.scheme.headers) == (("/sent_at",), ("stripe-account",))
    assert route.statuses.refused == {401, 503}
    assert route.statuses.unknown == {408, 500, 502, 504}
    assert policies.upstreams[0].reuse_within == 0.5
    assert policies.upstreams[0].timeout == 30.0


def test_nearest_setting_wins_as_a_whole(tmp_path: Path) -> None:
    policies = written(
        tmp_path,
        gateway="""\
defaults:
  entity: far
  retention: 1d
  timeout: 1s
  duplicate_wait: 1s
  fingerprint: {ignore: [/far], headers: [Far]}
""",
        payments=UPSTREAM
        + """\
  retention: 2d
  timeout: 2s
  fingerprint: {ignore: [/near]}
routes:
  - match: POST /v1/charges
    timeout: 3s
""",
    )
    route = only_route(policies)
    assert route.entity is not None
    assert str(route.entity) == "far"
    assert (route.duplicate_wait, route.terms.retention, route.timeout) == (1.0, 2 * DAY, 3.0)
    assert (route.scheme.ignore, route.scheme.headers) == (("/near",), ())
    assert policies.upstreams[0].timeout == 2.0


def test_zero_that_is_stated_is_no_default(tmp_path: Path) -> None:
    text = UPSTREAM + "  duplicate_wait: 0s\n  resend_limit: 0\n" + CHARGES
    route = only_route(written(tmp_path, payments=text, gateway="defaults: {duplicate_wait: 9s}"))
    assert (route.duplicate_wait, route.terms.resend_limit) == (0.0, 0)


@pytest.mark.parametrize(
    ("stated", "lead"),
    [
        ("off", None),
        ("9223372036854775807", FenceLead(2**63 - 1)),
        ("1", FenceLead(1)),
        ("clock+2h", FenceLead(7200 * SECOND, clock=True)),
    ],
)
def test_fence_lead_is_a_clock_a_number_or_off(
    tmp_path: Path, stated: str, lead: FenceLead | None
) -> None:
    gateway = f"defaults: {{max_fence_lead: {stated}}}"
    policies = written(tmp_path, payments=UPSTREAM + CHARGES, gateway=gateway)
    assert only_route(policies).terms.max_fence_lead == lead
    assert policies.gateway.max_fence_lead == lead


def test_words_of_yaml_are_plain_words_here(tmp_path: Path) -> None:
    route = 'routes: [{match: POST /on/010, entity: "off"}, {match: POST /1:30, entity: no}]'
    policies = written(tmp_path, payments=f"{UPSTREAM}{route}")
    assert [str(r.entity) for r in policies.routes] == ["off", "no"]
    assert [r.pattern.parts for r in policies.routes] == [("on", "010"), ("1:30",)]


def test_stated_status_wins_over_one_that_is_listed_by_default(tmp_path: Path) -> None:
    text = UPSTREAM + "  unknown_statuses: [429, 5xx]\n" + CHARGES
    statuses = only_route(written(tmp_path, payments=text)).statuses
    assert statuses.refused == {401, 403, 407, 425}
    assert statuses.unknown == {429, *range(500, 600)}


def test_stated_refused_status_is_no_longer_unknown(tmp_path: Path) -> None:
    text = UPSTREAM + "  refused_statuses: [503]\n" + CHARGES
    statuses = only_route(written(tmp_path, payments=text)).statuses
    assert statuses.refused == {503}
    assert 503 not in statuses.unknown
    assert 502 in statuses.unknown


def test_one_file_is_a_policy_too(tmp_path: Path) -> None:
    (tmp_path / "payments.yaml").write_text(UPSTREAM + CHARGES)
    (tmp_path / "broken.yaml").write_text("x")
    assert len(load(tmp_path / "payments.yaml", {}).routes) == 1


def test_other_and_hidden_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    (tmp_path / ".broken.yaml").write_text("x")
    (tmp_path / "crm.yml").write_text(UPSTREAM.replace("payments", "crm"))
    policies = written(tmp_path, payments=UPSTREAM + CHARGES)
    assert [upstream.name for upstream in policies.upstreams] == ["crm", "payments"]


# --- headers and secrets -------------------------------------------------------------------

AUTHORIZED = UPSTREAM + "  headers:\n    Authorization: Bearer ${KEY}-${OTHER}\n" + CHARGES


def test_headers_are_filled_in_from_the_environment(tmp_path: Path) -> None:
    policies = written(tmp_path, {"KEY": "k3y", "OTHER": "0ther"}, payments=AUTHORIZED)
    assert policies.upstreams[0].headers == ((b"Authorization", b"Bearer k3y-0ther"),)


def test_secret_is_in_no_repr(tmp_path: Path) -> None:
    policies = written(tmp_path, {"KEY": "k3y", "OTHER": "0ther"}, payments=AUTHORIZED)
    shown = (
        repr(policies)
        + repr(policies.routes[0].upstream)
        + repr(policies.find("GET", b"/payments"))
    )
    assert "payments" in shown
    assert "k3y" not in shown


@pytest.mark.parametrize(
    ("environ", "column", "wrong"),
    [
        ({"OTHER": "x"}, 27, "the environment variable KEY is not set"),
        ({"KEY": "", "OTHER": "x"}, 27, "the environment variable KEY is empty"),
        ({"KEY": "x"}, 34, "the environment variable OTHER is not set"),
        ({"KEY": "s3cret\n", "OTHER": "x"}, 20, "of `Authorization` must be printable ASCII"),
        ({"KEY": "s3crét", "OTHER": "x"}, 20, "of `Authorization` must be printable ASCII"),
        ({"KEY": "x", "OTHER": "s3cret "}, 20, "look for a line break in what is filled in"),
    ],
)
def test_variable_that_cannot_be_used_is_named_and_never_shown(
    tmp_path: Path, environ: dict[str, str], column: int, wrong: str
) -> None:
    ((place, said, example),) = problems(tmp_path, environ, payments=AUTHORIZED)
    assert place == f"payments.yaml:6:{column}"
    assert wrong in said
    assert "s3cr" not in said
    assert example == "headers:\n  Authorization: Bearer ${PAYMENTS_KEY}"


@pytest.mark.parametrize(
    ("header", "wrong"),
    [
        ("X-A: ${A", "`${` begins a reference and is not closed: ${NAME}, ${file:/path}"),
        ("X-A: ${A-B}", "a variable is ${NAME}, of letters, digits and _"),
        ('X-A: ""', "must be printable ASCII, not empty"),
        ('X-A: "a\\r\\nb"', "must be printable ASCII"),
        ("X-A: 1", "`X-A` must be a text; put it in quotes"),
    ],
)
def test_header_that_cannot_be_sent_is_refused(tmp_path: Path, header: str, wrong: str) -> None:
    text = f"{UPSTREAM}  headers:\n    {header}\n"
    ((place, said, _),) = problems(tmp_path, payments=text)
    assert place == f"payments.yaml:6:{5 + header.index(': ') + 2}"
    assert wrong in said


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("X A", "`X A` is no name of a header"),
        ("Host", "`Host` cannot be set here: the gateway writes or reads it itself"),
        ("content-length", "`content-length` cannot be set here"),
        ("X-Execution-Fence", "`X-Execution-Fence` cannot be set here"),
        ("Fencegate-Token", "`Fencegate-Token` cannot be set here"),
    ],
)
def test_name_that_cannot_be_set_is_refused_at_its_place(
    tmp_path: Path, name: str, wrong: str
) -> None:
    text = f"{UPSTREAM}  headers:\n    {name}: a\n"
    ((place, said, _),) = problems(tmp_path, payments=text)
    assert place == "payments.yaml:6:5"
    assert wrong in said


def test_header_in_two_cases_stands_twice(tmp_path: Path) -> None:
    text = f"{UPSTREAM}  headers:\n    X-A: a\n    x-a: b\n"
    assert [(place, wrong) for place, wrong, _ in problems(tmp_path, payments=text)] == [
        (
            "payments.yaml:7:5",
            "`x-a` stands twice: case does not count in the name of a header",
        )
    ]


# --- errors: the form ----------------------------------------------------------------------


def test_all_errors_of_all_files_are_said_at_once_one_per_paragraph(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as refused:
        written(
            tmp_path,
            gateway="gateway:\n  hold: 15\n",
            payments=UPSTREAM + "  timout: 30s\n  timeout: 30sec\n",
            crm="upstream: [",
        )
    paragraphs = str(refused.value).split("\n\n")
    assert [paragraph.partition(": ")[0].rpartition("/")[2] for paragraph in paragraphs] == [
        "crm.yaml:1:11",
        "gateway.yaml:2:9",
        "payments.yaml:5:3",
        "payments.yaml:6:12",
    ]
    assert paragraphs[2] == (
        f"{tmp_path}/payments.yaml:5:3: `timout` is no key here [FG004]\n"
        "     5 |   timout: 30s\n"
        "       |   ^ did you mean `timeout`?\n"
        "       = for example: timeout: 30s"
    )


# --- errors: YAML --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "wrong"),
    [
        ("a: b: c", "1:5", "`: ` within a value; a value that holds it must be quoted"),
        ("a: [", "1:4", "the `[` that opens here is never closed"),
        ("a: \0", "1:4", "YAML does not allow the character U+0000 here"),
        ("", "1:1", "the file is not a table of keys and values"),
        ("- a", "1:1", "the file is not a table of keys and values"),
        ("a: 1\n---\nb: 2", "2:1", "a second document begins here; a file has one"),
        ("- &x a\n- *x", "2:3", "`*` refers to another place; write the value out"),
    ],
)
def test_file_that_is_no_plain_table_is_refused(
    tmp_path: Path, text: str, place: str, wrong: str
) -> None:
    ((seen, said, _),) = problems(tmp_path, payments=text)
    assert seen == f"payments.yaml:{place}"
    assert wrong in said


def test_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "payments.yaml").write_bytes(b"upstream: \xff")
    assert problems(tmp_path) == [
        (
            "payments.yaml:1:11",
            "the file is not UTF-8 text: this is the byte 0xFF",
            "upstream:\n  name: payments\n  mount: /payments\n  url: https://api.payments.example",
        )
    ]


def test_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"nothing\.yaml:1:1: the file cannot be read: No such"):
        load(tmp_path / "nothing.yaml", {})


TRAPS = [
    ("  name: crm", "5:3", "`name` stands twice, in lines 2 and 5"),
    ("  timeout:", "5:3", "`timeout` has no value; give it one, or leave it out"),
    ("  timeout: ~", "5:3", "`timeout` has no value; give it one, or leave it out"),
    ("  key: {header.x-id}", "5:8", "a value that begins with { must be quoted"),
    ("  timeout: !!python/name:os.system 30s", "5:12", "policies have no tags"),
    ("  timeout: *name", "5:12", "`*` refers to another place; write the value out"),
    ("  ? [a]\n  : b", "5:5", "a key must be a word"),
    ("  <<: {timeout: 30s}", "5:3", "`<<` is no key here"),
]


@pytest.mark.parametrize(("line", "place", "wrong"), TRAPS)
def test_trap_of_yaml_is_an_error_at_its_place(
    tmp_path: Path, line: str, place: str, wrong: str
) -> None:
    ((seen, said, _),) = problems(tmp_path, payments=f"{UPSTREAM}{line}\n")
    assert seen == f"payments.yaml:{place}"
    assert wrong in said


# --- errors: keys and values ---------------------------------------------------------------

VALUES = [
    ("timeout: 30", "`timeout`: `30` has no unit; a duration ends in one of", "timeout: 30s"),
    ("timeout: 0s", "`timeout`: `0s` must be longer than 0", "timeout: 30s"),
    ("retention: 1w", "`retention`: `1w` has the unit `w`", "retention: 24h"),
    ("body_limit: 1MB", "`body_limit`: `1MB` has the unit `MB`", "body_limit: 1MiB"),
    (
        "on_unknown: resent",
        "`on_unknown`: `resent` is none of refuse, resend, probe; did you mean `resend`?",
        "on_unknown: refuse",
    ),
    ("on_unknown: ask", "`ask` is none of refuse, resend, probe", "on_unknown: refuse"),
    ("guard: half", "`guard`: `half` is none of full, key-only, fence-only, none", "guard: full"),
    ("predecessor: wait", "is none of refuse, proceed, ignore", "predecessor: refuse"),
    ("resend_limit: -1", "`-1` is no number from 0 to 100000", "resend_limit: 3"),
    ("resend_limit: true", "`true` is no number from 0 to 100000", "resend_limit: 3"),
    (
        "max_fence_lead: 9223372036854775808",
        "is no lead: clock+1d, a number from 1 to 9223372036854775807, or off",
        "max_fence_lead: clock+1d",
    ),
    ("max_fence_lead: 0", "`0` is no lead", "max_fence_lead: clock+1d"),
    ("max_fence_lead: true", "`true` is no lead", "max_fence_lead: clock+1d"),
    ("max_fence_lead: clock", "`clock` is no lead", "max_fence_lead: clock+1d"),
    ("max_fence_lead: clock+1", "`1` has no unit", "max_fence_lead: clock+1d"),
    ("entity: x:{body.a}", "`{body.a}`: a value comes from one of", "entity: invoice:{path.in"),
    ("entity: 5", "`entity`: must be a text; put it in quotes", "entity: invoice:{path.in"),
    ("key: fixed", "all calls would share one key", "key: payment:{path.invoice}:capture"),
    ("fingerprint: x", "`fingerprint` must be a table of keys and values", "fingerprint:\n  ign"),
    ("refused_statuses: 503", "`refused_statuses` must be a list", "refused_statuses: [401, "),
    (
        "kind: strip",
        "`kind` must be generic or stripe, not the text `strip`; did you mean",
        "kind: generic",
    ),
    (
        "key_window: forever",
        "`key_window`: `forever` is not a duration: a whole number and",
        "key_window: 24h",
    ),
    ("key_window: 0s", "`key_window`: `0s` must be longer than 0", "key_window: 24h"),
    ("timout: 30s", "`timout` is no key here; did you mean `timeout`?", "timeout: 30s"),
    ("hold: 15s", "`hold` is no key here; it belongs in `gateway`", "hold: 15s"),
    ("match: POST /", "`match` is no key here; it belongs in `routes`", "match: POST /v1/char"),
    ("zzz: 15s", "`zzz` is no key here; known are answer_limit, body_limit, connect", "upstream:"),
]


@pytest.mark.parametrize(("line", "wrong", "example"), VALUES)
def test_wrong_setting_is_met_with_what_is_wrong_and_what_would_be_right(
    tmp_path: Path, line: str, wrong: str, example: str
) -> None:
    ((place, said, shown),) = problems(tmp_path, payments=f"{UPSTREAM}  {line}\n")
    key, _, value = line.partition(": ")
    at_key = "is no key here" in wrong
    part = {"clock+1": "1", "x:{body.a}": "{body.a}"}.get(value, value)
    assert place == f"payments.yaml:5:{3 if at_key else 3 + len(key) + 2 + value.index(part)}"
    assert wrong in said
    assert shown.startswith(example)


ITEMS = [
    ("refused_statuses: [401, 200]", "200", "item 2 of `refused_statuses`: `200` says that work"),
    ("refused_statuses: [4xx, 3xx]", "3xx", "item 2 of `refused_statuses`: `3xx` says that work"),
    ("unknown_statuses: [600]", "600", "item 1 of `unknown_statuses`: `600` is no status from 200"),
    ("unknown_statuses: [1xx]", "1xx", "item 1 of `unknown_statuses`: `1xx` is no status from 200"),
    ("fingerprint: {ignore: [a]}", "a]", "item 1 of `ignore`: 'a' is not a JSON pointer"),
    ('fingerprint: {ignore: [""]}', '""', "item 1 of `ignore`: the whole body cannot be left out"),
    ("fingerprint: {headers: [a b]}", "a b", "item 1 of `headers`: `a b` is no name of a header"),
    (
        "fingerprint: {headers: [X-Execution-Fence]}",
        "X-",
        "`X-Execution-Fence` differs between the tries of one call; it cannot count",
    ),
]


@pytest.mark.parametrize(("line", "item", "wrong"), ITEMS)
def test_wrong_item_of_a_list_is_said_at_its_own_place(
    tmp_path: Path, line: str, item: str, wrong: str
) -> None:
    ((place, said, _),) = problems(tmp_path, payments=f"{UPSTREAM}  {line}\n")
    assert place == f"payments.yaml:5:{3 + line.index(item)}"
    assert wrong in said


IDENTITIES = [
    ("name: Payments!", "2:9", "`name`: `Payments!`: a name is at most 63 of a-z, 0-9, - and _"),
    ("mount: payments", "3:10", "`payments`: a mount is /word, or / for everything"),
    ("mount: /payments/", "3:10", "`/payments/`: a mount is /word"),
    ("mount: /a/../b", "3:10", "the path has a dot segment"),
    ("mount: /_fencegate/x", "3:10", "`/_fencegate` is the gateway's own"),
    ("url: payments.example", "4:8", "a URL begins with http:// or https:// and names a host"),
    ("url: ftp://a", "4:8", "a URL begins with http:// or https://"),
    ("url: http:///a", "4:8", "a URL begins with http:// or https:// and names a host"),
    ("url: http://u:s3cret@a", "4:8", "a URL has no user and no password here"),
    ("url: http://a?k=s3cret", "4:8", "a URL has no query and no fragment here"),
    ("url: http://a:0", "4:8", "the port of a URL is a number from 1 to 65535"),
    ("url: http://a:99999", "4:8", "the port of a URL is a number from 1 to 65535"),
    ("url: http://a/b/../c", "4:8", "the path has a dot segment"),
    ("url: http://a/b//c", "4:8", "the path has an empty segment"),
    ("url: http://é", "4:8", "a URL is printable ASCII without spaces"),
]


@pytest.mark.parametrize(("line", "place", "wrong"), IDENTITIES)
def test_wrong_identity_of_an_upstream_is_refused(
    tmp_path: Path, line: str, place: str, wrong: str
) -> None:
    key = line.partition(":")[0]
    text = re.sub(rf"^  {key}: .*$", lambda _: f"  {line}", UPSTREAM, flags=re.MULTILINE)
    ((seen, said, _),) = problems(tmp_path, payments=text)
    assert seen == f"payments.yaml:{place}"
    assert wrong in said
    assert "s3cret" not in said


def test_missing_key_is_said_where_it_should_stand(tmp_path: Path) -> None:
    text = UPSTREAM.replace("  mount: /payments\n", "") + "routes:\n  - entity: charges\n"
    assert problems(tmp_path, payments=text) == [
        ("payments.yaml:1:1", "`mount` is missing", "mount: /payments"),
        ("payments.yaml:5:5", "`match` is missing", "match: POST /v1/charges/{charge}"),
    ]


def test_key_of_the_gateway_in_an_upstream_is_sent_home(tmp_path: Path) -> None:
    text = UPSTREAM + "defaults:\n  timeout: 30s\n"
    ((place, wrong, _),) = problems(tmp_path, payments=text)
    assert (place, wrong) == (
        "payments.yaml:5:1",
        "`defaults` is no key here; it belongs in gateway.yaml",
    )


# --- errors: contradictions ----------------------------------------------------------------


def test_guarded_route_without_entity_is_refused(tmp_path: Path) -> None:
    text = UPSTREAM + "routes:\n  - match: GET|POST /v1/charges\n"
    assert problems(tmp_path, payments=text) == [
        (
            "payments.yaml:6:12",
            "`GET|POST /v1/charges` is guarded and has no `entity`: what does it change?",
            "entity: invoice:{path.invoice}",
        )
    ]


@pytest.mark.parametrize("route", ["match: GET /v1/charges", "{match: POST /v1, guard: none}"])
def test_route_that_guards_nothing_needs_no_entity(tmp_path: Path, route: str) -> None:
    text = f"{UPSTREAM}routes:\n  - {route}\n"
    assert only_route(written(tmp_path, payments=text)).guard is Guard.NONE


def test_value_that_the_pattern_does_not_capture_is_refused(tmp_path: Path) -> None:
    gateway = "defaults:\n  entity: charge:{path.charge}\n"
    text = f"{UPSTREAM}routes:\n  - match: POST /v1/charges\n    key: k:{{path.a}}\n"
    assert problems(tmp_path, payments=text, gateway=gateway) == [
        (
            "gateway.yaml:2:18",
            "`{path.charge}` is not captured by `POST /v1/charges`",
            "match: POST /v1/charges/{charge}",
        ),
        (
            "payments.yaml:7:12",
            "`{path.a}` is not captured by `POST /v1/charges`",
            "match: POST /v1/charges/{a}",
        ),
    ]


@pytest.mark.parametrize(
    ("gateway", "upstream", "route", "place"),
    [
        ("{}", "", "    on_unknown: resend\n", "payments.yaml:8:17"),
        ("{}", "  on_unknown: resend\n", "", "payments.yaml:5:15"),
        ("{on_unknown: resend}", "", "", "gateway.yaml:1:24"),
    ],
)
def test_resend_without_a_key_window_is_refused_where_it_stands(
    tmp_path: Path, gateway: str, upstream: str, route: str, place: str
) -> None:
    text = UPSTREAM + upstream + CHARGES + route
    assert problems(tmp_path, payments=text, gateway=f"defaults: {gateway}") == [
        (
            place,
            "`resend` needs `key_window`: how long `payments` remembers a key, and answers a"
            " repeated one without doing its work again; if it does not, only `refuse` is safe",
            "",
        )
    ]


def test_key_window_in_which_nothing_could_be_resent_is_refused(tmp_path: Path) -> None:
    text = UPSTREAM + "  key_window: 30s\n  on_unknown: resend\n" + CHARGES
    ((place, wrong, _),) = problems(tmp_path, payments=text)
    assert (place, wrong) == (
        "payments.yaml:5:15",
        "`key_window` must be longer than `timeout`, or nothing could be resent",
    )


def test_status_in_both_lists_is_refused(tmp_path: Path) -> None:
    text = UPSTREAM + "  refused_statuses: [503]\n" + CHARGES + "    unknown_statuses: [5xx]\n"
    ((place, wrong, _),) = problems(tmp_path, payments=text)
    assert (place, wrong) == (
        "payments.yaml:9:23",
        "503 stands in `refused_statuses` and in `unknown_statuses`",
    )


def test_two_upstreams_with_one_name_and_one_mount_are_refused(tmp_path: Path) -> None:
    first = f"in {tmp_path}/a.yaml"
    assert [(place, wrong) for place, wrong, _ in problems(tmp_path, a=UPSTREAM, b=UPSTREAM)] == [
        ("b.yaml:2:9", f"`payments` is the name of another upstream too, {first}:2:9"),
        ("b.yaml:3:10", f"`/payments` is the mount of another upstream too, {first}:3:10"),
    ]


@pytest.mark.parametrize("files", [{}, {"gateway": "gateway: {hold: 15s}"}])
def test_folder_without_an_upstream_is_refused(tmp_path: Path, files: dict[str, str]) -> None:
    ((place, wrong, _),) = problems(tmp_path, **files)  # type: ignore[arg-type]
    assert place == f"{tmp_path}:1:1"
    assert wrong == "there is no upstream here: each has one file, beside gateway.yaml"


def test_broken_gateway_file_does_not_hide_or_invent_other_errors(tmp_path: Path) -> None:
    seen = problems(
        tmp_path,
        gateway="defaults: {entity: 5}",
        payments=AUTHORIZED + "  - match: POST /v1/refunds\n",
    )
    assert [(place, wrong) for place, wrong, _ in seen] == [
        ("gateway.yaml:1:20", "`entity`: must be a text; put it in quotes"),
        ("payments.yaml:6:27", "the environment variable KEY is not set"),
    ]


# --- TLS -----------------------------------------------------------------------------------


def with_tls(folder: Path, tls: str) -> str:
    secure = UPSTREAM.replace("http://", "https://")
    return f"{secure}  tls: {{{tls.format(folder=folder)}}}\n{CHARGES}"


def test_another_certificate_under_the_same_name_is_another_policy(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    text = with_tls(tmp_path, "ca: {folder}/ca.pem")
    before = written(tmp_path, payments=text)
    assert written(tmp_path, payments=text) == before
    (tmp_path / "ca.pem").write_text(f"renewed\n{CERTIFICATE}")
    assert written(tmp_path, payments=text) != before


@pytest.mark.parametrize(
    ("tls", "wrong"),
    [
        ("ca: {folder}/none.pem", "No such file or directory"),
        ("ca: {folder}/payments.yaml", "the files cannot be used"),
        ("key: {folder}/key.pem", "`key` stands alone"),
    ],
)
def test_files_that_cannot_be_used_for_tls_are_said(tmp_path: Path, tls: str, wrong: str) -> None:
    ((_, said, _),) = problems(tmp_path, payments=with_tls(tmp_path, tls))
    assert wrong in said


def test_a_shadow_is_that_of_the_first_that_covers(tmp_path: Path) -> None:
    """Whichever way they are found: by their first segment, or because that may be any."""
    earlier = ["POST /a/**", "POST /{x}/**"]
    for first, second in (earlier, earlier[::-1]):
        matches = "".join(
            f"  - {{match: '{m}', entity: e}}\n" for m in (first, second, "POST /a/b")
        )
        said = problems(tmp_path, payments=f"{UPSTREAM}routes:\n{matches}")
        assert f"`{first}` in line 6 takes all of its calls" in said[-1][1]


def test_a_secret_file_is_read_once_a_check_and_anew_for_the_next(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    text = UPSTREAM + f"  fence_secret: ${{file:{secret}}}\n" + CHARGES
    outside = Outside({})
    (tmp_path / "payments.yaml").write_text(text)
    first = check(tmp_path, outside).policies
    secret.write_text("fedcba9876543210")
    second = check(tmp_path, outside).policies
    assert first is not None
    assert second is not None
    assert first.routes[0].fence_secret == b"0123456789abcdef"
    assert second.routes[0].fence_secret == b"fedcba9876543210"
