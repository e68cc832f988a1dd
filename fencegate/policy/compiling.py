"""From models to upstreams and routes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fencegate.core.fingerprint import Scheme
from fencegate.core.model import SECOND, FenceLead, Micros, Terms
from fencegate.core.outcomes import Statuses
from fencegate.policy.contradictions import contradictions
from fencegate.policy.documents import Problem
from fencegate.policy.injected import fill_header
from fencegate.policy.levels import Fitted, Levels, merged
from fencegate.policy.model import GatewayFile, RouteSettings, UpstreamFile, UpstreamSection
from fencegate.policy.paths import READS, Capture, Pattern
from fencegate.policy.routes import GatewaySettings, Guard, Route, Seconds, Upstream
from fencegate.policy.templates import Source, Template

HeaderLines = tuple[tuple[bytes, bytes], ...]


def compile_gateway(file: GatewayFile) -> GatewaySettings:
    """What holds for all upstreams."""
    return GatewaySettings(
        hold=file.gateway.hold,
        tombstone=file.gateway.tombstone,
        unmatched=file.gateway.unmatched,
        max_fence_lead=_lead(file.defaults),
    )


def compile_upstream(
    file: Fitted[UpstreamFile], defaults: RouteSettings, environ: Mapping[str, str]
) -> tuple[Upstream, list[Problem]]:
    """The upstream of a file, its headers filled in from outside."""
    section = file.model.upstream
    settings = merged(section, defaults)
    headers, problems = _headers(file, environ)
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
    )
    return upstream, problems


def _headers(
    file: Fitted[UpstreamFile], environ: Mapping[str, str]
) -> tuple[HeaderLines, list[Problem]]:
    filled: dict[str, tuple[bytes, bytes]] = {}
    problems = []
    for name, written in file.model.upstream.headers.items():
        try:
            line = fill_header(name, written, environ)
        except ValueError as error:
            problems.append(file.problem(("upstream", "headers", name), str(error)))
            continue
        if name.lower() in filled:
            twice = f"`{name}` stands twice: case does not count in the name of a header"
            problems.append(file.problem(("upstream", "headers", name), twice))
        filled[name.lower()] = line
    return tuple(filled.values()), problems


# --- routes --------------------------------------------------------------------------------


def compile_route(
    levels: Levels, upstream: Upstream, gateway: GatewaySettings
) -> tuple[list[Route], list[Problem]]:
    """The routes of one match: two, where its reads and its writes differ in guard."""
    settings, match = levels.settings(), levels.section.match
    guards = list(_guards(match, settings.guard))
    guarded = any(guard is Guard.FULL for guard, _ in guards)
    problems = list(contradictions(levels, settings)) if guarded else []
    terms = _terms(settings, levels.upstream, gateway)
    whole = Route(
        upstream=upstream,
        pattern=match,
        guard=Guard.FULL,
        entity=settings.entity,
        key=settings.key,
        terms=terms,
        statuses=_statuses(settings),
        scheme=_scheme(settings, match, upstream),
        duplicate_wait=_seconds(settings.duplicate_wait),
        predecessor_wait=_seconds(settings.predecessor_wait),
        timeout=_seconds(settings.timeout),
        connect_timeout=_seconds(settings.connect_timeout),
        body_limit=settings.body_limit,
        answer_limit=settings.answer_limit,
    )
    return [_half(whole, guard, pattern) for guard, pattern in guards], problems


def _half(route: Route, guard: Guard, pattern: Pattern) -> Route:
    if guard is Guard.FULL:
        return replace(route, pattern=pattern)
    return replace(route, pattern=pattern, guard=guard, entity=None, key=None)


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


def _terms(settings: RouteSettings, upstream: UpstreamSection, gateway: GatewaySettings) -> Terms:
    return Terms(
        hold=gateway.hold,
        timeout=settings.timeout,
        retention=settings.retention,
        tombstone=gateway.tombstone,
        max_fence_lead=_lead(settings),
        stale_replay=settings.stale_replay,
        on_unknown=settings.on_unknown,
        resend_limit=settings.resend_limit,
        key_window=upstream.key_window,
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
        headers=tuple(fingerprint.headers),
        taken=tuple(_taken(settings.key, match, upstream)),
    )


def _taken(key: Template | None, match: Pattern, upstream: Upstream) -> Iterator[str]:
    """The place that is read whole as the key; a path's segments count from the mount's first."""
    if key is None or key.whole is None or key.whole.source is Source.HEADER:
        return
    name = key.whole.name
    if key.whole.source is not Source.PATH:
        yield f"{key.whole.source}:{name}"
    elif name in match.names:
        mounted = len(upstream.mount.strip("/").split("/")) if upstream.mount != "/" else 0
        yield f"path:{mounted + match.parts.index(Capture(name))}"


def _lead(settings: RouteSettings) -> FenceLead | None:
    return None if settings.max_fence_lead == "off" else settings.max_fence_lead


def _seconds(micros: Micros) -> Seconds:
    return micros / SECOND
