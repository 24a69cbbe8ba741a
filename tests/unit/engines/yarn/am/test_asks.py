from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dromon.engines.yarn.am.asks import ANY, Asks, Container, Sheet, Size, Want
from dromon.hadoop import ids
from dromon.hadoop.messages.master import ALLOCATE_REQUEST
from dromon.hadoop.protobuf import decode, encode
from dromon.hadoop.token import Token

SMALL, LARGE = Size(512, 1), Size(2048, 4, {"yarn.io/gpu": 2})
TOKEN = Token(b"container", b"secret", "ContainerToken")


def name(number: int) -> str:
    return f"container_1700000000000_0001_01_{number:06d}"


def given_(number: int, want: Want, node: str = "n1:1", size: Size | None = None) -> Container:
    return Container(name(number), node, size or want.size, want.priority, want.key, TOKEN)


def figures(sheet: Sheet) -> dict[tuple[int, str], int]:
    """(request id, place) -> how many, as the ResourceManager reads it."""
    found = {}
    for ask in decode(ALLOCATE_REQUEST, encode(ALLOCATE_REQUEST, sheet.to_message()))["ask"]:
        found[ask["allocation_request_id"], ask["resource_name"]] = ask["num_containers"]
    return found


def test_the_first_sheet_says_everything_and_the_next_nothing():
    asks = Asks([Want("chief", 1, SMALL, 1), Want("worker", 2, LARGE, 3)])
    first = asks.changed()
    assert figures(first) == {(1, ANY): 1, (2, ANY): 3}
    ask = first.asks[1]
    assert ask["priority"] == {"priority": 2}
    assert ask["capability"]["resource_value_map"] == [{"key": "yarn.io/gpu", "value": 2}]
    assert asks.changed() == Sheet()


def test_what_comes_is_counted_down_on_both_sides():
    worker = Want("worker", 2, SMALL, 3)
    asks = Asks([worker])
    asks.changed()
    asks.changed()  # a beat without news: what comes now came after the ask
    assert asks.allocated(given_(1, worker)) == "worker"
    assert asks.left("worker") == 2
    assert figures(asks.changed()) == {}


def test_a_figure_is_said_again_when_containers_come_in_the_answer_to_it():
    worker = Want("worker", 2, SMALL, 3)
    asks = Asks([worker])
    asks.changed()
    asks.changed()
    asks.expect("worker", 5)
    assert figures(asks.changed()) == {(2, ANY): 5}
    asks.allocated(given_(1, worker))  # allocated before the 5 was heard: it now expects 5 more
    assert figures(asks.changed()) == {(2, ANY): 4}


def test_a_container_that_nobody_waits_for_goes_back():
    worker = Want("worker", 2, SMALL, 1)
    asks = Asks([worker])
    asks.changed()
    asks.changed()
    assert asks.allocated(given_(1, worker)) == "worker"
    assert asks.allocated(given_(2, worker)) is None
    assert asks.changed().release == (name(2),)
    assert asks.changed().release == ()


def test_cancelling_says_nought_and_what_was_under_way_is_surplus():
    worker = Want("worker", 2, SMALL, 4)
    asks = Asks([worker])
    asks.changed()
    asks.expect("worker", 0)
    assert figures(asks.changed()) == {(2, ANY): 0}
    assert asks.allocated(given_(1, worker)) is None
    assert figures(asks.changed()) == {}
    assert asks.is_complete


def test_a_request_id_nobody_asked_by_goes_back():
    asks = Asks([Want("worker", 2, SMALL, 1)])
    asks.changed()
    stranger = Container(name(1), "n1:1", SMALL, 2, 77, TOKEN)
    assert asks.allocated(stranger) is None
    assert asks.changed().release == (name(1),)
    assert asks.left("worker") == 1


def test_missing_gpus_are_noticed_and_not_asked_for_for_ever():
    worker = Want("worker", 2, LARGE, 1)
    asks = Asks([worker])
    asks.changed()
    asks.changed()
    assert asks.allocated(given_(1, worker, size=Size(2048, 4))) is None
    assert asks.shortages == {"worker": "0 of 2 yarn.io/gpu"}
    sheet = asks.changed()
    assert sheet.release == (name(1),)
    assert sheet.asks == ()


