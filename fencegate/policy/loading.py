"""From files to policies: all is read, every problem is said, and nothing is used unless all of
it is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fencegate.policy.codes import Code, Severity
from fencegate.policy.compiling import (
    Made,
    compile_callers,
    compile_gateway,
    compile_route,
    compile_upstream,
)
from fencegate.policy.documents import Place, PolicyError, Problem, read_document
from fencegate.policy.injected import Outside
from fencegate.policy.levels import Fitted, Levels
from fencegate.policy.model import GatewayFile, Section, UpstreamFile
from fencegate.policy.ordering import Placed, shadowed
from fencegate.policy.routes import Policies, Route, Upstream
from fencegate.policy.shape import example_of, fit

F = TypeVar("F", bound=Section)


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in policy files: the policies (None where there are errors), and every
    problem in the order in which they stand, warnings among them."""

    policies: Policies | None
    problems: tuple[Problem, ...]


def load(folder: Path, environ: Mapping[str, str]) -> Policies:
    """The policies of a folder, or of one upstream's file; `environ` fills in `${NAME}`.

    In a folder `*.yaml` and `*.yml` are read: `gateway.yaml`, which may be missing, and one file
    per upstream. PolicyError holds every problem of every file, if one of them is an error.
    """
    checked = check(folder, Outside(environ))
    if checked.policies is None:
        raise PolicyError(list(checked.problems))
    return checked.policies


def check(folder: Path, outside: Outside) -> Checked:
    """All that can be said of a folder without asking anyone."""
    problems: list[Problem] = []
    paths = _policy_files(folder)
    gateways = [path for path in paths if path.stem == "gateway"]
    files = [path for path in paths if path.stem != "gateway"]
    gateway = _read_gateway(gateways, problems)
    upstreams = [file for path in files if (file := _read(path, UpstreamFile, problems))]
    if not files:
        problems.append(_no_upstream(folder))
    problems += _clashes(upstreams)
    policies, found = _compile(gateway, upstreams, outside.afresh())
    problems += found
    if any(route.guard.asks_key for route in policies.routes):
        problems += _nobody(folder, gateway)
    problems = sorted(set(problems))
    broken = any(problem.severity is Severity.ERROR for problem in problems)
    return Checked(None if broken else policies, tuple(problems))


def _policy_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return [folder]
    found = (path for ending in ("yaml", "yml") for path in folder.glob(f"*.{ending}"))
    return sorted(path for path in found if not path.name.startswith("."))


def _no_upstream(folder: Path) -> Problem:
    wrong = "there is no upstream here: each has one file, beside gateway.yaml"
    example = example_of(UpstreamFile, ("upstream",))
    return Problem(Place(str(folder)), wrong, example, code=Code.NO_UPSTREAM)


def _read(path: Path, model: type[F], problems: list[Problem]) -> Fitted[F] | None:
    """The file, as far as it could be read; None where nothing of it could."""
    document, unread = read_document(path, str(path))
    problems += unread
    if document is None:
        return None
    fitted, unfit = fit(document, model)
    problems += unfit
    return fitted


def _read_gateway(paths: Sequence[Path], problems: list[Problem]) -> Fitted[GatewayFile]:
    """The file of the gateway; what holds by default where there is none that can be read."""
    for path in paths[1:]:
        wrong = f"this is a second file of the gateway, beside {paths[0].name}"
        example = example_of(GatewayFile, ("gateway",))
        problems.append(Problem(Place(str(path)), wrong, example, code=Code.CLASH))
    read = _read(paths[0], GatewayFile, problems) if paths else None
    return read or Fitted.nothing(GatewayFile.model_validate({}), unread=bool(paths))


def _clashes(upstreams: Sequence[Fitted[UpstreamFile]]) -> Iterator[Problem]:
    """Names and mounts that two upstreams share."""
    for key in ("name", "mount"):
        first: dict[str, Place] = {}
        for file in upstreams:
            loc, value = ("upstream", key), getattr(file.model.upstream, key)
            place = file.document.value_place(loc)
            if value in first:
                wrong = f"`{value}` is the {key} of another upstream too, in {first[value]}"
                yield file.problem(loc, wrong, code=Code.CLASH)
            first.setdefault(value, place)


def _nobody(folder: Path, gateway: Fitted[GatewayFile]) -> Iterator[Problem]:
    """Nobody is asked who they are, and no one has said that this is meant."""
    if "callers" in gateway.model.model_fields_set or gateway.spoilt(("callers",)):
        return
    home = folder if folder.is_dir() else folder.parent
    place = (
        gateway.document.place() if gateway.document.lines else Place(str(home / "gateway.yaml"))
    )
    wrong = "no `callers`: whoever sends no Authorization is one caller, and is shown its answers"
    example = example_of(GatewayFile, ("callers",)) + "\ncallers: off    # to leave it so"
    yield Problem(place, wrong, example, code=Code.NO_CALLERS)


# --- compiling -----------------------------------------------------------------------------


def _compile(
    gateway: Fitted[GatewayFile], files: Sequence[Fitted[UpstreamFile]], outside: Outside
) -> tuple[Policies, list[Problem]]:
    settings, problems = compile_gateway(gateway, outside)
    callers, wrong = compile_callers(gateway)
    problems += wrong
    upstreams: list[Upstream] = []
    routes: list[Route] = []
    for file in files:
        upstream, wrong = compile_upstream(file, gateway, outside)
        problems += wrong
        upstreams.append(upstream)
        made = Made(settings, upstream, callers, outside)
        placed, wrong = _routes_of(gateway, file, made)
        problems += wrong
        problems += shadowed(placed)
        routes += [route for one in placed for route in one.routes]
    return Policies(settings, tuple(upstreams), tuple(routes), callers), problems


def _routes_of(
    gateway: Fitted[GatewayFile], file: Fitted[UpstreamFile], made: Made
) -> tuple[list[Placed], list[Problem]]:
    placed: list[Placed] = []
    problems: list[Problem] = []
    for number in range(len(file.model.routes)):
        levels = Levels(gateway, file, number)
        made_of_it, wrong = compile_route(levels, made)
        placed.append(Placed(levels, tuple(made_of_it)))
        problems += wrong
    return placed, problems
