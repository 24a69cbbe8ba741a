"""SASL DIGEST-MD5, RFC 2831: the sums, and the two sides of the exchange.

Hadoop authenticates tokens with it: the user is the base64 of the token's identifier, the password
the base64 of its password. The server side exists for fakes that speak the real bytes.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Callable

from dromon.hadoop import protection
from dromon.hadoop.faults import RemoteProtocolError, Unauthenticated
from dromon.hadoop.protection import CIPHERS, OVERHEAD, Layer, md5
from dromon.hadoop.token import Token

QOPS = ("auth-conf", "auth-int", "auth")  # the strongest first: privacy, integrity, authentication
BUFFER = 65536  # what a side can take in one wrap where it does not say

_DIRECTIVE = re.compile(
    rb'[\s,]*([!#$%&\'*+.^_`|~A-Za-z0-9-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))\s*(?=,|$)',
    re.DOTALL,
)


class Session:
    """What both sides know once the client has answered; every sum follows from it."""

    def __init__(
        self,
        user: str,
        realm: str,
        password: str,
        nonce: str,
        cnonce: str,
        uri: str,
        qop: str = "auth",
    ) -> None:
        secret = md5(b":".join((_plain(user), _plain(realm), _plain(password))))
        self.h_a1 = md5(secret + f":{nonce}:{cnonce}".encode())
        self._middle = f":{nonce}:00000001:{cnonce}:{qop}:"
        self._uri = uri if qop == "auth" else f"{uri}:{'0' * 32}"

    def response(self) -> str:
        """The client's proof."""
        return self._sum("AUTHENTICATE")

    def rspauth(self) -> str:
        """The server's."""
        return self._sum("")

    def _sum(self, word: str) -> str:
        h_a2 = md5(f"{word}:{self._uri}".encode()).hex()
        return md5(f"{self.h_a1.hex()}{self._middle}{h_a2}".encode()).hex()


class DigestClient:
    """Our side. ``user`` and ``password`` prove themselves to the server, and it to us."""

    starts = False  # the server's nonce comes first

    def __init__(
        self, user: str, password: str, uri: str, cnonce: str, qops: Sequence[str] = QOPS
    ) -> None:
        self._user = user
        self._password = password
        self._uri = uri
        self._cnonce = cnonce
        self._qops = qops
        self._session: Session | None = None
        self.complete = False
        self.qop = ""
        self.cipher = ""
        self.layer: Layer | None = None

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to the server's first challenge; None to its second, when it proved itself."""
        if self.complete:
            raise RemoteProtocolError("the server went on with an authentication that was complete")
        if self._session is not None:
            self._verify(challenge)
            return None
        offered = directives(challenge)
        self._agree(offered)
        realm = offered.get("realm", [""])[0]
        nonce = offered["nonce"][0]
        self._session = Session(
            self._user, realm, self._password, nonce, self._cnonce, self._uri, self.qop
        )
        limit = _limit(offered)
        self.layer = protection.layer(
            self._session.h_a1, self.qop, self.cipher, server=False, limit=limit
        )
        parts = ["charset=utf-8"] if "charset" in offered else []
        parts += [f"username={_quoted(self._user)}", f"realm={_quoted(realm)}"]
        parts += [f"nonce={_quoted(nonce)}", "nc=00000001", f"cnonce={_quoted(self._cnonce)}"]
        parts += [f"digest-uri={_quoted(self._uri)}", f"maxbuf={BUFFER}"]
        parts += [f"response={self._session.response()}", f"qop={self.qop}"]
        parts += [f'cipher="{self.cipher}"'] if self.cipher else []
        return ",".join(parts).encode()

    def _agree(self, offered: Mapping[str, list[str]]) -> None:
        if len(offered.get("nonce", ())) != 1 or offered.get("algorithm") != ["md5-sess"]:
            raise RemoteProtocolError("the server's DIGEST-MD5 challenge lacks nonce or algorithm")
        qops = _words(offered.get("qop", ["auth"]))
        ciphers = _words(offered.get("cipher", []))
        for qop in QOPS:
            if qop not in qops or qop not in self._qops:
                continue
            if qop == "auth-conf":
                self.cipher = next((cipher for cipher in CIPHERS if cipher in ciphers), "")
                if not self.cipher:
                    continue
            self.qop = qop
            return
        if "auth-conf" in qops and "auth-conf" in self._qops:
            raise Unauthenticated(
                f"the server encrypts only with {', '.join(ciphers) or 'no named cipher'};"
                f" Dromon has {', '.join(CIPHERS)}",
                hint="Offer RC4 again in the server's Java, or set hadoop.rpc.protection to"
                " integrity.",
            )
        raise Unauthenticated(
            f"the server protects connections by {', '.join(qops)}; allowed here:"
            f" {', '.join(self._qops)}"
        )

    def _verify(self, challenge: bytes) -> None:
        assert self._session is not None
        proof = directives(challenge).get("rspauth", [""])[0]
        if not hmac.compare_digest(proof.encode(), self._session.rspauth().encode()):
            raise Unauthenticated(
                "the server could not prove that it knows the token's password",
                hint="Something between here and the cluster poses as the server.",
            )
        self.complete = True


