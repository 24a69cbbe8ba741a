"""What the arbiter has root do, as numbers: one order is a few bytes, its answer one.

Root's process reads nothing else: no names, no paths, no JSON. On both sides of a pair of sockets.
"""

import logging
import socket
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dromon.engines.local.shared.entries import Entry

log = logging.getLogger("dromon.arbiter")
FORM = struct.Struct("!cIQQ")
LIMIT, GIVE, TAKE = b"L", b"G", b"T"
NO_LIMIT = (1 << 64) - 1
AGENT = 64 << 20  # bytes that the agent of each member may need besides
DONE, FAILED = b"1", b"0"
SOMEBODY = -1
EVERYBODY = (1 << 32) - 1  # instead of a user: several have parts of that GPU


class Order(NamedTuple):
    kind: bytes
    uid: int
    first: int = 0  # memory in bytes; or which GPU
    second: int = 0  # thousandths of a core


class Enforcer:
    """The arbiter's side: tells root what has changed in what each user has."""

    def __init__(self, sock: socket.socket | None, gpus: Mapping[str, int]) -> None:
        self._socket = sock
        self._gpus = gpus  # device -> its number
        self._limits: dict[int, tuple[int, int]] = {}
        # Number of a GPU -> user. An earlier life may have given any of them to somebody.
        self._given: dict[int, int] = dict.fromkeys(gpus.values(), SOMEBODY)

    def enforce(self, jobs: Iterable[Entry]) -> None:
        if self._socket is None:
            return
        limits, given = self._wanted([entry for entry in jobs if entry.placement])
        for uid in self._limits.keys() | limits.keys():
            memory, cpus = limits.get(uid, (NO_LIMIT, 0))
            if self._limits.get(uid) != (memory, cpus):
                self._send(Order(LIMIT, uid, memory, cpus))
        for gpu in self._given.keys() - given.keys():
            self._send(Order(TAKE, 0, gpu))
        for gpu, uid in given.items():
            if self._given.get(gpu) != uid:
                self._send(Order(GIVE, uid, gpu))
        self._limits, self._given = limits, given

    def _wanted(self, jobs: list[Entry]) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
        limits: dict[int, tuple[int, int]] = {}
        given: dict[int, int] = {}
        for entry in jobs:
            memory, cpus = limits.get(entry.uid, (0, 0))
            for share in entry.placement.values():
                cpus += round(share.cpus * 1000)
                # One member without a limit of its own, and the sum is none.
                is_limited = share.memory is not None and memory != NO_LIMIT
                memory = memory + (share.memory or 0) + AGENT if is_limited else NO_LIMIT
                for number in (self._gpus[gpu] for gpu in share.gpus if gpu in self._gpus):
                    is_alone = given.get(number, entry.uid) == entry.uid
                    given[number] = entry.uid if is_alone else EVERYBODY
            limits[entry.uid] = (memory, cpus)
        return limits, given

    def _send(self, order: Order) -> None:
        assert self._socket is not None
        try:
            self._socket.sendall(FORM.pack(*order))
            self._socket.recv(1)
        except OSError as error:  # root's own part is gone; the arbiter follows
            log.error("%s was not carried out: %s", order, error)
