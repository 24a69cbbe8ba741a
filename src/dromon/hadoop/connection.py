"""One connection to a Hadoop RPC server, without the connection: bytes in, events out.

    conn = RpcConnection(APPLICATION_MASTER, DigestMd5(token, cnonce), client_id)
    conn.call("allocate", {"response_id": 0})
    sock.sendall(conn.data_to_send())
    conn.receive_data(sock.recv(65536))
    for event in conn.events_received(): ...

1. Calls may be made at once: they wait here until the server knows us.
2. Answers come in any order; each event names its call.
3. What the peer gets wrong is raised by ``receive_data``; what it *says* went wrong is an event.
   Either way a connection that broke stays broken, and its open calls are in the last event.
4. On a protected connection every frame after the handshake travels inside another, wrapped; the
   unwrapped bytes are a stream of their own, cut anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dromon.hadoop import framing
from dromon.hadoop.events import Closed, Event, Fatal, Reply, RpcError
from dromon.hadoop.faults import (
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    Unauthenticated,
)
from dromon.hadoop.framing import Body, FrameBuffer
from dromon.hadoop.messages.enums import RpcStatus, SaslState
from dromon.hadoop.messages.rpc import (
    IPC_CONNECTION_CONTEXT,
    REQUEST_HEADER,
    RPC_REQUEST_HEADER,
    RPC_RESPONSE_HEADER,
    RPC_SASL,
)
from dromon.hadoop.protection import Layer
from dromon.hadoop.protobuf import Record
from dromon.hadoop.protocol import Protocol
from dromon.hadoop.sasl import Auth, Mechanism

NEGOTIATING, INITIATED, OPEN, CLOSED = "negotiating", "initiated", "open", "closed"


class RpcConnection:
    def __init__(self, protocol: Protocol, auth: Auth, client_id: bytes) -> None:
        """``client_id``: 16 random bytes, those of one client over all its connections."""
        if len(client_id) != 16:
            raise LocalProtocolError(f"a client id of {len(client_id)} bytes; Hadoop wants 16")
        self._protocol = protocol
        self._auth = auth
        self._client_id = client_id
        self._next_call = 0
        self._calls: dict[int, str] = {}
        self._waiting: list[bytes] = []  # frames that wait for the handshake to end
        self._out = bytearray()
        self._events: list[Event] = []
        self._frames = FrameBuffer()
        self._inner = FrameBuffer()  # frames that were wrapped
        self._mechanism: Mechanism | None = None
        self._layer: Layer | None = None
        if auth.method == "SIMPLE":
            self._out += framing.preamble(sasl=False)
            self._open()
        else:
            self._out += framing.preamble(sasl=True)
            self._say(SaslState.NEGOTIATE)
            self.state = NEGOTIATING

    # --- what we say

    def call(self, method: str, payload: Mapping[str, Any], retry: int = 0) -> int:
        """Ask; the answer will bear the number that comes back. ``retry``: times asked before."""
        if self.state == CLOSED:
            raise LocalProtocolError(f"{method}: the connection is closed")
        tables = self._protocol.method(method)
        call_id = self._next_call
        name = {
            "method_name": method,
            "declaring_class_protocol_name": self._protocol.name,
            "client_protocol_version": self._protocol.version,
        }
        frame = framing.pack(
            (RPC_REQUEST_HEADER, self._header(call_id, retry)),
            (REQUEST_HEADER, name),
            (tables.request, payload),
        )
        self._next_call = (call_id + 1) & 0x7FFFFFFF
        self._calls[call_id] = method
        self._send(frame)
        return call_id

    def ping(self) -> None:
        """A sign of life while a call takes long. It gets no answer."""
        if self.state == OPEN:
            self._send(framing.pack((RPC_REQUEST_HEADER, self._header(framing.PING_ID, -1))))

    def data_to_send(self) -> bytes:
        """What has to go out now; each byte is given once."""
        data = bytes(self._out)
        self._out.clear()
        return data

    # --- what we hear

    def receive_data(self, data: bytes) -> None:
        """Bytes from the server; none at all means that it hung up."""
        if self.state == CLOSED:
            return
        try:
            if not data:
                self._hung_up()
                return
            for frame in self._frames.feed(data):
                self._hear(frame)
        except ProtocolError:
            if self.state != CLOSED:
                self._events.append(Closed(self._close()))
            raise

    def events_received(self) -> list[Event]:
        """What happened since the last time, in order."""
        events, self._events = self._events, []
        return events

    @property
    def calls_open(self) -> tuple[int, ...]:
        return tuple(self._calls)

    # --- inside

    def _header(self, call_id: int, retry: int) -> Mapping[str, Any]:
        client_id = b"" if call_id == framing.SASL_ID else self._client_id
        return {
            "rpc_kind": 2,
            "rpc_op": 0,
            "call_id": call_id,
            "client_id": client_id,
            "retry_count": retry,
        }

    def _say(self, state: SaslState, **more: Any) -> None:
        header = (RPC_REQUEST_HEADER, self._header(framing.SASL_ID, -1))
        self._out += framing.pack(header, (RPC_SASL, {"state": state, **more}))

    def _send(self, frame: bytes) -> None:
        if self.state != OPEN:
            self._waiting.append(frame)
        elif self._layer is None:
            self._out += frame
        else:
            limit = self._layer.limit
            for at in range(0, len(frame), limit):
                self._say(SaslState.WRAP, token=self._layer.wrap(frame[at : at + limit]))

    def _open(self) -> None:
        """The server knows us, or takes our word: tell it the protocol, then what waited."""
        self.state = OPEN
        context = {"user_info": self._auth.user_info, "protocol": self._protocol.name}
        self._send(
            framing.pack(
                (RPC_REQUEST_HEADER, self._header(framing.CONTEXT_ID, -1)),
                (IPC_CONNECTION_CONTEXT, context),
            )
        )
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            self._send(frame)

    def _close(self) -> tuple[int, ...]:
        self.state = CLOSED
        self._out.clear()
        lost = tuple(self._calls)
        self._calls.clear()
        return lost

    def _hung_up(self) -> None:
        cut = self._frames.partial or self._inner.partial
        self._events.append(Closed(self._close()))
        if cut:
            raise RemoteProtocolError(
                "the connection was cut in the middle of an answer",
                hint="The server or something on the way to it died; try again.",
            )

    def _hear(self, frame: bytes) -> None:
        if self.state == CLOSED:
            return
        body = Body(frame)
        header = body.take(RPC_RESPONSE_HEADER)
        if header["status"] == RpcStatus.FATAL:
            self._fatal(header)
        elif self.state != OPEN:
            self._shake_hands(header, body)
        elif self._layer is not None:
            for inner in self._inner.feed(self._unwrap(self._layer, header, body)):
                if self._layer is not None and self.state == OPEN:
                    inside = Body(inner)
                    self._answer(inside.take(RPC_RESPONSE_HEADER), inside)
        else:
            self._answer(header, body)

    def _answer(self, header: Record, body: Body) -> None:
        call_id = _signed(header["call_id"])
        if header["status"] == RpcStatus.FATAL:
            self._fatal(header)
            return
        method = self._calls.pop(call_id, None)
        if method is None:
            raise RemoteProtocolError(f"an answer to call {call_id}, which was not made")
        if header["status"] == RpcStatus.SUCCESS:
            message = body.take(self._protocol.method(method).response)
            self._events.append(Reply(call_id, method, message))
        else:
            text, trace = _said(header)
            name, detail = header["exception_class_name"], header["error_detail"]
            self._events.append(RpcError(call_id, method, name, text, trace, detail))
        body.finish()

    def _fatal(self, header: Record) -> None:
        text, trace = _said(header)
        name, detail = header["exception_class_name"], header["error_detail"]
        self._events.append(Fatal(name, text, trace, detail, self._close()))

    # --- the handshake

    def _shake_hands(self, header: Record, body: Body) -> None:
        if header["status"] != RpcStatus.SUCCESS:
            self._fatal(header)  # whatever it calls it: there is no call yet that could have failed
            return
        if _signed(header["call_id"]) != framing.SASL_ID:
            raise RemoteProtocolError("the server answers a call before it knows who asks")
        said = body.take(RPC_SASL)
        body.finish()
        state = said["state"]
        if state == SaslState.NEGOTIATE and self.state == NEGOTIATING:
            self._initiate(said["auths"])
        elif state == SaslState.CHALLENGE and self._mechanism is not None:
            answer = self._mechanism.respond(said["token"])
            self._say(SaslState.RESPONSE, token=answer or b"")
        elif state == SaslState.SUCCESS:
            self._success(said)
        else:
            raise RemoteProtocolError(f"SASL state {state} out of turn")

    def _initiate(self, offers: list[Record]) -> None:
        for offer in offers:
            if offer["method"] != self._auth.method:
                continue
            if offer["mechanism"] != self._auth.mechanism:
                raise Unauthenticated(
                    f"the server wants {offer['method']} by {offer['mechanism']};"
                    f" Dromon has {self._auth.mechanism}",
                    hint="Is `hadoop.security.sasl.mechanism` changed on the cluster?",
                )
            self._mechanism = self._auth.client(offer["protocol"], offer["server_id"])
            break
        if self._mechanism is None:
            methods = ", ".join(sorted({offer["method"] for offer in offers})) or "nothing"
            raise Unauthenticated(
                f"the server takes {methods}; Dromon came with {self._auth.method}"
            )
        answer = None
        if "challenge" in offer or self._mechanism.starts:
            answer = self._mechanism.respond(offer["challenge"])
        # The server compares the chosen offer with its own: nothing may be added or left out.
        chosen = {name: value for name, value in offer.items() if name != "challenge"}
        self.state = INITIATED
        self._say(SaslState.INITIATE, token=answer or b"", auths=[chosen])

    def _success(self, said: Record) -> None:
        if self._mechanism is None:
            raise Unauthenticated(
                "the server asks for no proof at all, where a token was brought",
                hint="Its security is off: use simple authentication with it.",
            )
        if "token" in said:
            self._mechanism.respond(said["token"])
        if not self._mechanism.complete:
            raise Unauthenticated("the server claims success without having proved itself")
        self._layer = self._mechanism.layer
        self._open()

    def _unwrap(self, layer: Layer, header: Record, body: Body) -> bytes:
        if _signed(header["call_id"]) != framing.SASL_ID:
            raise RemoteProtocolError("an unprotected answer on a protected connection")
        said = body.take(RPC_SASL)
        body.finish()
        if said["state"] != SaslState.WRAP:
            raise RemoteProtocolError(f"SASL state {said['state']} on an open connection")
        return layer.unwrap(said["token"])


def _signed(call_id: int) -> int:
    """Hadoop reads call ids zigzag and writes them plain: -33 comes back as 4294967263."""
    return call_id - (1 << 32) if call_id >= 1 << 31 else call_id


def _said(header: Record) -> tuple[str, str]:
    """The server's message and the Java stack trace that it glues to it."""
    text, _, trace = str(header["error_msg"]).partition("\n\tat ")
    return text.strip(), trace.strip()