class DigestServer:
    """The server's side. ``password_of`` names the password of a user, None if there is none."""

    def __init__(
        self,
        password_of: Callable[[str], str | None],
        nonce: str,
        realm: str = "default",
        qops: Sequence[str] = ("auth",),
        ciphers: Sequence[str] = ("3des", "rc4", "des", "rc4-56", "rc4-40"),
    ) -> None:
        self._password_of = password_of
        self._nonce = nonce
        self._realm = realm
        self._qops = qops
        self._ciphers = ciphers
        self.user = ""
        self.layer: Layer | None = None

    def challenge(self) -> bytes:
        parts = [f"realm={_quoted(self._realm)}", f"nonce={_quoted(self._nonce)}"]
        parts += [f'qop="{",".join(self._qops)}"', "charset=utf-8", "algorithm=md5-sess"]
        if "auth-conf" in self._qops:
            parts.append(f'cipher="{",".join(self._ciphers)}"')
        return ",".join(parts).encode()

    def accept(self, answer: bytes) -> bytes:
        """The last word to the client, ``rspauth``. Raises Unauthenticated for a wrong proof."""
        said = directives(answer)
        qop = said.get("qop", ["auth"])[0]
        cipher = said.get("cipher", [""])[0]
        if qop not in self._qops or (qop == "auth-conf" and cipher not in self._ciphers):
            raise Unauthenticated(f"the client chose qop {qop!r}, cipher {cipher!r}")
        if said.get("nonce") != [self._nonce] or said.get("nc") != ["00000001"]:
            raise Unauthenticated("the client answered another challenge")
        self.user = said.get("username", [""])[0]
        password = self._password_of(self.user)
        session = Session(
            self.user,
            said.get("realm", [""])[0],
            password or "",
            self._nonce,
            said.get("cnonce", [""])[0],
            said.get("digest-uri", [""])[0],
            qop,
        )
        proof = said.get("response", [""])[0].encode()
        if password is None or not hmac.compare_digest(proof, session.response().encode()):
            raise Unauthenticated("the client does not know the password")
        self.layer = protection.layer(session.h_a1, qop, cipher, server=True, limit=_limit(said))
        return f"rspauth={session.rspauth()}".encode()


def user_of(token: Token) -> str:
    return base64.b64encode(token.identifier).decode()


def password_of(token: Token) -> str:
    return base64.b64encode(token.password).decode()


def directives(data: bytes) -> dict[str, list[str]]:
    """``a=b,c="d, e"`` as a mapping; a name may come several times (realm may, by the RFC)."""
    found: dict[str, list[str]] = {}
    data = data.rstrip(b", \t\r\n")
    at = 0
    while at < len(data):
        match = _DIRECTIVE.match(data, at)
        if match is None:
            raise RemoteProtocolError(f"not a DIGEST-MD5 message at byte {at}")
        name, quoted, plain = match.groups()
        value = plain if quoted is None else re.sub(rb"\\(.)", rb"\1", quoted, flags=re.DOTALL)
        found.setdefault(name.decode().lower(), []).append(value.decode("utf-8", "replace"))
        at = match.end()
    return found


def _limit(said: Mapping[str, list[str]]) -> int:
    """How many bytes of ours one wrap may hold, by what the other side says it can take."""
    text = said.get("maxbuf", [str(BUFFER)])[0]
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) <= OVERHEAD:
        raise RemoteProtocolError(f"DIGEST-MD5 with a buffer of {text!r} bytes")
    return min(int(text), BUFFER) - OVERHEAD


def _words(values: Sequence[str]) -> list[str]:
    return [word for value in values for word in re.split(r"[\s,]+", value.lower()) if word]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(text: str) -> bytes:
    """RFC 2831: hashed as ISO 8859-1 where that can hold it, whatever charset it travels in."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