def test_resource_types_that_the_cluster_lacks_are_known_before_anything_is_asked():
    asks = Asks([Want("ps", 1, SMALL, 1), Want("worker", 2, LARGE, 1)])
    assert asks.unknown(["memory-mb", "vcores"]) == {"worker": ("yarn.io/gpu",)}
    assert asks.unknown(["yarn.io/gpu"]) == {}


def test_more_memory_than_asked_for_is_no_shortage():
    assert Size(1024, 1).lacks(Size(1000, 4)) == ""
    assert Size(512, 4).lacks(Size(1000, 4)) == "512 of 1000 MB of memory"


def test_a_resync_says_everything_that_is_still_open():
    chief, worker = Want("chief", 1, SMALL, 1), Want("worker", 2, LARGE, 3)
    asks = Asks([chief, worker])
    asks.changed()
    asks.changed()
    asks.allocated(given_(1, chief))
    asks.allocated(given_(2, worker))
    asks.allocated(given_(3, worker))
    asks.release(name(3))
    asks.avoid("bad:1")
    asks.changed()
    sheet = asks.everything()
    assert figures(sheet) == {(2, ANY): 1}
    assert sheet.release == (name(3),)
    assert sheet.avoid == ("bad", "bad:1")
    assert asks.changed() == Sheet()


def test_a_release_is_repeated_after_a_resync_until_the_container_is_over():
    asks = Asks()
    asks.release(name(3))
    asks.changed()
    asks.completed(name(3))
    assert asks.everything().release == ()


def test_a_refused_sheet_is_as_if_never_written():
    worker = Want("worker", 2, SMALL, 2)
    asks = Asks([worker])
    asks.changed()
    asks.expect("worker", 1)
    asks.release(name(9))
    asks.avoid("bad:1")
    asks.changed()
    asks.undo()
    sheet = asks.changed()
    assert figures(sheet) == {(2, ANY): 1}
    assert sheet.release == (name(9),)
    assert sheet.avoid == ("bad", "bad:1")


def test_avoided_nodes_are_welcome_again():
    asks = Asks()
    asks.avoid("a:1")
    assert asks.changed().avoid == ("a", "a:1")
    asks.welcome("a:1")
    assert asks.changed() == Sheet(welcome=("a", "a:1"))


def test_a_label_is_said_for_any_place_only():
    asks = Asks([Want("worker", 2, SMALL, 1, label="gpu", hosts=("h1",))])
    labels = {ask["resource_name"]: ask.get("node_label_expression") for ask in asks.changed().asks}
    assert labels == {"h1": None, "/default-rack": None, ANY: "gpu"}


@pytest.mark.parametrize("strict", [True, False])
def test_named_hosts_come_with_their_rack_and_any_place(strict):
    asks = Asks([Want("worker", 2, SMALL, 2, hosts=("h1", "h2"), racks=("/r",), strict=strict)])
    relaxed = {ask["resource_name"]: ask["relax_locality"] for ask in asks.changed().asks}
    assert relaxed == {"h1": True, "h2": True, "/r": not strict, ANY: not strict}


def test_figures_of_named_hosts_are_said_again_after_each_container():
    worker = Want("worker", 2, SMALL, 2, hosts=("h1", "h2"))
    asks = Asks([worker])
    asks.changed()
    asks.changed()
    asks.allocated(given_(1, worker, "h1:8041"))
    assert figures(asks.changed()) == {(2, "h1"): 1, (2, "h2"): 1, (2, "/default-rack"): 1}
    asks.allocated(given_(2, worker, "h2:8041"))
    assert set(figures(asks.changed()).values()) == {0}


def test_a_role_of_another_size_asks_by_another_request_and_cancels_the_first():
    old = Want("worker", 2, SMALL, 2)
    asks = Asks([old])
    asks.changed()
    asks.want(Want("worker", 2, LARGE, 2, request=102))
    assert figures(asks.changed()) == {(2, ANY): 0, (102, ANY): 2}
    assert asks.allocated(given_(1, old)) is None


def test_roles_never_share_a_priority_or_a_request():
    with pytest.raises(ValueError, match="one priority"):
        Asks([Want("chief", 1, SMALL, 1), Want("worker", 1, SMALL, 1)])
    with pytest.raises(ValueError, match="both ask as 1"):
        Asks([Want("chief", 1, SMALL, 1), Want("worker", 2, SMALL, 1, request=1)])


