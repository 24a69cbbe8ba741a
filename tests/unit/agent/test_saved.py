"""When work was saved: the member's word, or the newest change in the folder for it."""

import os
from pathlib import Path

from dromon.agent.context import Context
from dromon.agent.saved import Saved


def write(path: Path, at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("state")
    os.utime(path, (at, at))


def test_a_file_written_anew_under_the_same_name_is_noticed(tmp_path):
    saved = Saved(str(tmp_path / "run"), str(tmp_path))
    assert not saved.look(1000.0)
    write(tmp_path / "last.pt", 500.0)
    assert saved.look(1000.0)
    assert not saved.look(1002.0)
    write(tmp_path / "last.pt", 1001.0)
    assert saved.look(1004.0)
    assert saved.at == 1001.0


def test_a_folder_for_each_checkpoint_is_looked_into(tmp_path):
    saved = Saved(str(tmp_path / "run"), str(tmp_path))
    write(tmp_path / "step-1" / "model.bin", 500.0)
    write(tmp_path / "step-2" / "model.bin", 600.0)
    assert saved.look(1000.0)
    assert saved.at == 600.0


def test_what_is_still_being_written_is_not_saved_yet(tmp_path):
    saved = Saved(str(tmp_path / "run"), str(tmp_path))
    write(tmp_path / "last.pt", 999.9)
    assert not saved.look(1000.0)
    assert saved.look(1002.0)


def test_who_says_it_is_believed_and_the_folder_is_not_asked(tmp_path):
    (tmp_path / "run").mkdir()
    saved = Saved(str(tmp_path / "run"), str(tmp_path))
    Context({"DROMON_MEMBER_DIR": str(tmp_path / "run")}).checkpointed()
    os.utime(tmp_path / "run" / "saved", (700.0, 700.0))
    write(tmp_path / "half.pt", 800.0)
    assert saved.look(1000.0)
    assert saved.at == 700.0
    Context({"DROMON_MEMBER_DIR": str(tmp_path / "run")}).checkpointed()
    assert saved.look(1000.0)


def test_outside_a_task_there_is_nobody_to_tell():
    Context({}).checkpointed()
