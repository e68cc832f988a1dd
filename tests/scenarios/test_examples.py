"""The policies that come with the project, before APIs like those they are written for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fencegate.ledger.memory import MemoryLedger
from fencegate.policy import Severity, check
from fencegate.policy.injected import Outside
from tests.double import Double, do_err, ok
from tests.gateway.peers import upstream_up
from tests.gateway.rig import Gateway, Got, ask, serving

EXAMPLES = Path(__file__).parents[2] / "policies"
FORM = ("Content-Type", "application/x-www-form-urlencoded")
JSON = ("Content-Type", "application/json")


@pytest.fixture
def double() -> Iterator[Double]:
    with upstream_up() as upstream:
        yield upstream


@asynccontextmanager
async def gateway_before(double: Double, folder: Path) -> AsyncIterator[Gateway]:
    """All examples, each with the double in the place of its API."""
    for file in EXAMPLES.glob("*.yaml"):
        text = file.read_text()
        for number in range(4):
            text = text.replace(f"http://localhost:900{number}", double.url)
        (folder / file.name).write_text(text)
    checked = check(folder, Outside({}))
    assert checked.problems == ()
    assert checked.policies is not None
    async with serving(checked.policies, MemoryLedger()) as gateway:
        yield gateway


async def call(
    gateway: Gateway, path: str, body: str, *lines: tuple[str, str], method: str = "POST"
) -> Got:
    return await ask(gateway.port, method, path, lines, body.encode())


def fence(number: int) -> tuple[str, str]:
    return ("X-Execution-Fence", str(number))


def key(text: str) -> tuple[str, str]:
    return ("Idempotency-Key", text)


def decided(got: Got) -> str | None:
    return got.header("fencegate-decision")


def test_the_examples_have_neither_errors_nor_warnings() -> None:
    checked = check(EXAMPLES, Outside({}))
    assert [problem for problem in checked.problems if problem.severity is Severity.ERROR] == []
    assert checked.problems == ()


async def test_a_payment_api_is_sent_a_key_made_of_the_invoice(
    double: Double, tmp_path: Path
) -> None:
    async with gateway_before(double, tmp_path) as gateway:
        form = "amount=200&metadata[invoice]=8812"
        first = await call(gateway, "/payments/v1/charges", form, FORM, fence(41))
        retry = await call(gateway, "/payments/v1/charges", form, FORM, fence(42))
        other = "amount=200&metadata[invoice]=8813"
        other_account = await call(
            gateway, "/payments/v1/charges", form, FORM, fence(42), ("Stripe-Account", "acct_2")
        )
        assert (await call(gateway, "/payments/v1/charges", other, FORM, fence(41))).status == 201
    assert (decided(first), decided(retry)) == ("forwarded", "replayed")
    assert (other_account.code, other_account.problem["differs"]) == ("key_reused", ["headers"])
    assert [hit.header("idempotency-key") for hit in double.hits] == [
        "payment:8812:charge",
        "payment:8813:charge",
    ]


async def test_a_payment_that_ended_unknown_is_sent_again_under_its_key(
    double: Double, tmp_path: Path
) -> None:
    async with gateway_before(double, tmp_path) as gateway:
        double.script = [do_err(500), ok(201)]
        form = "amount=200&metadata[invoice]=8812"
        lost = await call(gateway, "/payments/v1/charges", form, FORM, fence(41))
        again = await call(gateway, "/payments/v1/charges", form, FORM, fence(41))
    assert (lost.status, lost.header("fencegate-outcome")) == (500, "unknown")
    assert (again.status, decided(again)) == (201, "forwarded")
    keys = {hit.header("idempotency-key") for hit in double.hits}
    assert (len(double.hits), keys) == (2, {"payment:8812:charge"})


async def test_a_crm_keeps_no_phone_numbers(double: Double, tmp_path: Path) -> None:
    async with gateway_before(double, tmp_path) as gateway:
        double.script = [ok(200, b'{"id":7,"phone":"+1 555"}')]
        said = '{"version":3,"phone":"+1 555"}'
        first = await call(gateway, "/crm/customers/7", said, JSON, fence(41), method="PUT")
        again = await call(gateway, "/crm/customers/7", said, JSON, fence(41), method="PUT")
    assert b"555" in first.body
    assert (again.body, again.header("fencegate-redacted")) == (b'{"id":7}', "true")
    assert double.hits[0].target == "/api/customers/7"


async def test_a_mail_goes_once_whoever_holds_the_customer(double: Double, tmp_path: Path) -> None:
    async with gateway_before(double, tmp_path) as gateway:
        path = "/crm/customers/7/mails"
        first = await call(gateway, path, "{}", JSON, key("m1"))
        again = await call(gateway, path, "{}", JSON, key("m1"), fence(1))
    assert (decided(first), decided(again), len(double.hits)) == ("forwarded", "replayed", 1)


async def test_an_envelope_is_replayed_under_a_new_fence(double: Double, tmp_path: Path) -> None:
    async with gateway_before(double, tmp_path) as gateway:

        async def command(fence: int, amount: int = 5, *lines: tuple[str, str]) -> Got:
            said = (
                f'{{"execution_fence":{fence},"idempotency_key":"c1",'
                f'"payload":{{"account":9,"amount":{amount}}}}}'
            )
            return await call(gateway, "/jobs/v2/commands/pay", said, JSON, *lines)

        first, again = await command(41), await command(42)
        reused, late = await command(42, 6), await command(41)
        disagree = await command(42, 5, fence(43))
    assert (decided(first), decided(again)) == ("forwarded", "replayed")
    assert reused.code == "key_reused"
    assert (decided(late), late.header("fencegate-fence")) == ("replayed", "stale")
    assert (disagree.status, disagree.code) == (400, "fence_invalid")
    assert len(double.hits) == 1


async def test_an_old_service_gets_each_document_once(double: Double, tmp_path: Path) -> None:
    async with gateway_before(double, tmp_path) as gateway:
        path = "/warehouse/stock/4711/move?from=A&document=D1"
        first = await call(gateway, path, "", fence(41))
        again = await call(gateway, path, "", fence(42))
        other = await call(gateway, path.replace("D1", "D2"), "", fence(42))
        count = await call(gateway, "/warehouse/stock/4711/count", "n=3", FORM, fence(41))
        report = await call(gateway, "/warehouse/report", "", FORM)
        read = await call(gateway, "/warehouse/stock/4711", "", method="GET")
    assert [decided(got) for got in (first, again, other)] == ["forwarded", "replayed", "forwarded"]
    assert (count.status, count.code) == (412, "stale_fence")
    assert (decided(report), decided(read)) == ("passed", "passed")
    assert double.hits[0].target == "/cgi-bin/stock/4711/move?from=A&document=D1"
