"""The corpus of broken policies: what is said of each, to the letter, and that no secret is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from fencegate.policy import CODES, Code, Outside, PolicyError, Severity, check, load
from fencegate.policy.documents import Problem, as_json, read_document
from fencegate.policy.faults import NotYaml
from fencegate.policy.parsing import FAST, compose
from tests.policy.broken import ENVIRON, FOLDERS, SECRET, said

FILES = sorted(file for folder in FOLDERS for file in folder.glob("*.y*ml"))
UPSTREAM = """\
upstream:
  name: payments
  mount: /payments
  url: http://api.payments.example
"""
folders = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
files = pytest.mark.parametrize("file", FILES, ids=lambda f: f"{f.parent.name}/{f.name}")


def found(folder: Path, text: str) -> tuple[Problem, ...]:
    """What is wrong with the file of an upstream; that nobody is asked is meant so."""
    (folder / "gateway.yaml").write_text("callers: off\n")
    (folder / "payments.yaml").write_text(text, encoding="utf-8", newline="")
    return check(folder, Outside({})).problems


# --- the corpus ----------------------------------------------------------------------------


@folders
def test_what_is_said_is_what_somebody_looked_at(folder: Path) -> None:
    assert said(folder) == (folder / "expected.txt").read_text(encoding="utf-8")


@folders
def test_no_secret_is_said(folder: Path) -> None:
    assert SECRET not in (folder / "expected.txt").read_text(encoding="utf-8")
    for problem in check(folder, Outside(ENVIRON)).problems:
        assert SECRET not in f"{problem!r}{as_json(problem)}"


@folders
def test_what_is_said_drives_no_terminal(folder: Path) -> None:
    text = said(folder)
    assert not [c for c in text if not c.isprintable() and c != "\n"]


@folders
def test_folder_with_an_error_is_not_loaded(folder: Path) -> None:
    problems = check(folder, Outside(ENVIRON)).problems
    if any(problem.severity is Severity.ERROR for problem in problems):
        with pytest.raises(PolicyError) as refused:
            load(folder, ENVIRON)
        assert refused.value.problems == problems
    else:
        load(folder, ENVIRON)


def test_corpus_is_worth_its_name() -> None:
    assert len(FOLDERS) >= 80
    secrets = [file for file in FILES if SECRET.encode() in file.read_bytes()]
    assert len(secrets) >= 15


def test_every_kind_of_problem_of_files_is_in_the_corpus() -> None:
    expected = "".join((f / "expected.txt").read_text(encoding="utf-8") for f in FOLDERS)
    elsewhere = {Code.IDENTITY_CHANGED, Code.NOT_BUILT, Code.LEDGER_AWAY, Code.UPSTREAM_AWAY}
    assert {code for code in Code if f"[{code}]" not in expected} <= elsewhere


def test_every_code_is_explained() -> None:
    assert CODES.keys() == set(Code)
    for kind in CODES.values():
        assert not kind.title.endswith(".")
        assert kind.meaning.endswith(".")
        assert 2 <= kind.meaning.count(". ") + 1 <= 4


# --- both parsers --------------------------------------------------------------------------


@files
def test_both_parsers_of_yaml_read_the_same(file: Path) -> None:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return  # neither is asked
    if "\t" in text:
        return  # they have different opinions of tabs: only one is asked
    assert parsed(text, FAST) == parsed(text, yaml.SafeLoader)


def parsed(text: str, loader: object) -> object:
    try:
        return compose(text, loader)
    except (yaml.YAMLError, NotYaml) as error:
        return isinstance(error, NotYaml)


@files
def test_errors_do_not_depend_on_the_parser(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = read_document(file, "x.yaml")
    monkeypatch.setattr("fencegate.policy.parsing.FAST", yaml.SafeLoader)
    slow = read_document(file, "x.yaml")
    assert list(map(str, fast[1])) == list(map(str, slow[1]))
    assert (fast[0] is None) == (slow[0] is None)
    if fast[0] and slow[0]:
        assert (fast[0].values, fast[0].places) == (slow[0].values, slow[0].places)
        assert fast[0].value_places == slow[0].value_places


def test_thousand_lines_are_checked_while_nobody_waits(tmp_path: Path) -> None:
    route = "  - match: POST /v1/r{}/{{id}}\n    entity: r:{{path.id}}\n    timeout: 10s\n"
    text = UPSTREAM + "routes:\n" + "".join(route.format(i) for i in range(332))
    found(tmp_path, text)  # what is made once is made
    before = time.perf_counter()
    assert found(tmp_path, text) == ()
    assert time.perf_counter() - before < 1  # 0.15 s, on a machine with other things to do


# --- broken at any place -------------------------------------------------------------------

SIGNS = ('"', "'", "{", "}", "[", "]", ": ", "\t", "\n", "- ", "#", "*", "&", "|", "%", "\u00a0")
STRIDE = 13  # of the places, so that it takes a second


@pytest.mark.parametrize("sign", SIGNS)
def test_sign_at_any_place_is_met_with_words_and_no_secret(tmp_path: Path, sign: str) -> None:
    text = f"""\
{UPSTREAM}  headers:
    Authorization: Bearer ${{KEY}}
    X-Key: {SECRET}
    X-More: "{SECRET}, {SECRET}"
  timeout: 30s