def test_a_container_of_an_earlier_attempt_need_not_be_asked_for():
    worker = Want("worker", 2, SMALL, 2)
    asks = Asks([worker])
    assert asks.adopt(given_(1, worker)) == "worker"
    assert figures(asks.changed()) == {(2, ANY): 1}
    stranger = Container(name(5), "n1:1", SMALL, 2, 77, TOKEN)
    assert asks.adopt(stranger) is None
    assert asks.changed().release == (name(5),)


def test_spread_without_constraints_bars_nodes_that_are_taken():
    worker = Want("worker", 2, SMALL, 3, spread=True)
    asks = Asks([worker])
    asks.changed()
    asks.changed()
    assert asks.allocated(given_(1, worker, "n1:1")) == "worker"
    assert asks.allocated(given_(2, worker, "n1:1")) is None
    sheet = asks.changed()
    assert figures(sheet) == {(2, ANY): 2}
    assert sheet.release == (name(2),)
    assert sheet.avoid == ("n1", "n1:1")
    assert asks.allocated(given_(3, worker, "n2:1")) == "worker"
    asks.changed()
    assert asks.allocated(given_(4, worker, "n3:1")) == "worker"
    assert asks.changed().welcome == ("n1", "n1:1", "n2", "n2:1")  # nobody waits any more


def test_a_plain_role_may_use_the_nodes_of_one_that_spreads():
    chief, worker = Want("chief", 1, SMALL, 1), Want("worker", 2, SMALL, 2, spread=True)
    asks = Asks([chief, worker])
    asks.changed()
    asks.changed()
    asks.allocated(given_(1, worker, "n1:1"))
    assert asks.allocated(given_(2, worker, "n1:1")) is None
    sheet = asks.changed()
    assert sheet.avoid == ()
    assert figures(sheet) == {}, "what came twice is asked for again when no plain role waits"
    assert asks.allocated(given_(3, chief, "n1:1")) == "chief"
    sheet = asks.changed()
    assert sheet.avoid == ("n1", "n1:1")
    assert figures(sheet) == {(2, ANY): 1}


def test_a_node_is_free_again_when_its_member_is_over():
    worker = Want("worker", 2, SMALL, 2, spread=True)
    asks = Asks([worker])
    asks.changed()
    asks.changed()
    asks.allocated(given_(1, worker, "n1:1"))
    asks.completed(name(1))
    assert asks.allocated(given_(2, worker, "n1:1")) == "worker"


def test_spread_by_constraint_is_one_scheduling_request_and_no_plain_ask():
    worker = Want("worker", 2, SMALL, 3, spread=True)
    asks = Asks([worker], constraints=True)
    sheet = asks.changed()
    assert sheet.asks == ()
    message = decode(ALLOCATE_REQUEST, encode(ALLOCATE_REQUEST, sheet.to_message()))
    (request,) = message["scheduling_requests"]
    assert request["allocation_request_id"] == 2
    assert request["allocation_tags"] == ["worker"]
    assert request["resource_sizing"]["num_allocations"] == 3
    simple = request["placement_constraint"]["simple_constraint"]
    assert (simple["scope"], simple["min_cardinality"], simple["max_cardinality"]) == ("node", 0, 0)
    (target,) = simple["target_expressions"]
    assert target == {"target_type": 2, "target_key": "self", "target_values": ["worker"]}


def test_constrained_asks_wait_for_a_beat_without_plain_ones():
    asks = Asks(
        [Want("worker", 1, SMALL, 3, spread=True), Want("ps", 2, SMALL, 1)], constraints=True
    )
    first, second, third = asks.changed(), asks.changed(), asks.changed()
    assert [len(sheet.asks) for sheet in (first, second, third)] == [1, 0, 0]
    assert [len(sheet.constrained) for sheet in (first, second, third)] == [0, 1, 0]


def test_of_two_roles_that_spread_the_second_waits_for_the_first():
    ps, worker = (Want(role, i, SMALL, 2, spread=True) for i, role in ((1, "ps"), (2, "worker")))
    asks = Asks([worker, ps])
    assert figures(asks.changed()) == {(1, ANY): 2}
    asks.changed()
    assert asks.allocated(given_(1, ps, "n1:1")) == "ps"
    assert asks.changed().avoid == ("n1", "n1:1")
    assert asks.allocated(given_(2, ps, "n2:1")) == "ps"
    sheet = asks.changed()
    assert figures(sheet) == {(2, ANY): 2}
    assert sheet.welcome == ("n1", "n1:1")


