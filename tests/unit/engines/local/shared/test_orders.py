"""What the arbiter has root do: only what has changed, and in numbers."""

import socket
import threading

from dromon.engines.local.shared.entries import Entry
from dromon.engines.local.shared.orders import (
    AGENT,
    DONE,
    EVERYBODY,
    FORM,
    GIVE,
    LIMIT,
    NO_LIMIT,
    TAKE,
    Enforcer,
    Order,
)
from dromon.sched.asks import RoleAsk, Share
from dromon.sched.events import JobSubmitted

JOB = JobSubmitted("ann/x-1", 1, 0.0, (RoleAsk("worker", 1, 1),))


def entry(uid: int, *shares: Share) -> Entry:
    placement = {f"worker-{n}": share for n, share in enumerate(shares)}
    return Entry(f"u{uid}/x-1", uid, "/home", JOB, state="running", placement=placement)


class Root:
    """Hears and obeys."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self._socket, theirs = socket.socketpair()
        self.enforcer = Enforcer(theirs, {"GPU-a": 0, "GPU-b": 3})
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while data := self._socket.recv(FORM.size, socket.MSG_WAITALL):
            self.orders.append(Order(*FORM.unpack(data)))
            self._socket.send(DONE)

    def after(self, *entries: Entry) -> set[Order]:
        self.orders.clear()
        self.enforcer.enforce(entries)
        return set(self.orders)


def test_a_users_limits_are_the_sum_of_what_they_were_given():
    root = Root()
    both = entry(7, Share("vm", 1.5, 100, ("GPU-b",)), Share("vm", 0.5, 50))
    # Of the other GPU an earlier life may have been the last to speak.
    assert root.after(both) == {
        Order(LIMIT, 7, 150 + 2 * AGENT, 2000), Order(GIVE, 7, 3), Order(TAKE, 0, 0),
    }  # fmt: skip
    assert root.after(both) == set(), "nothing has changed"
    assert root.after() == {Order(LIMIT, 7, NO_LIMIT, 0), Order(TAKE, 0, 3)}


def test_one_member_without_a_limit_and_the_sum_has_none():
    root = Root()
    assert Order(LIMIT, 7, NO_LIMIT, 0) in root.after(entry(7, Share("vm", 0.0, None)))
    shares = (Share("vm", 0.0, 100), Share("vm", 0.0, None), Share("vm", 1.0, 100))
    assert root.after(entry(7, *shares)) == {Order(LIMIT, 7, NO_LIMIT, 1000)}


def test_a_gpu_that_goes_from_one_user_to_another_is_given_once():
    root = Root()
    root.after(entry(7, Share("vm", gpus=("GPU-a",))))
    said = root.after(entry(8, Share("vm", gpus=("GPU-a",))))
    assert Order(GIVE, 8, 0) in said
    assert not [order for order in said if order.kind == TAKE]


def test_a_gpu_of_which_several_users_have_parts_is_open_to_everybody_meanwhile():
    root = Root()
    halves = [entry(uid, Share("vm", gpus=("GPU-a",), part=0.5)) for uid in (7, 8)]
    assert Order(GIVE, EVERYBODY, 0) in root.after(*halves)
    assert Order(GIVE, 8, 0) in root.after(halves[1])


def test_without_root_nothing_is_ordered():
    Enforcer(None, {"GPU-a": 0}).enforce([entry(7, Share("vm", 1.0, 100, ("GPU-a",)))])
