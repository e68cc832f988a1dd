"""From files to policies: all is read, every problem is said, and nothing is used unless all of
it is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fencegate.policy.compiling import compile_gateway, compile_route, compile_upstream
from fencegate.policy.documents import Document, Place, PolicyError, Problem, read_document
from fencegate.policy.levels import Fitted, Levels
from fencegate.policy.model import GatewayFile, Section, UpstreamFile
from fencegate.policy.routes import Policies, Route, Upstream
from fencegate.policy.shape import example_of, fit

F = TypeVar("F", bound=Section)


def load(folder: Path, environ: Mapping[str, str]) -> Policies:
    """The policies of a folder, or of one upstream's file; `environ` fills in `${NAME}`.

    In a folder `*.yaml` and `*.yml` are read: `gateway.yaml`, which may be missing, and one file
    per upstream. PolicyError holds every problem of every file.
    """
    problems: list[Problem] = []
    paths = _policy_files(folder)
    gateways = [path for path in paths if path.stem == "gateway"]
    files = [path for path in paths if path.stem != "gateway"]
    gateway = _read_gateway(gateways, problems)
    upstreams = [file for path in files if (file := _read(path, UpstreamFile, problems))]
    if not files:
        problems.append(_no_upstream(folder))
    problems += _clashes(upstreams)
    policies, of_upstreams, of_routes = _compile(gateway or _no_gateway(), upstreams, environ)
    problems += of_upstreams
    if gateway:  # else what a route lacks may stand in the file that is broken
        problems += of_routes
    if problems:
        raise PolicyError(problems)
    return policies


def _policy_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return [folder]
    found = (path for ending in ("yaml", "yml") for path in folder.glob(f"*.{ending}"))
    return sorted(path for path in found if not path.name.startswith("."))


def _no_upstream(folder: Path) -> Problem:
    wrong = "there is no upstream here: each has one file, beside gateway.yaml"
    return Problem(Place(str(folder)), wrong, example_of(UpstreamFile, ("upstream",)))


def _read(path: Path, model: type[F], problems: list[Problem]) -> Fitted[F] | None:
    """The file, if it has no problem of its own."""
    document, unread = read_document(path, str(path))
    fitted, unfit = fit(document, model) if document else (None, [])
    problems += unread + unfit
    if document is None or fitted is None or unread:
        return None
    return Fitted(document, fitted)


def _read_gateway(paths: Sequence[Path], problems: list[Problem]) -> Fitted[GatewayFile] | None:
    if not paths:
        return _no_gateway()
    for path in paths[1:]:
        wrong = f"this is a second file of the gateway, beside {paths[0].name}"
        problems.append(Problem(Place(str(path)), wrong, example_of(GatewayFile, ("gateway",))))
    return _read(paths[0], GatewayFile, problems)


def _no_gateway() -> Fitted[GatewayFile]:
    """What holds by default."""
    document = Document("gateway.yaml", values={}, places={}, spoilt=frozenset())
    return Fitted(document, GatewayFile())


def _clashes(upstreams: Sequence[Fitted[UpstreamFile]]) -> Iterator[Problem]:
    """Names and mounts that two upstreams share."""
    for key in ("name", "mount"):
        first: dict[str, Place] = {}
        for file in upstreams:
            loc, value = ("upstream", key), getattr(file.model.upstream, key)
            place = file.document.place(loc)
            if value in first:
                wrong = f"`{value}` is the {key} of another upstream too, in {first[value]}"
                yield file.problem(loc, wrong)
            first.setdefault(value, place)


def _compile(
    gateway: Fitted[GatewayFile], files: Sequence[Fitted[UpstreamFile]], environ: Mapping[str, str]
) -> tuple[Policies, list[Problem], list[Problem]]:
    """The policies, and the problems of upstreams and of routes."""
    settings = compile_gateway(gateway.model)
    upstreams: list[Upstream] = []
    routes: list[Route] = []
    of_upstreams: list[Problem] = []
    of_routes: list[Problem] = []
    for file in files:
        upstream, wrong = compile_upstream(file, gateway.model.defaults, environ)
        upstreams.append(upstream)
        of_upstreams += wrong
        for number in range(len(file.model.routes)):
            made, wrong = compile_route(Levels(gateway, file, number), upstream, settings)
            routes += made
            of_routes += wrong
    return Policies(settings, tuple(upstreams), tuple(routes)), of_upstreams, of_routes