class Manager:
    """A ResourceManager as far as asks go: figures that replace each other, and a blacklist."""

    def __init__(self, nodes: int, wants: list[Want]) -> None:
        self.nodes = [f"n{i}:1" for i in range(nodes)]
        self.wants = {want.key: want for want in wants}
        self.pending: dict[int, int] = {}
        self.barred: set[str] = set()
        self.ready: list[Container] = []
        self.made = 0

    def hear(self, sheet: Sheet) -> list[Container]:
        for (request, place), count in figures(sheet).items():
            assert place == ANY
            self.pending[request] = count
        self.barred = self.barred - set(sheet.welcome) | set(sheet.avoid)
        ready, self.ready = self.ready, []
        return ready

    def allocate(self, choice: int) -> None:
        """A node reports: it gets something that is waited for, if it may have it."""
        node = self.nodes[choice % len(self.nodes)]
        waiting = sorted(request for request, count in self.pending.items() if count > 0)
        if waiting and node not in self.barred:
            request = waiting[choice % len(waiting)]
            self.pending[request] -= 1
            self.made += 1
            self.ready.append(given_(self.made, self.wants[request], node))

    def restart(self) -> None:
        self.pending, self.barred = {}, set()


beats = st.lists(st.integers(0, 1000), max_size=6)


@settings(deadline=None)
@given(st.lists(beats, max_size=12), st.sets(st.integers(0, 11), max_size=3), st.booleans())
def test_whatever_comes_when_each_role_ends_with_what_it_wants(history, restarts, spread):
    wants = [
        Want("chief", 1, SMALL, 1),
        Want("worker", 2, SMALL, 4, spread=True),
        Want("ps", 3, LARGE, 2, spread=spread),
    ]
    asks, manager = Asks(wants), Manager(5, wants)
    held: dict[str, tuple[str, str]] = {}
    returned: set[str] = set()

    def beat(*, anew: bool = False) -> None:
        sheet = asks.everything() if anew else asks.changed()
        returned.update(sheet.release)
        for container in manager.hear(sheet):
            role = asks.allocated(container)
            if role is not None:
                held[container.id] = (role, container.node)

    for number, choices in enumerate(history):
        if number in restarts:
            manager.restart()
        beat(anew=number in restarts)
        for choice in choices:
            manager.allocate(choice)
    for number in range(60):  # and then all nodes report in turn
        beat()
        manager.allocate(number)
        manager.allocate(number + 2)
    beat()
    beat()
    assert asks.is_complete
    assert Counter(role for role, _ in held.values()) == {"chief": 1, "worker": 4, "ps": 2}
    for role in {"worker", "ps"} if spread else {"worker"}:
        nodes = [node for held_by, node in held.values() if held_by == role]
        assert len(nodes) == len(set(nodes))
    assert not any(manager.pending.values()), "nothing is asked for that nobody wants"
    assert returned == {name(i + 1) for i in range(manager.made)} - set(held)
    assert manager.barred == set()


def test_a_container_reads_what_the_resource_manager_wrote():
    message: dict[str, Any] = {
        "id": ids.parse_container(name(7)),
        "node_id": {"host": "h", "port": 8041},
        "node_http_address": "h:8042",
        "resource": {
            "memory": 512, "virtual_cores": 1,
            "resource_value_map": [{"key": "memory-mb", "value": 512},
                                   {"key": "yarn.io/gpu", "value": 1}],
        },
        "priority": {"priority": 3},
        "container_token": TOKEN.to_message(),
        "allocation_request_id": 3,
    }  # fmt: skip
    from dromon.hadoop.messages.records import CONTAINER

    found = Container.from_message(decode(CONTAINER, encode(CONTAINER, message)))
    size = Size(512, 1, {"yarn.io/gpu": 1})
    assert found == Container(name(7), "h:8041", size, 3, 3, TOKEN, "h:8042")
    assert found.host == "h"
    assert "secret" not in repr(found)
