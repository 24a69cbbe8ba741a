"""The coordinator beside the first member: sockets, clock and journal around `Coordinator`.

Members' exits, retries, back-off, deadlines and stop requests are decided here and done in place,
while the pods stay. The loss of a pod is not: the controller below restarts everything, and the
next coordinator reads here, in the journal, how far this one had come.
"""

import json
import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from dromon.agent import exitrecord
from dromon.agent.frames import FrameError, Message, Unpacker, pack
from dromon.agent.record import Record
from dromon.coordinator.coordinator import Coordinator, Effect, Keep, Send
from dromon.coordinator.door import Door
from dromon.engines.gang import shapes
from dromon.lifecycle import barrier, states
from dromon.lifecycle import events as ev
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.plan import GangPlan

# How the first pod ends. All but 0 have a TerminateJob policy, so that no pod is deleted.
FEWER, GIVE_UP, TIME_OVER, STOPPED = 200, 201, 202, 203
RESERVED = (FEWER, GIVE_UP, TIME_OVER, STOPPED)
RELEASED = 143  # as on SIGTERM: the controller gives the job new pods

POLL = 0.03  # seconds between two looks at the stop request
FAREWELL = 10.0  # seconds the others get to leave before the first pod ends


def history(record: Record) -> list[tuple[float, ev.Event]]:
    """What the gang has heard so far. A torn last line was never acted upon."""
    try:
        with open(record.path("events.jsonl")) as file:
            lines = [line for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []
    return [(entry["time"], ev.from_json(entry["event"])) for entry in map(json.loads, lines)]


def replayed(record: Record, request: Mapping[str, Any]) -> Gang:
    return Gang.replay(GangPlan.from_json(request["gang"]), history(record), prepared=True)


class Peer:
    """One connection: first at the door, then an agent's."""

    def __init__(self, sock: socket.socket, door: Door) -> None:
        self.sock = sock
        self.door = door
        self.unpacker = Unpacker()
        self.member = ""
        self.run = 0


class Shell:
    """`lay_out(attempt)` makes the working directory, `keep(attempt)` saves what is in it."""

    def __init__(
        self,
        record: Record,
        request: Mapping[str, Any],
        lay_out: Callable[[int], None],
        keep: Callable[[int], None],
    ) -> None:
        self.record = record
        self.request = request
        self.lay_out = lay_out
        self.keep = keep
        self.epoch = _last_epoch(record) + 1
        self.gang = replayed(record, request)
        self.coordinator = Coordinator(self.gang, shapes=shapes(request), in_place=True)
        self._came: set[str] = set()
        self._peers: dict[int, Peer] = {}
        self._heard_stop: str | None = None
        self._released = False
        with open(record.key, "rb") as file:
            self._key = file.read().strip()

    def run(self) -> int:
        """Until the job is over or its pods are to be replaced; the exit code of the first pod."""
        self._selector = selectors.DefaultSelector()
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._recover()
        host, port = listener.getsockname()
        write_whole(self.record.coordinator, {"address": f"tcp:{host}:{port}", "epoch": self.epoch})
        while not (self.gang.is_terminal or self._released):
            self._turn(listener)
        code = self._code()
        if self.gang.is_terminal:
            self.keep(self.gang.attempt)
        deadline = time.monotonic() + FAREWELL
        for number in list(self._peers):
            self._send(number, {"op": "bye"})
        while self._peers and time.monotonic() < deadline:
            self._turn(listener)
        return code

    def _code(self) -> int:
        if self._released:
            return RELEASED
        verdict = self.gang.verdict
        assert verdict is not None
        if self.gang.state == states.SUCCEEDED:
            pods = sum(role["replicas"] for role in self.request["roles"].values())
            # Pods that never came would keep the job waiting for them, were this 0.
            return 0 if len(self._came) == pods else FEWER
        if self.gang.state == states.STOPPED:
            return STOPPED
        return TIME_OVER if verdict.cause == "timeout" else GIVE_UP

    def _recover(self) -> None:
        """Every pod is new, so whatever ran has ended: by its record, or with its pod."""
        for name, member in list(self.gang.members.items()):
            if not member.is_live:
                continue
            exit = exitrecord.read(self.record.exit(name, member.run))
            if exit is None:
                self._happen(ev.MemberEvicted(name, member.run, "its pod is gone"))
            else:
                self._happen(ev.MemberExited(name, member.run, exit.to_json()))
        self._released = False

    # ---- turns --------------------------------------------------------------------------------

    def _turn(self, listener: socket.socket) -> None:
        for key, _ in self._selector.select(POLL):
            if key.data is None:
                self._accept(listener)
            else:
                self._read(key.fd)
        self._look_for_stop()
        wake_at = self.gang.wake_at
        if wake_at is not None and wake_at <= time.time():
            self._happen(ev.Tick())

    def _look_for_stop(self) -> None:
        try:
            with open(self.record.path("stop.json")) as file:
                asked = file.read()
        except FileNotFoundError:
            return
        if asked != self._heard_stop:
            self._heard_stop = asked
            self._happen(ev.StopRequested(**json.loads(asked)))

    def _accept(self, listener: socket.socket) -> None:
        sock, _ = listener.accept()
        door = Door(secrets.token_hex(16), lambda job: self._key, self.epoch)
        self._peers[sock.fileno()] = Peer(sock, door)
        self._selector.register(sock, selectors.EVENT_READ, sock)
        self._send(sock.fileno(), door.challenge())

    def _read(self, number: int) -> None:
        peer = self._peers[number]
        try:
            data = peer.sock.recv(65536)
            messages = peer.unpacker.feed(data)
        except (OSError, FrameError):
            data, messages = b"", []
        for message in messages:
            self._hear(number, peer, message)
        if not data:
            self._hang_up(number)

    def _hear(self, number: int, peer: Peer, message: Message) -> None:
        coordinator = self.coordinator
        if peer.member:
            heard = coordinator.on_message(number, peer.member, peer.run, message, time.time())
            return self._carry_out(heard)
        admitted = peer.door.admit(message)
        if admitted is None or admitted.job != self.gang.plan.job:
            return self._hang_up(number)
        peer.member, peer.run = admitted.member, admitted.run
        self._came.add(peer.member)
        self._send(number, admitted.welcome)
        self._carry_out(coordinator.on_hello(number, peer.member, peer.run))
        self._place()

    def _hang_up(self, number: int) -> None:
        """Nothing is concluded from it: whether the pod is lost is for the controller to say."""
        peer = self._peers.pop(number, None)
        if peer is not None:
            self._selector.unregister(peer.sock)
            peer.sock.close()
            self.coordinator.on_gone(number)

    # ---- runs ---------------------------------------------------------------------------------

    def _place(self) -> None:
        """Agents of members that do not run are room for the gang."""
        gang, members = self.gang, self.gang.members
        room = [m for m in self.coordinator.peers if m not in members or not members[m].is_live]
        queued = gang.state == states.QUEUED and barrier.is_enough(gang.plan, room)
        gathering = gang.state == states.STARTING and not gang.world
        if room and (queued or gathering):
            self._happen(ev.Placed(tuple(room)))

    def _happen(self, event: ev.Event) -> None:
        self._carry_out(self.coordinator.on_event(event, time.time()))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Keep):
                self._keep(effect)
            elif isinstance(effect, Send):
                if effect.message["op"] == "again":
                    self.lay_out(effect.message["attempt"])
                self._send(effect.peer, effect.message)
            elif isinstance(effect, ev.Release):
                self._released = True

    def _keep(self, kept: Keep) -> None:
        line = json.dumps({"time": kept.now, "event": kept.event.to_json()}) + "\n"
        fd = os.open(
            self.record.path("events.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)

    def _send(self, number: int, message: Message) -> None:
        peer = self._peers.get(number)
        if peer is not None:
            try:
                peer.sock.sendall(pack(message))
            except OSError:
                self._hang_up(number)


def _last_epoch(record: Record) -> int:
    try:
        with open(record.coordinator) as file:
            return int(json.load(file)["epoch"])
    except FileNotFoundError:
        return 0


def write_whole(path: str, value: Mapping[str, Any]) -> None:
    with open(path + ".new", "w") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)
