import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from dromon.agent.context import Context


def run(code: str, directory: Path, **variables: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("DROMON_")}
    done = subprocess.run(
        [sys.executable, "-c", "import dromon\nc = dromon.context()\n" + code],
        env={**env, **variables}, cwd=directory, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_script_run_by_hand_sees_sensible_values(tmp_path):
    code = "print(c.rank, c.world, c.role, c.index, c.attempt, c.config, c.stopping())"
    code += "\nc.report(a=1)"
    assert run(code, tmp_path) == "0 1 worker 0 1 {} False"
    assert list(tmp_path.iterdir()) == []
    assert run("print(c.checkpoint_dir)", tmp_path) == str(tmp_path / ".dromon" / "checkpoints")


def test_context_in_a_task_says_what_the_agent_set(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"training": {"lr": 0.1}}))
    made = Context(
        {
            "DROMON_JOB_ID": "unet-abc", "DROMON_RANK": "2", "DROMON_WORLD_SIZE": "4",
            "DROMON_ROLE": "ps", "DROMON_INDEX": "1", "DROMON_ATTEMPT": "3",
            "DROMON_CONFIG": str(tmp_path / "config.json"),
            "DROMON_CHECKPOINT_DIR": str(tmp_path / "ckpt"),
        }
    )  # fmt: skip
    assert (made.job, made.rank, made.world) == ("unet-abc", 2, 4)
    assert (made.role, made.index, made.attempt) == ("ps", 1, 3)
    assert made.config["training"]["lr"] == 0.1
    assert made.checkpoint_dir.is_dir()


def test_reported_figures_are_one_line_each(tmp_path):
    class Tensor:
        def item(self) -> float:
            return 0.5

    made = Context({"DROMON_MEMBER_DIR": str(tmp_path), "DROMON_RANK": "1"})
    made.report(loss=Tensor(), step=1)
    made.report(loss=0.25, note="ü")
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [0.5, 0.25]
    assert all(line["rank"] == 1 and line["time"] > 0 for line in lines)


def test_stop_file_is_seen(tmp_path):
    made = Context({"DROMON_MEMBER_DIR": str(tmp_path)})
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert not made.stopping()
        (tmp_path / "stop").touch()
        assert made.stopping()
    finally:
        signal.signal(signal.SIGTERM, handler)


def test_sigterm_is_remembered_once_somebody_asks(tmp_path):
    code = "import os\nprint(c.stopping()); os.kill(os.getpid(), 15); print(c.stopping())"
    assert run(code, tmp_path, DROMON_MEMBER_DIR=str(tmp_path)) == "False\nTrue"


def test_sigterm_handler_of_the_script_stays(tmp_path):
    code = (
        "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('mine'))\n"
        "c.stopping(); os.kill(os.getpid(), 15)"
    )
    assert run(code, tmp_path, DROMON_MEMBER_DIR=str(tmp_path)) == "mine"


def test_script_that_never_asks_is_ended_by_sigterm(tmp_path):
    code = "import os\ntry: os.kill(os.getpid(), 15)\nfinally: print('alive')"
    env = {**os.environ, "DROMON_MEMBER_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", "import dromon; dromon.context()\n" + code], env=env
    )
    assert done.returncode == -signal.SIGTERM
