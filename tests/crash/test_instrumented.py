"""The hooked process is the ordinary command, and a strike is what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.crash.instrumented import Strike, environment
from tests.crash.killpoints import point_before
from tests.crash.stage import ENTITY, Nurseries, Stage

ROOT = Path(__file__).parents[2]
POINT = point_before("recorded = await settle(")


def test_started_from_a_shell_it_dies_at_its_point(tmp_path: Path, nurseries: Nurseries) -> None:
    """Without a nursery: what a fork saves is all that it changes."""
    with Stage(nurseries, tmp_path) as stage:
        stage.upstream.start()
        port = stage.reserve()
        trace = tmp_path / "trace"
        environ = environment([Strike(POINT)], trace=str(trace), turn=str(stage.turn))
        command = [sys.executable, "-m", "tests.crash.instrumented", *stage.arguments(port)]
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | environ)
        try:
            assert stage.is_up(port, lambda: process.poll() is not None)
            answer = stage.call_port(port, 41, "pay-1").answer
            assert process.wait(20) == -signal.SIGKILL
        finally:
            process.kill()
            process.wait()
        assert answer is None
        assert trace.read_text().splitlines()[-1] == POINT
        assert [write.call.entity for write in stage.log().writes] == [ENTITY]
