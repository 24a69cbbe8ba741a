"""Checkpoints between members that share no disk: by way of HDFS, and never half of one."""

import os
import threading

import pytest

from dromon.engines.yarn.am.checkpoints import Checkpoints
from dromon.errors import DromonError

PLACE = "/user/al/.dromon/jobs/train-aaaaaa/checkpoints"


@pytest.fixture
def place(hdfs, tmp_path):
    """A member's own directory, and what keeps it in step."""

    def make(name):
        directory = tmp_path / name
        directory.mkdir()
        return directory, Checkpoints(str(directory), PLACE, hdfs)

    return make


def test_what_one_member_saved_another_one_finds(place):
    there, first = place("a")
    (there / "step-1").mkdir()
    (there / "step-1" / "model").write_bytes(b"weights")
    (there / "latest").write_text("step-1")
    first.bring_home()
    here, second = place("b")
    second.fetch()
    assert (here / "step-1" / "model").read_bytes() == b"weights"
    assert (here / "latest").read_text() == "step-1"


def test_nothing_is_there_before_anybody_saved(place):
    here, first = place("a")
    first.fetch()
    assert os.listdir(here) == []


def test_what_a_member_threw_away_is_thrown_away(place, hdfs):
    there, first = place("a")
    (there / "old").write_text("1")
    first.bring_home()
    (there / "old").unlink()
    (there / "new").write_text("2")
    first.bring_home()
    assert [name for name, _ in hdfs.list(PLACE)] == ["new"]


def test_what_has_not_changed_is_not_sent_again(place, name_node):
    there, first = place("a")
    (there / "model").write_text("1")
    first.bring_home()
    sent = name_node.ops.count("CREATE")
    first.bring_home()
    assert name_node.ops.count("CREATE") == sent


def test_a_newer_file_of_the_same_size_is_fetched(place, name_node):
    there, first = place("a")
    here, second = place("b")
    (there / "latest").write_text("step-1")
    first.bring_home()
    second.fetch()
    (there / "latest").write_text("step-2")
    first.bring_home()
    name_node.tree.entries[f"{PLACE}/latest"].mtime += 5
    second.fetch()
    assert (here / "latest").read_text() == "step-2"


def test_what_is_the_same_on_both_sides_is_not_fetched_again(place, name_node):
    there, first = place("a")
    (there / "latest").write_text("step-1")
    first.bring_home()
    asked = name_node.ops.count("OPEN")
    first.fetch()
    assert name_node.ops.count("OPEN") == asked


def test_a_checkpoint_that_could_not_be_brought_home_is_not_overwritten(place, name_node):
    from fake_webhdfs import Fault

    there, first = place("a")
    (there / "model").write_text("old")
    first.bring_home()
    (there / "model").write_text("newer")
    full = ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "the quota is exceeded")
    name_node.faults.append(Fault("CREATE", refusal=full))
    with pytest.raises(DromonError):
        first.bring_home()
    first.fetch()  # the next run begins in the same place
    assert (there / "model").read_text() == "newer"
    first.bring_home()
    here, second = place("b")
    second.fetch()
    assert (here / "model").read_text() == "newer"


def test_nobody_finds_half_a_file(place, hdfs, name_node):
    there, first = place("a")
    (there / "model").write_bytes(b"whole")
    gate, reached = threading.Event(), threading.Event()

    def hold():
        reached.set()
        gate.wait(20)

    name_node.meanwhile["RENAME"] = hold
    sending = threading.Thread(target=first.bring_home)
    sending.start()
    assert reached.wait(20)
    here, second = place("b")
    second.fetch()
    assert os.listdir(here) == []
    gate.set()
    sending.join()
    second.fetch()
    assert (here / "model").read_bytes() == b"whole"


def test_pipes_and_links_to_nowhere_do_not_stop_the_others(place, hdfs):
    there, first = place("a")
    os.mkfifo(there / "pipe")
    os.symlink("nowhere", there / "broken")
    (there / "model").write_text("1")
    first.bring_home()
    assert [name for name, _ in hdfs.list(PLACE)] == ["model"]


def test_two_members_that_save_under_names_of_their_own_both_find_all(place):
    one, first = place("a")
    two, second = place("b")
    (one / "rank-0").write_text("0")
    (two / "rank-1").write_text("1")
    first.bring_home()
    second.bring_home()
    first.fetch()
    second.fetch()
    assert sorted(os.listdir(one)) == sorted(os.listdir(two)) == ["rank-0", "rank-1"]
