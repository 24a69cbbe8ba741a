"""The server's side of the same protocol, as sans-IO as ``connection``. For fakes in tests.

Nothing in Dromon serves Hadoop RPC; but a fake ResourceManager that spoke anything but the real
bytes would prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dromon.hadoop import framing
from dromon.hadoop.digest import DigestServer
from dromon.hadoop.faults import RemoteProtocolError, Unauthenticated
from dromon.hadoop.framing import Body, FrameBuffer
from dromon.hadoop.messages.enums import RpcErrorCode, RpcStatus, SaslState
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

_OFFER = {"method": "TOKEN", "mechanism": "DIGEST-MD5", "protocol": "", "server_id": "default"}


@dataclass(frozen=True)
class Call:
    """A client asks. Answer with ``reply`` or ``fail``, in any order."""

    call_id: int
    method: str
    message: Record
    user: str  # the token's identifier in base64, or the name a simple client gave
    client_id: bytes = b""
    retry: int = 0


class RpcServerConnection:
    """``digest``: how clients prove themselves; None takes their word (simple authentication)."""

    def __init__(self, protocol: Protocol, digest: DigestServer | None = None) -> None:
        self._protocol = protocol
        self._digest = digest
        self._start = bytearray()
        self._greeted = False
        self._trusted = False
        self._frames = FrameBuffer()
        self._inner = FrameBuffer()
        self._layer: Layer | None = None
        self._calls: list[Call] = []
        self._methods: dict[int, str] = {}
        self._out = bytearray()
        self.pings = 0
        self.context: Record | None = None
        self.closed = False

    def receive_data(self, data: bytes) -> None:
        if self.closed or not data:
            self.closed = True
            return
        if not self._greeted:
            self._start += data
            if len(self._start) < 7:
                return
            data = bytes(self._start[7:])
            self._greet(bytes(self._start[:7]))
        for frame in self._frames.feed(data):
            if not self.closed:
                self._hear(frame)

    def calls_received(self) -> list[Call]:
        calls, self._calls = self._calls, []
        return calls

    def data_to_send(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data

    def reply(self, call_id: int, payload: Mapping[str, Any]) -> None:
        table = self._protocol.method(self._methods.pop(call_id)).response
        header = {"call_id": call_id, "status": RpcStatus.SUCCESS, "server_ipc_version_num": 9}
        self._send(framing.pack((RPC_RESPONSE_HEADER, header), (table, payload)))

    def fail(self, call_id: int, exception: str, text: str, detail: int = 1) -> None:
        """One call fails with a Java exception."""
        self._methods.pop(call_id)
        self._send(self._error(call_id, RpcStatus.ERROR, exception, text, detail))

    def give_up(self, exception: str, text: str, detail: int = 15, call_id: int = -1) -> None:
        """The whole connection fails."""
        self._send(self._error(call_id, RpcStatus.FATAL, exception, text, detail))
        self.closed = True

    def _greet(self, first: bytes) -> None:
        self._greeted = True
        if first[:5] != framing.MAGIC + bytes((framing.VERSION,)):
            raise RemoteProtocolError(f"not a Hadoop client: {first!r}")
        if (first[6] == framing.SASL) == (self._digest is not None):
            self._trusted = self._digest is None
        elif self._digest is not None:
            self.give_up(
                "org.apache.hadoop.security.AccessControlException",
                "SIMPLE authentication is not enabled.  Available:[TOKEN]",
                RpcErrorCode.FATAL_UNAUTHORIZED,
            )

    def _hear(self, frame: bytes) -> None:
        body = Body(frame)
        header = body.take(RPC_REQUEST_HEADER)
        if header["call_id"] == framing.SASL_ID:
            self._sasl(body.take(RPC_SASL))
        elif not self._trusted or self._layer is not None:
            raise RemoteProtocolError("a frame out of turn: unauthenticated or unprotected")
        else:
            self._take(header, body)

    def _take(self, header: Record, body: Body) -> None:
        call_id = header["call_id"]
        if call_id == framing.CONTEXT_ID:
            self.context = body.take(IPC_CONNECTION_CONTEXT)
        elif call_id == framing.PING_ID:
            self.pings += 1
        elif self.context is None:
            raise RemoteProtocolError("a call before the connection context")
        else:
            method = body.take(REQUEST_HEADER)["method_name"]
            message = body.take(self._protocol.method(method).request)
            user = self._digest.user if self._digest else ""
            named = self.context["user_info"]["effective_user"]
            self._methods[call_id] = method
            self._calls.append(
                Call(
                    call_id,
                    method,
                    message,
                    user or named,
                    header["client_id"],
                    header["retry_count"],
                )
            )
        body.finish()

    def _sasl(self, said: Record) -> None:
        state = said["state"]
        if state == SaslState.WRAP and self._layer is not None:
            for inner in self._inner.feed(self._layer.unwrap(said["token"])):
                body = Body(inner)
                self._take(body.take(RPC_REQUEST_HEADER), body)
        elif self._digest is None:  # security is off: the client is told to go on without
            self._trusted = True
            self._say(SaslState.SUCCESS)
        elif state == SaslState.NEGOTIATE:
            offer = {**_OFFER, "challenge": self._digest.challenge()}
            self._say(SaslState.NEGOTIATE, auths=[offer])
        elif state == SaslState.INITIATE:
            self._accept(self._digest, said)
        else:
            raise RemoteProtocolError(f"SASL state {state} out of turn")

    def _accept(self, digest: DigestServer, said: Record) -> None:
        chosen = {
            "method": "TOKEN",
            "mechanism": "DIGEST-MD5",
            "protocol": "",
            "server_id": "default",
        }
        if said["auths"] != [chosen]:
            raise RemoteProtocolError(f"the client chose {said['auths']}")
        try:
            token = digest.accept(said["token"])
        except Unauthenticated as error:
            name = "javax.security.sasl.SaslException"
            self.give_up(name, str(error), RpcErrorCode.FATAL_UNAUTHORIZED, framing.SASL_ID)
            return
        self._say(SaslState.SUCCESS, token=token)
        self._trusted = True
        self._layer = digest.layer

    def _say(self, state: SaslState, **more: Any) -> None:
        header = {
            "call_id": framing.SASL_ID & 0xFFFFFFFF,
            "status": RpcStatus.SUCCESS,
            "server_ipc_version_num": 9,
            "client_id": b"",
            "retry_count": -1,
        }
        self._out += framing.pack(
            (RPC_RESPONSE_HEADER, header), (RPC_SASL, {"state": state, **more})
        )

    def _send(self, frame: bytes) -> None:
        if self._layer is None:
            self._out += frame
        else:  # Hadoop wraps a whole answer at once, whatever the client's buffer
            self._say(SaslState.WRAP, token=self._layer.wrap(frame))

    def _error(
        self, call_id: int, status: RpcStatus, exception: str, text: str, detail: int
    ) -> bytes:
        header = {
            "call_id": call_id & 0xFFFFFFFF,
            "status": status,
            "server_ipc_version_num": 9,
            "exception_class_name": exception,
            "error_msg": f"{text}\n\tat org.apache.hadoop.ipc.Server.call(Server.java)",
            "error_detail": detail,
        }
        return framing.pack((RPC_RESPONSE_HEADER, header))
