"""`ydl-mx` with real MXNet: an unmodified script, a parameter server, results kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "ydl-mx"


def ydl_mx(home: Path, cwd: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "dromon.compat.ydl_mx", "--on", "local", *words],
        env={**os.environ, "DROMON_HOME": str(home)}, cwd=cwd,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_mxnet_script_trains_through_a_parameter_server_and_its_model_is_kept(home, dromon):
    done = ydl_mx(
        home, EXAMPLE, "--n", "2", "--s", "1", "--jobname", "J", "--jar", "ignored.jar",
        "train_points.py", "--kv-store", "dist_sync", "--model-prefix", "points",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = {line.partition(" | ")[2] for line in done.stdout.splitlines()}
    assert {"worker 0 of 2", "worker 1 of 2"} <= said
    scores = [float(line.split()[-1]) for line in said if " accuracy " in line]
    assert len(scores) == 2
    assert min(scores) > 0.9
    shown = json.loads(dromon("show", "@last", "-o", "json").stdout)
    assert {"points-0005.params", "points-symbol.json"} <= {o["path"] for o in shown["outputs"]}
    assert {m["member"] for m in shown["members"]} == {
        "scheduler-0", "server-0", "worker-0", "worker-1",
    }  # fmt: skip
    assert not list(EXAMPLE.glob("points-*"))  # it ran elsewhere


def test_exit_code_is_the_scripts_own(home, tmp_path):
    (tmp_path / "fails.py").write_text("import sys\nsys.exit(3)\n")
    done = ydl_mx(home, tmp_path, "--n", "1", "fails.py")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "failed" in done.stderr
