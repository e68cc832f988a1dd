"""The judge bites: each rule, on a log that breaks it and on its like that does not."""

from __future__ import annotations

import json

from tests.crash.checker import Answer, Call, Headers, Log, Said, Write, judge

JSON: Headers = (("Content-Type", "application/json"), ("X-Charge", "1"))
DONE = Answer(201, JSON, b'{"charge":1}')


def call(id: str, fence: int = 41, key: str = "k", body: bytes = b"{}") -> Call:
    return Call(id, "e", fence, key, body)


def forwarded(answer: Answer = DONE, water: int = 41) -> Answer:
    return _marked(answer, "forwarded", water)


def replayed(answer: Answer = DONE, water: int = 41, extra: Headers = ()) -> Answer:
    return _marked(answer, "replayed", water, (("idempotency-replayed", "true"), *extra))


def refused(code: str, status: int, water: int = 41, *, sent: bool | None = True) -> Answer:
    body = json.dumps({"code": code, "sent": sent}).encode()
    return _marked(
        Answer(status, (("content-type", "application/problem+json"),), body), "refused", water
    )


def _marked(answer: Answer, decision: str, water: int, extra: Headers = ()) -> Answer:
    ours = (("fencegate-decision", decision), ("fencegate-high-water", str(water)), *extra)
    return Answer(answer.status, answer.headers + ours, answer.body)


def said(call: Call, at: float, answer: Answer | None) -> Said:
    return Said(call, at, at + 1, answer)


def write(call: Call, at: float, effects: int = 1, answer: Answer | None = DONE) -> Write:
    return Write(call, at, effects, answer)


def verdict(said: list[Said], writes: list[Write]) -> list[str]:
    return judge(Log(tuple(said), tuple(writes)))


def test_a_truthful_log_has_no_violations() -> None:
    first, retry, zombie, late = call("1"), call("2", 42), call("3", 41, "z"), call("4", 41)
    log = [
        said(first, 0, forwarded()),
        said(retry, 2, replayed(water=42)),
        said(zombie, 4, refused("stale_fence", 412, 42, sent=False)),
        said(late, 6, replayed(water=42, extra=(("fencegate-fence", "stale"),))),
        said(call("5", 42, "other"), 8, refused("not_sent", 502, 42, sent=False)),
        said(call("6", 42, "other"), 10, None),
    ]
    assert verdict(log, [write(first, 0.5), write(call("6", 42, "other"), 10.5)]) == []


def test_two_effects_under_a_key_are_seen() -> None:
    one, two = call("1"), call("2")
    assert verdict(
        [said(one, 0, None), said(two, 2, None)], [write(one, 0.5), write(two, 2.5)]
    ) == ["k had 2 effects, by 1, 2"]


def test_a_success_without_an_effect_is_seen() -> None:
    assert verdict([said(call("1"), 0, forwarded())], []) == [
        "1 (k with fence 41) was answered 201 forwarded, and its key had 0 effects"
    ]


def test_a_success_for_another_body_is_seen() -> None:
    one, two = call("1", body=b"5"), call("2", body=b"6")
    log = [said(one, 0, forwarded()), said(two, 2, replayed())]
    assert verdict(log, [write(one, 0.5)]) == [
        "2 (k with fence 41) was answered 201 replayed, and the effect was that of 1's body"
    ]


def test_a_replay_that_differs_in_a_byte_of_its_body_is_seen() -> None:
    other = Answer(201, JSON, b'{"charge": 1}')
    log = [said(call("1"), 0, forwarded()), said(call("2"), 2, replayed(other))]
    assert verdict(log, [write(call("1"), 0.5)]) == [
        "the replay to 2 (k with fence 41) is not the first answer, byte for byte"
    ]


def test_a_replay_that_lacks_a_field_is_seen() -> None:
    other = Answer(201, JSON[:1], DONE.body)
    log = [said(call("1"), 0, None), said(call("2"), 2, replayed(other))]
    assert verdict(log, [write(call("1"), 0.5)]) == [
        "the replay to 2 (k with fence 41) is not the first answer, byte for byte"
    ]


def test_a_replay_of_an_answer_that_is_not_kept_is_seen() -> None:
    error = Answer(500, JSON, b"{}")
    log = [said(call("1"), 0, forwarded(error)), said(call("2"), 2, replayed(error))]
    assert verdict(log, [write(call("1"), 0.5, answer=error)]) == [
        "2 (k with fence 41) was replayed 500 replayed, and the upstream never gave an answer"
    ]


def test_unsent_said_after_an_effect_is_seen() -> None:
    log = [said(call("1"), 0, None), said(call("2"), 2, refused("not_sent", 502, sent=False))]
    assert verdict(log, [write(call("1"), 0.5)]) == [
        "2 (k with fence 41) was told `sent: false`, and 1 had had its effect"
    ]


def test_unsent_said_before_the_effect_of_an_earlier_call_is_seen() -> None:
    log = [said(call("1"), 0, None), said(call("2"), 2, refused("not_sent", 502, sent=False))]
    assert verdict(log, [write(call("1"), 9)]) == [
        "2 (k with fence 41) was told `sent: false`, and 1 had its effect later"
    ]


def test_a_lower_fence_behind_a_higher_one_on_the_wire_is_seen() -> None:
    old, new = call("1", 41, "a"), call("2", 42, "b")
    log = [said(old, 0, None), said(new, 2, forwarded(water=42))]
    assert verdict(log, [write(new, 2.5), write(old, 4, effects=0)]) == [
        "1 (a with fence 41) was written after 2 (b with fence 42)"
    ]
    assert verdict(log, [write(new, 2.5), write(old, 4)]) == [
        "1 (a with fence 41) had its effect after 2 (b with fence 42)"
    ]


def test_an_old_fence_that_is_not_refused_is_seen() -> None:
    new, old = call("1", 42, "a"), call("2", 41, "b")
    for answer in (refused("in_flight", 409, 42), refused("ledger_unavailable", 503)):
        log = [said(new, 0, forwarded(water=42)), said(old, 2, answer)]
        assert verdict(log, [write(new, 0.5)]) == [
            f"2 (b with fence 41) was answered {answer} after 42 was accepted"
        ]


def test_an_old_fence_that_was_on_its_way_before_the_takeover_is_no_violation() -> None:
    old, new = call("1", 41, "a"), call("2", 42, "b")
    log = [Said(old, 0, 9, forwarded()), said(new, 2, forwarded(water=42))]
    assert verdict(log, [write(old, 0.5), write(new, 2.5)]) == []


def test_a_replay_below_high_water_must_say_that_it_is_stale() -> None:
    first, new, late = call("1"), call("2", 42), call("3")
    log = [
        said(first, 0, forwarded()),
        said(new, 2, replayed(water=42)),
        said(late, 4, replayed(water=42)),
    ]
    assert verdict(log, [write(first, 0.5)]) == [
        "3 (k with fence 41) was answered 201 replayed after 42 was accepted"
    ]