routes:
  - {{match: POST /v1/charges, entity: charges, refused_statuses: [401, 503]}}
"""
    hidden = range(text.index("headers"), text.index("timeout"))  # is none under another key
    for at in set(range(0, len(text), STRIDE)).difference(hidden):
        changed = text[:at] + sign + text[at:]
        for problem in found(tmp_path, changed):
            assert "this is not YAML" not in problem.wrong, changed
            assert SECRET not in str(problem), changed


# --- the form ------------------------------------------------------------------------------


def test_problem_is_a_line_a_frame_and_an_example(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, UPSTREAM + "  fingerprint: {ignored: [/a]}\n")
    assert str(problem) == (
        f"{tmp_path}/payments.yaml:5:17: `ignored` is no key here [FG004]\n"
        "     5 |   fingerprint: {ignored: [/a]}\n"
        "       |                 ^ did you mean `ignore`?\n"
        "       = for example: ignore: [/sent_at]"
    )


def test_problem_for_programs_has_what_people_read(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, UPSTREAM + "  on_unknown: resent\n")
    assert as_json(problem) == {
        "file": f"{tmp_path}/payments.yaml",
        "line": 5,
        "column": 15,
        "code": "FG006",
        "severity": "error",
        "message": "`on_unknown`: `resent` is none of refuse, resend, probe",
        "hint": "did you mean `resend`?",
        "example": "on_unknown: refuse",
    }


def test_problems_are_compared_by_what_they_say_and_sorted_by_place(tmp_path: Path) -> None:
    text = UPSTREAM + "  zzz: 1\nroutes:\n" + "  - match: POST\n" * 12
    problems = found(tmp_path, text)
    assert [problem.place.line for problem in problems] == [5, *range(7, 19)]
    assert PolicyError([*reversed(problems), *problems]).problems == problems


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        (
            "headers: {X-A: s3cret-of-any-length, X-B: '${A}'}, ",
            "headers: {X-A: ***, X-B: '${A}'}, ",
        ),
        ("headers: {X-A: s}, ", "headers: {X-A: ***}, "),
        ("name: x, url: 'http://u:s3cret@host/', ", "name: x, url: 'http://***@host/', "),
        ("tls: {key: [s3cret]}, name: 'a\tb', ", "tls: {key: [***]}, name: 'a b', "),
        ("fence_secret: 'it''s: s3cret', ", "fence_secret: '***', "),
        ('token_sha256: [s3cret, "s3cret\\" ]"], ', 'token_sha256: [***, "***"], '),
        ("請求書: 支払い, ", "請求書: 支払い, "),
        ("mount: /" + "x" * 200 + ", ", None),
    ],
)
def test_caret_stands_right_behind_what_is_hidden_or_cut(
    tmp_path: Path, before: str, shown: str | None
) -> None:
    problems = found(tmp_path, f"upstream: {{{before}timeuot: 30s}}\n")
    (problem,) = [p for p in problems if p.hint == "did you mean `timeout`?"]
    frame, caret = str(problem).split("\n")[1:3]
    if shown is not None:
        assert frame == f"     1 | upstream: {{{shown}timeuot: 30s}}"
    assert frame[caret.index("^") :].startswith("timeuot")
    assert len(frame) <= 130


def test_place_that_is_folded_away_is_that_of_the_whole_value(tmp_path: Path) -> None:
    header = "  headers:\n    Authorization: >\n      Bearer\n      ${NOWHERE}\n"
    (problem,) = found(tmp_path, UPSTREAM + header)
    assert (problem.place.line, problem.place.column) == (6, 20)


# --- one slip does not hide or invent another ----------------------------------------------


def test_route_that_is_lost_moves_no_place_of_the_others(tmp_path: Path) -> None:
    text = UPSTREAM + (
        "routes:\n"
        "  - match: POST\n"
        "  - match: POST /v1/charges\n"
        "    entity: charge:{path.charge}\n"
        "  - guard: none\n"
        "  - match: POST /v1/refunds\n"
    )
    said = [(p.place.line, p.code) for p in found(tmp_path, text)]
    assert said == [
        (6, Code.WRONG_VALUE),
        (8, Code.NOT_CAPTURED),
        (9, Code.MISSING_KEY),
        (10, Code.NO_ENTITY),
    ]


@pytest.mark.parametrize("entity", ["entitiy: charges", "entity: 5", "entity: {path.x}", "entity:"])
def test_entity_that_is_wrong_is_not_called_missing_too(tmp_path: Path, entity: str) -> None:
    text = f"{UPSTREAM}routes:\n  - match: GET /**\n  - match: POST /v1\n    {entity}\n"
    (problem,) = found(tmp_path, text)
    assert problem.place.line == 8


def test_key_that_is_misspelt_beside_the_right_one_does_not_hide_it(tmp_path: Path) -> None:
    text = UPSTREAM + "  timout: 30s\n  timeout: 1d\nroutes: [{match: POST /, entity: a}]\n"
    assert [p.code for p in found(tmp_path, text)] == [Code.UNKNOWN_KEY]


# --- riddles -------------------------------------------------------------------------------

RIDDLES = [
    "? fence_secret\n: s3cret-s3cret-s3cret\n",
    "? token_sha256\n: [s3cret-s3cret]\n",
    '"fence\\u005fsecret": s3cret-s3cret-s3cret\n',
    '"token\\u005fsha256": [s3cret-s3cret]\n',
    '"head\\u0065rs":\n  A: "s3cret \\x01"\n',
    'url: "http:\\x2f/u:s3cret@h"\n',
    "auth: Bearer s3cret-s3cret\n",
    "bearer: s3cret-s3cret\n",
    "fence_hmac: s3cret-s3cret\n",
]


@pytest.mark.parametrize("lines", RIDDLES)
@pytest.mark.parametrize("home", ["upstream", "gateway"])
def test_a_secret_in_an_odd_place_is_not_shown(tmp_path: Path, lines: str, home: str) -> None:
    indented = "".join(f"  {line}\n" for line in lines.splitlines())
    (tmp_path / "api.yaml").write_text(
        "upstream:\n  name: api!\n  mount: /a\n" + (indented if home == "upstream" else "")
    )
    (tmp_path / "gateway.yaml").write_text(
        "gateway:\n  hold: 1\n" + (indented if home == "gateway" else "")
    )
    problems = check(tmp_path, Outside({})).problems
    assert problems
    assert "s3cret" not in "".join(map(str, problems))
