"""What policies cost: finding a route among many, and checking long files.

    python -m tests.benchmarks.policies [ROUNDS]

A table of 5 routes and one of 500 take turns, round by round, on the same requests: each asks for
a route of every kind, the first, the last and none. Then a folder of 1,000 lines is checked.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from fencegate.policy import Outside, Policies, check, load

ROUTE = """\
  - match: POST /v1/things{n}/{{thing}}/act
    entity: thing{n}:{{path.thing}}
    key: act:{{path.thing}}:{{json./step}}
    retention: 48h
"""
UPSTREAM = "upstream:\n  name: api{n}\n  mount: /api{n}\n  url: http://127.0.0.1:9\nroutes:\n"
FINDS = 2000
LINES = 1000


def written(folder: Path, routes: int) -> Path:
    """One file of so many routes, and the gateway's."""
    folder.mkdir()
    (folder / "gateway.yaml").write_text("callers: off\n")
    text = UPSTREAM.format(n="") + "".join(ROUTE.format(n=number) for number in range(routes))
    (folder / "api.yaml").write_text(text)
    return folder


def found(policies: Policies, routes: int) -> float:
    """Microseconds for one look-up."""
    asked = [0, routes // 2, routes - 1, routes]
    targets = [f"/api/v1/things{number}/8812/act?x=1".encode() for number in asked]
    began = perf_counter()
    for _ in range(FINDS // len(targets)):
        for target in targets:
            policies.find("POST", target)
    return (perf_counter() - began) / FINDS * 1e6


def thousand_lines(folder: Path) -> Path:
    """Five upstreams of 200 lines each."""
    folder.mkdir()
    (folder / "gateway.yaml").write_text("callers: off\n")
    each = LINES // 5
    for number in range(5):
        text = UPSTREAM.format(n=number)
        routes = (each - text.count("\n")) // ROUTE.count("\n")
        text += "".join(ROUTE.format(n=index) for index in range(routes))
        (folder / f"api{number}.yaml").write_text(text)
    return folder


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        few, many = (load(written(Path(place) / str(n), n), {}) for n in (5, 500))
        times = [(found(few, 5), found(many, 500)) for _ in range(rounds)]
        of_few, of_many = (median(column) for column in zip(*times, strict=True))
        ratio = median(many / few for few, many in times)
        print(
            f"find a route   among 5 {of_few:6.2f} us   among 500 {of_many:6.2f} us   {ratio:.2f}x"
        )

        folder = thousand_lines(Path(place) / "lines")
        lines = sum(len(file.read_text().splitlines()) for file in folder.iterdir())
        took = []
        for _ in range(rounds):
            began = perf_counter()
            checked = check(folder, Outside({}))
            took.append((perf_counter() - began) * 1e3)
            assert checked.policies is not None
        print(f"check {lines} lines in {len(list(folder.iterdir()))} files   {median(took):.0f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
