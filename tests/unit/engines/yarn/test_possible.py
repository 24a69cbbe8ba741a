"""What an empty cluster could never run is refused with figures; nothing else is."""

import pytest

from dromon.engines.yarn.am.asks import Size
from dromon.engines.yarn.possible import GPU, refuse_impossible, words
from dromon.engines.yarn.reports import Node
from dromon.errors import Refused


def node(name="n1", memory=8192, vcores=8, gpus=0, labels=(), state="RUNNING"):
    others = {GPU: gpus} if gpus else {}
    given = dict.fromkeys(Node.__dataclass_fields__, "")
    given.update(
        id=f"{name}:1", state=state, total=Size(memory, vcores, others), used=Size(0, 0),
        labels=tuple(labels),
    )  # fmt: skip
    return Node(**given)


def role(memory=1024, vcores=1, gpus=0, min=1, label="", spread=None):
    others = {GPU: gpus} if gpus else {}
    container = {"memory": memory, "vcores": vcores, "others": others}
    return {"container": container, "min": min, "label": label, "spread": spread}


def refuse(*nodes, **roles):
    refuse_impossible(roles, nodes)


def test_what_fits_somewhere_is_not_refused():
    refuse(node("a", memory=1024), node("b"), worker=role(memory=8192, vcores=8))


def test_a_cluster_that_is_just_starting_says_nothing():
    refuse(worker=role(memory=10**6))
    refuse(node(state="LOST"), worker=role(memory=10**6))


def test_a_member_larger_than_every_node_is_refused_with_the_figures():
    with pytest.raises(Refused, match="can give 9000 MB to one member") as refused:
        refuse(node(), worker=role(memory=9000))
    assert "the largest has 8 CPUs, 8192 MB" in str(refused.value)
    assert "dromon nodes" in refused.value.hint


def test_gpus_are_called_gpus():
    with pytest.raises(Refused, match="can give 2 GPUs to one member"):
        refuse(node(gpus=1), worker=role(gpus=2))


def test_what_no_single_node_has_together_is_named_together():
    with pytest.raises(Refused, match="can give 8 CPUs, 8000 MB to one"):
        refuse(
            node("a", memory=8192, vcores=1), node("b", memory=1024, vcores=8),
            worker=role(memory=8000, vcores=8),
        )  # fmt: skip


def test_a_gang_larger_than_the_whole_cluster_is_refused():
    with pytest.raises(Refused, match="the gang needs 20 CPUs") as refused:
        refuse(node("a"), node("b"), worker=role(vcores=4, min=5))
    assert "all nodes together have 16 CPUs" in str(refused.value)
    refuse(node("a"), node("b"), worker=role(vcores=4, min=4))


def test_only_nodes_of_the_label_count():
    labelled = node("a", labels=["fast"])
    refuse(labelled, node("b", memory=512), worker=role(memory=8192, label="fast"))
    with pytest.raises(Refused, match="no node has the label 'slow'"):
        refuse(labelled, worker=role(label="slow"))
    with pytest.raises(Refused, match="8192 MB"):
        refuse(labelled, node("b", memory=512), worker=role(memory=8192))


def test_members_that_spread_need_as_many_nodes():
    with pytest.raises(Refused, match="needs 3 nodes, and 2 of"):
        refuse(node("a"), node("b"), worker=role(min=3, spread="node"))
    refuse(node("a"), node("b"), worker=role(min=2, spread="node"))


def test_amounts_are_said_in_words():
    assert words(Size(1024, 2, {GPU: 1, "fpga": 2, "none": 0})) == "2 CPUs, 1024 MB, 2 fpga, 1 GPUs"
