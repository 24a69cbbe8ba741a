"""Nodes from words and files."""

from pathlib import Path

import pytest

from dromon.errors import UsageError
from dromon.sim.fleet import fleet


def test_a_shape_is_so_many_nodes_of_so_many_gpus():
    nodes = fleet(["2x4xa100,cpus=96,memory=512GiB,label=fast", "1x8"])
    assert [(len(node.gpus), node.cpus) for node in nodes] == [(4, 96.0), (4, 96.0), (8, 1e6)]
    assert nodes[0].memory == 512 << 30
    assert nodes[0].gpus[0].kind == "a100"
    assert nodes[0].labels == {"fast"}
    assert len({node.name for node in nodes}) == 3


def test_more_gpus_go_into_the_only_machine_there_is():
    base = fleet(["1x2xv100"])
    (node,) = fleet(["+2xa100"], base)
    assert [gpu.kind for gpu in node.gpus] == ["v100", "v100", "a100", "a100"]
    assert len({gpu.id for gpu in node.gpus}) == 4


def test_more_gpus_for_a_cluster_get_a_node_of_their_own():
    nodes = fleet(["+2xa100"], fleet(["2x8"]))
    assert [len(node.gpus) for node in nodes] == [8, 8, 2]


def test_what_does_not_begin_with_a_plus_replaces_what_there_is():
    assert len(fleet(["3x1"], fleet(["1x8"]))) == 3


def test_files_of_nodes_are_known_by_their_columns(tmp_path: Path):
    own, openb, helios = (tmp_path / name for name in ("own.csv", "openb.csv", "vc.csv"))
    own.write_text("name,gpus,kind,cpus,memory,count\na,8,a100,96,1TiB,2\n")
    openb.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,1024,2,P100\n")
    helios.write_text("vc,node num\nx,3\n")
    assert [(n.name, len(n.gpus), n.cpus) for n in fleet([str(own)])] == [
        ("a-1", 8, 96.0), ("a-2", 8, 96.0),
    ]  # fmt: skip
    (node,) = fleet([str(openb)])
    assert (node.cpus, node.memory, node.gpus[0].kind) == (64.0, 1 << 30, "P100")
    assert [node.labels for node in fleet([str(helios)])] == [{"x"}] * 3


@pytest.mark.parametrize(
    "words", [["8"], ["8x"], ["axb"], ["0x8"], ["8x8,cpu=4"], ["8x8,cpus=many"], ["9999999x8"], []]
)
def test_words_that_are_no_nodes_are_refused(words: list[str]):
    with pytest.raises(UsageError):
        fleet(words)
