"""Ports that stay ours between being chosen and being listened on by the member.

A port is held by a socket that is bound but does not listen. Linux lets a second socket bind the
same port when both allow it, as every framework's server does (SO_REUSEADDR: torch's store, MXNet,
Python's servers; SO_REUSEPORT: gRPC, thus TensorFlow and JAX), and never gives a held port to
anybody who asks for any free one or who connects out. The socket is bound to all addresses, IPv4
and IPv6 alike, so it does not matter on which of them the member listens.

A server that sets neither option finds the port taken. That is the lesser evil: let go before the
start, and now and then somebody else has it. Such a server must set SO_REUSEADDR.
"""

import socket
from typing import List, Tuple


class Ports:
    """`count` ports, held until `close`."""

    def __init__(self, count: int) -> None:
        self._sockets: List[socket.socket] = []
        try:
            for _ in range(count):
                self._sockets.append(_hold())
        except OSError:
            self.close()
            raise

    @property
    def numbers(self) -> Tuple[int, ...]:
        return tuple(s.getsockname()[1] for s in self._sockets)

    def close(self) -> None:
        for held in self._sockets:
            held.close()
        self._sockets = []


def _hold() -> socket.socket:
    try:
        held = _bound(socket.AF_INET6, "::")
    except OSError:  # no IPv6 here
        held = _bound(socket.AF_INET, "0.0.0.0")
    return held


def _bound(family: int, address: str) -> socket.socket:
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((address, 0))
    except OSError:
        held.close()
        raise
    return held
