"""What SASL DIGEST-MD5 puts around messages once both sides are known: RFC 2831, sections 2.3, 2.4.

Integrity signs each message; privacy also encrypts it. Java offers 3des, rc4, des, rc4-56 and
rc4-40 for privacy. The standard library has no DES, and one written in Python would be too slow to
be kind to anybody, so the three RC4 ciphers are what we speak. All of these are old ciphers, kept
because Hadoop has no others here: who needs real privacy puts the cluster behind a private network.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Protocol

from dromon.hadoop.faults import RemoteProtocolError

CIPHERS = ("rc4", "rc4-56", "rc4-40")  # the strongest first
KEY_BYTES = {"rc4": 16, "rc4-56": 7, "rc4-40": 5}  # how much of H(A1) makes the key

_TO_SERVER = b"Digest session key to client-to-server signing key magic constant"
_TO_CLIENT = b"Digest session key to server-to-client signing key magic constant"
_SEAL_TO_SERVER = b"Digest H(A1) to client-to-server sealing key magic constant"
_SEAL_TO_CLIENT = b"Digest H(A1) to server-to-client sealing key magic constant"

_MAC = 10
_TRAILER = struct.Struct(">HI")  # message type 1, sequence number
OVERHEAD = _MAC + _TRAILER.size


def md5(data: bytes) -> bytes:
    # Not for security of ours: a host in FIPS mode would refuse it without the word.
    return hashlib.md5(data, usedforsecurity=False).digest()


class Layer(Protocol):
    """What an authenticated connection's bytes go through. ``limit``: most bytes in one wrap."""

    limit: int

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, data: bytes) -> bytes: ...


class Rc4:
    """The stream cipher; its state goes on from message to message."""

    def __init__(self, key: bytes) -> None:
        state = list(range(256))
        j = 0
        for i in range(256):
            j = (j + state[i] + key[i % len(key)]) & 255
            state[i], state[j] = state[j], state[i]
        self._state = state
        self._i = self._j = 0

    def apply(self, data: bytes) -> bytes:
        state, i, j = self._state, self._i, self._j
        out = bytearray(len(data))
        for at, byte in enumerate(data):
            i = (i + 1) & 255
            a = state[i]
            j = (j + a) & 255
            b = state[j]
            state[i], state[j] = b, a
            out[at] = byte ^ state[(a + b) & 255]
        self._i, self._j = i, j
        return bytes(out)


class Integrity:
    """auth-int: message, ten bytes of HMAC-MD5, type, sequence number."""

    def __init__(self, send_key: bytes, receive_key: bytes, limit: int) -> None:
        self._send_key = send_key
        self._receive_key = receive_key
        self._sent = self._received = 0
        self.limit = limit

    def wrap(self, message: bytes) -> bytes:
        mac = _mac(self._send_key, self._sent, message)
        data = self._seal(message + mac) + _TRAILER.pack(1, self._sent)
        self._sent = (self._sent + 1) & 0xFFFFFFFF
        return data

    def unwrap(self, data: bytes) -> bytes:
        if len(data) < OVERHEAD:
            raise RemoteProtocolError(f"a protected message of only {len(data)} bytes")
        kind, number = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
        if kind != 1 or number != self._received:
            raise RemoteProtocolError(
                f"protected message {number} of type {kind} where number {self._received} was due"
            )
        signed = self._open(data[: -_TRAILER.size])
        message, mac = signed[:-_MAC], signed[-_MAC:]
        if not hmac.compare_digest(mac, _mac(self._receive_key, number, message)):
            raise RemoteProtocolError(
                "a protected message does not match its signature: changed on its way"
            )
        self._received = (self._received + 1) & 0xFFFFFFFF
        return message

    def _seal(self, data: bytes) -> bytes:
        return data

    def _open(self, data: bytes) -> bytes:
        return data


class Privacy(Integrity):
    """auth-conf: the same, message and HMAC encrypted."""

    def __init__(
        self, send_key: bytes, receive_key: bytes, seal: bytes, open_: bytes, limit: int
    ) -> None:
        super().__init__(send_key, receive_key, limit)
        self._sealing = Rc4(seal)
        self._opening = Rc4(open_)

    def _seal(self, data: bytes) -> bytes:
        return self._sealing.apply(data)

    def _open(self, data: bytes) -> bytes:
        return self._opening.apply(data)


def layer(h_a1: bytes, qop: str, cipher: str, *, server: bool, limit: int) -> Layer | None:
    """The layer both sides derive from the session's H(A1); none for plain authentication."""
    if qop == "auth":
        return None
    out, into = md5(h_a1 + _TO_SERVER), md5(h_a1 + _TO_CLIENT)
    if server:
        out, into = into, out
    if qop == "auth-int":
        return Integrity(out, into, limit)
    part = h_a1[: KEY_BYTES[cipher]]
    seal, open_ = md5(part + _SEAL_TO_SERVER), md5(part + _SEAL_TO_CLIENT)
    if server:
        seal, open_ = open_, seal
    return Privacy(out, into, seal, open_, limit)


def _mac(key: bytes, number: int, message: bytes) -> bytes:
    signer = hmac.new(key, struct.pack(">I", number), lambda: hashlib.md5(usedforsecurity=False))
    signer.update(message)
    return signer.digest()[:_MAC]
