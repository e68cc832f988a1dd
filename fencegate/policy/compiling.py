"""From models to upstreams and routes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fencegate.core.fingerprint import Scheme
from fencegate.core.model import SECOND, FenceLead, Micros, OneEffectPer, Predecessor, Terms
from fencegate.core.outcomes import Statuses
from fencegate.policy.callers import Caller, Callers
from fencegate.policy.codes import Code
from fencegate.policy.contradictions import contradictions, not_built, window_of
from fencegate.policy.documents import Loc, Problem
from fencegate.policy.injected import Outside, Unset, fill_header, fill_secret, wrong_name
from fencegate.policy.levels import Fitted, Levels, merged
from fencegate.policy.model import (
    AnswersSection,
    GatewayFile,
    ProbeSection,
    RouteSettings,
    UpstreamFile,
)
from fencegate.policy.paths import READS, Capture, Pattern
from fencegate.policy.probes import Answers, Probe
from fencegate.policy.profiles import PROFILES
from fencegate.policy.routes import GatewaySettings, Guard, Limit, Route, Seconds, Upstream
from fencegate.policy.sources import Source
from fencegate.policy.templates import Reading
from fencegate.policy.tls import Tls

HeaderLines = tuple[tuple[bytes, bytes], ...]
KEY_HEADER = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class Made:
    """What is the same for all routes of a file."""

    gateway: GatewaySettings
    upstream: Upstream
    callers: Callers | None
    outside: Outside


def compile_gateway(
    file: Fitted[GatewayFile], outside: Outside
) -> tuple[GatewaySettings, list[Problem]]:
    """What holds for all upstreams."""
    gateway, defaults = file.model.gateway, file.model.defaults
    secret, problems = _secret(file, ("defaults", "fence_secret"), defaults, outside)
    if "late_answer" in gateway.model_fields_set:
        wrong, loc = not_built("late_answer"), ("gateway", "late_answer")
        problems.append(file.problem(loc, wrong, example="", code=Code.NOT_BUILT, at_key=True))
    settings = GatewaySettings(
        hold=gateway.hold,
        tombstone=gateway.tombstone,
        unmatched=gateway.unmatched,
        max_fence_lead=_lead(defaults),
        fold_case=gateway.fold == "case",
        drain_delay=_seconds(gateway.drain_delay),
        drain_timeout=None if gateway.drain_timeout is None else _seconds(gateway.drain_timeout),
        fence_secret=secret,
    )
    return settings, problems


def compile_callers(file: Fitted[GatewayFile]) -> tuple[Callers | None, list[Problem]]:
    """The callers, or None where nobody is asked; no token may show two of them."""
    callers: list[Caller] = []
    owner: dict[bytes, str] = {}
    problems = []
    for number, section in enumerate(file.model.callers or ()):
        if any(caller.name == section.name for caller in callers):
            wrong = f"`{section.name}` is the name of two callers"
            problems.append(file.problem(("callers", number, "name"), wrong, code=Code.CLASH))
        for index, digest in enumerate(section.token_sha256):
            loc: Loc = ("callers", number, "token_sha256", index)
            if digest == _OF_NOTHING:
                wrong = "this is the digest of no token at all"
                problems.append(file.problem(loc, wrong, code=Code.TOKEN_SHARED))
            elif digest in owner:
                wrong = f"this token is that of `{owner[digest]}` too"
                problems.append(file.problem(loc, wrong, code=Code.TOKEN_SHARED))
            owner.setdefault(digest, section.name)
        callers.append(Caller(section.name, tuple(section.token_sha256)))
    return (Callers(tuple(callers)) if callers else None), problems


_OF_NOTHING = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


def compile_upstream(
    file: Fitted[UpstreamFile], gateway: Fitted[GatewayFile], outside: Outside
) -> tuple[Upstream, list[Problem]]:
    """The upstream of a file, its headers filled in from outside."""
    section = file.model.upstream
    settings = merged(section, gateway.model.defaults)
    profile = PROFILES[section.kind]
    headers, problems = _headers(file, outside)
    key_header = section.key_header or profile.key_header
    if key_header is None and section.key_window is not None:
        key_header = KEY_HEADER
    tls, wrong = _tls(file)
    problems += wrong
    upstream = Upstream(
        name=section.name,
        kind=section.kind,
        mount=section.mount,
        scheme=section.url.scheme,
        host=section.url.host,
        port=section.url.port,
        base_path=section.url.base_path,
        timeout=_seconds(settings.timeout),
        connect_timeout=_seconds(settings.connect_timeout),
        reuse_within=_seconds(section.reuse_within),
        body_limit=settings.body_limit,
        headers=headers,
        key_header=None if key_header is None else key_header.encode(),
        pool=section.pool,
        tls=tls,
        mode=settings.mode or gateway.model.gateway.mode,
    )
    return upstream, problems


def _headers(file: Fitted[UpstreamFile], outside: Outside) -> tuple[HeaderLines, list[Problem]]:
    filled: dict[str, tuple[bytes, bytes]] = {}
    problems = []
    key_header = (file.model.upstream.key_header or "").lower()
    for name, written in file.model.upstream.headers.items():
        loc: Loc = ("upstream", "headers", name)
        if wrong := wrong_name(name):
            problems.append(file.problem(loc, wrong, at_key=True))
            continue
        try:
            line = fill_header(name, written, outside)
        except Unset as error:
            problems.append(file.problem_within(loc, str(error), error.at, code=Code.UNSET))
            continue
        except ValueError as error:
            problems.append(file.problem(loc, str(error)))
            continue
        if name.lower() in filled:
            twice = f"`{name}` stands twice: case does not count in the name of a header"
            problems.append(file.problem(loc, twice, at_key=True))
        if name.lower() == key_header:
            both = f"`{name}` is the header of the key; it cannot be set too"
            problems.append(file.problem(loc, both, at_key=True))
        filled[name.lower()] = line
    return tuple(filled.values()), problems


def _tls(file: Fitted[UpstreamFile]) -> tuple[Tls, list[Problem]]:
    section = file.model.upstream.tls
    tls, loc = Tls(section.ca, section.cert, section.key), ("upstream", "tls")
    if tls == Tls():
        return tls, []
    if file.model.upstream.url.scheme != "https":
        wrong = "`tls` has no meaning for an http:// URL"
        return tls, [file.problem(loc, wrong, code=Code.NO_EFFECT, at_key=True)]
    if tls.key is not None and tls.cert is None:
        wrong = "`key` stands alone: name the certificate it belongs to in `cert`"
        return tls, [file.problem((*loc, "key"), wrong)]
    try:
        tls.context()
        return tls.stamped(), []
    except OSError as error:
        wrong = f"the files cannot be used: {error.strerror or error}"
        return tls, [file.problem(loc, wrong, code=Code.UNSET, at_key=True)]


def _secret(
    file: Fitted[GatewayFile] | Fitted[UpstreamFile],
    loc: Loc,
    settings: RouteSettings,
    outside: Outside,
) -> tuple[bytes | None, list[Problem]]:
    if settings.fence_secret is None:
        return None, []
    try:
        return fill_secret(settings.fence_secret, outside), []
    except Unset as error:
        return None, [file.problem_within(loc, str(error), error.at, code=Code.UNSET)]
    except ValueError as error:
        return None, [file.problem(loc, str(error))]


# --- routes --------------------------------------------------------------------------------


def compile_route(levels: Levels, made: Made) -> tuple[list[Route], list[Problem]]:
    """The routes of one match: two, where its reads and its writes differ in guard."""
    settings, match = levels.settings(), levels.section.match
    guards = list(_guards(match, settings.guard))
    problems = list(contradictions(levels, settings, [g for g, _ in guards], made.callers))
    secret, wrong = _fence_secret(levels, settings, made.outside)
    upstream, gateway = made.upstream, levels.gateway.model.gateway
    late = settings.late_answer if levels.stated("late_answer") else gateway.late_answer
    whole = Route(
        upstream=upstream,
        pattern=match,
        guard=Guard.FULL,
        entity=settings.entity,
        fence=settings.fence,
        key=settings.key,
        terms=_terms(settings, made.gateway, window_of(levels.upstream)),
        statuses=_statuses(settings),
        scheme=_scheme(settings, match, upstream),
        duplicate_wait=_seconds(settings.duplicate_wait),
        predecessor_wait=_seconds(settings.predecessor_wait),
        timeout=_seconds(settings.timeout),
        connect_timeout=_seconds(settings.connect_timeout),
        late_answer=late,
        body_limit=settings.body_limit,
        answer_limit=settings.answer_limit,
        domain=settings.fence_domain,
        encoded_slash=settings.encoded_slash,
        redact=tuple(settings.redact),
        probe=_probe(settings.probe) if settings.probe else None,
        limit=_limit(levels, settings, upstream),
        mode=settings.mode or gateway.mode,
        fence_secret=secret,
        fields=frozenset(_fields(settings, upstream)),
    )
    return [_half(whole, guard, pattern) for guard, pattern in guards], problems + wrong


def _half(route: Route, guard: Guard, pattern: Pattern) -> Route:
    """The route as its guard has it: what it does not ask for it does not read."""
    half = replace(route, pattern=pattern, guard=guard)
    match guard:
        case Guard.FULL:
            return half
        case Guard.KEY_ONLY:
            terms = replace(
                route.terms,
                max_fence_lead=None,
                predecessor=Predecessor.IGNORE,
                one_effect_per=OneEffectPer.KEY,
            )
            return replace(half, fence=None, domain="", fence_secret=None, terms=terms)
        case Guard.FENCE_ONLY:
            # Nothing is kept of it but, for as long as its answer may come, a doubt.
            terms = replace(
                route.terms,
                retention=0,
                tombstone=route.late_answer,
                one_effect_per=OneEffectPer.KEY,
            )
            return replace(half, key=None, terms=terms)
        case Guard.NONE:
            return replace(half, entity=None, fence=None, key=None, redact=())


def _guards(match: Pattern, stated: Guard | None) -> Iterator[tuple[Guard, Pattern]]:
    if stated is not None:
        yield stated, match
        return
    if match.methods is None:
        yield Guard.NONE, replace(match, methods=READS)
        yield Guard.FULL, replace(match, but=READS)
        return
    if reads := READS & match.methods:
        yield Guard.NONE, replace(match, methods=reads)
    if writes := match.methods - READS:
        yield Guard.FULL, replace(match, methods=writes)


def _terms(settings: RouteSettings, gateway: GatewaySettings, key_window: Micros | None) -> Terms:
    return Terms(
        hold=gateway.hold,
        timeout=settings.timeout,
        retention=settings.retention,
        tombstone=gateway.tombstone,
        max_fence_lead=_lead(settings),
        stale_replay=settings.stale_replay,
        on_unknown=settings.on_unknown,
        resend_limit=settings.resend_limit,
        key_window=key_window,
        predecessor=settings.predecessor,
        one_effect_per=settings.one_effect_per,
    )


def _statuses(settings: RouteSettings) -> Statuses:
    """A status that is stated wins over one that is listed by default."""
    refused = frozenset().union(*settings.refused_statuses)
    unknown = frozenset().union(*settings.unknown_statuses)
    if "refused_statuses" in settings.model_fields_set:
        return Statuses(refused, unknown - refused)
    return Statuses(refused - unknown, unknown)


def _scheme(settings: RouteSettings, match: Pattern, upstream: Upstream) -> Scheme:
    fingerprint = settings.fingerprint
    return Scheme(
        ignore=tuple(fingerprint.ignore),
        headers=(*fingerprint.headers, *PROFILES[upstream.kind].fingerprint_headers),
        taken=tuple(_taken(settings, match, upstream)),
    )


def _taken(settings: RouteSettings, match: Pattern, upstream: Upstream) -> Iterator[str]:
    """The places that are read whole as fence or key; a path's segments count from the mount's
    first."""
    readings: tuple[Reading | None, ...] = (settings.fence, settings.key)
    for hole in (hole for reading in readings if reading for hole in reading.wholes):
        if hole.source in (Source.JSON, Source.FORM, Source.QUERY):
            yield f"{hole.source}:{hole.name}"
        elif hole.source is Source.PATH and Capture(hole.name) in match.parts:
            mounted = upstream.mount.rstrip("/").count("/")
            yield f"path:{mounted + match.parts.index(Capture(hole.name))}"


def _fields(settings: RouteSettings, upstream: Upstream) -> Iterator[bytes]:
    """What must reach the upstream as we have read it."""
    for reading in (settings.entity, settings.fence, settings.key):
        holes = (hole for t in (reading.templates if reading else ()) for hole in t.placeholders)
        yield from (hole.name.encode() for hole in holes if hole.source is Source.HEADER)
    yield from (name.encode() for name in settings.fingerprint.headers)
    yield from (name.encode() for name in PROFILES[upstream.kind].fingerprint_headers)
    if upstream.key_header is not None:
        yield upstream.key_header.lower()


def _probe(section: ProbeSection) -> Probe:
    no = section.not_applied
    return Probe(
        get=section.get,
        applied=_answers(section.applied),
        not_applied=None if no is None else _answers(no),
        after=section.after,
        timeout=section.timeout,
    )


def _answers(section: AnswersSection) -> Answers:
    return Answers(section.status, tuple(section.json_.items()))


def _limit(levels: Levels, settings: RouteSettings, upstream: Upstream) -> Limit | None:
    """What a route states is the route's, what is stated further off is the whole upstream's."""
    if settings.max_concurrent is None:
        return None
    if "max_concurrent" in levels.section.model_fields_set:
        return Limit(f"{upstream.name} {levels.section.match.text}", settings.max_concurrent)
    return Limit(upstream.name, settings.max_concurrent)


def _fence_secret(
    levels: Levels, settings: RouteSettings, outside: Outside
) -> tuple[bytes | None, list[Problem]]:
    stated = levels.place("fence_secret")
    return (None, []) if stated is None else _secret(*stated, settings, outside)


def _lead(settings: RouteSettings) -> FenceLead | None:
    return None if settings.max_fence_lead == "off" else settings.max_fence_lead


def _seconds(micros: Micros) -> Seconds:
    return micros / SECOND
