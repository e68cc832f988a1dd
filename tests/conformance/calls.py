"""Calls, terms and outcomes as the suite needs them."""

from __future__ import annotations

from fencegate.core.attempts import AttemptIds
from fencegate.core.fingerprint import PARTS, Fingerprint, Scheme
from fencegate.core.model import (
    DAY,
    Asked,
    AttemptId,
    Call,
    Decision,
    EntityId,
    Go,
    OnUnknown,
    RecordId,
    Refuse,
    Terms,
)
from fencegate.core.outcomes import (
    Answer,
    Doubt,
    Evidence,
    NotSent,
    OutcomeUnknown,
    RefusedBeforeWork,
    Responded,
    Unsent,
)
from fencegate.core.reasons import Reason
from fencegate.ledger.protocol import Act, Told

SAME = Fingerprint(Scheme(), tuple(bytes([number]) * 32 for number in range(len(PARTS))))
OTHER = Fingerprint(Scheme(), (*SAME.parts[:-1], b"\xff" * 32))

ANSWER = Answer(
    201,
    ((b"link", b"<a>"), (b"date", b"today"), (b"link", b"<b>"), (b"x-name", b"caf\xe9\xff")),
    bytes(range(256)),
)
ANSWERED = Responded(ANSWER)
DECLINED = Responded(Answer(402, (), b"declined"))
TOO_LARGE = Responded(ANSWER.unkept())
REFUSED = RefusedBeforeWork(429)
UNSENT = NotSent(Unsent.NO_CONNECTION)
UNDONE = NotSent(Unsent.ACKNOWLEDGEMENT_UNCLEAR)
IN_DOUBT = OutcomeUnknown(Evidence(Doubt.UNKNOWN_STATUS, 503))

TERMS = Terms(max_fence_lead=None)
RESEND = Terms(max_fence_lead=None, on_unknown=OnUnknown.RESEND, key_window=30 * DAY)
HOLD = TERMS.hold
ACT = Act("ops@example", "the bank has confirmed it")
INVOICE = EntityId("", "invoice:8812")

FIRST = Asked()

new_attempt = AttemptIds("test")


def call(
    key: str = "capture",
    fence: int = 1,
    *,
    entity: EntityId = INVOICE,
    upstream: str = "payments",
    caller: str | None = "agents",
    credential: str = "",
    prints: tuple[Fingerprint, ...] = (SAME,),
    attempt: AttemptId | None = None,
    holder: str | None = None,
    asked: Asked = FIRST,
) -> Call:
    """A call with an attempt id of its own."""
    attempt = attempt or new_attempt()
    return Call(upstream, caller, credential, entity, fence, key, prints, attempt, holder, asked)


def record_id(key: str = "capture", *, caller: str | None = "agents") -> RecordId:
    return RecordId("payments", caller, key)


def went(told: Told[Decision]) -> Go:
    assert isinstance(told.verdict, Go), told
    return told.verdict


def refused(told: Told[Decision]) -> Reason:
    assert isinstance(told.verdict, Refuse), told
    return told.verdict.reason
