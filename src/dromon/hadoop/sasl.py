"""Who we are to a Hadoop server: the seam between the connection and what proves our identity.

``Simple`` names a user and proves nothing. ``DigestMd5`` proves a token. Kerberos would be one more
class with these members: ``method`` "KERBEROS", ``mechanism`` "GSSAPI", and a client that asks the
ticket cache; the connection knows nothing of what happens inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dromon.hadoop import digest
from dromon.hadoop.protection import Layer
from dromon.hadoop.token import Token


class Mechanism(Protocol):
    """One SASL exchange, from our side, on one connection."""

    @property
    def starts(self) -> bool:
        """Do we speak first, where the server sent no challenge with its offer?"""

    @property
    def complete(self) -> bool:
        """Has the server proved itself, too? Its word of success counts for nothing before."""

    @property
    def layer(self) -> Layer | None:
        """What later bytes go through; None if the exchange agreed on no protection."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; the first may be empty. None: nothing more to say."""


class Auth(Protocol):
    """An identity. ``method`` is Hadoop's word for it, ``mechanism`` is SASL's."""

    @property
    def method(self) -> str: ...

    @property
    def mechanism(self) -> str: ...

    @property
    def user_info(self) -> Mapping[str, str]:
        """What the connection context says of us."""

    def client(self, protocol: str, server_id: str) -> Mechanism | None:
        """A fresh exchange with that server; None: this identity needs none."""


@dataclass(frozen=True)
class Simple:
    """The user's word for it, on clusters that take it: no SASL at all."""

    user: str
    real_user: str = ""  # who really speaks, where ``user`` is impersonated
    method: str = field(default="SIMPLE", init=False)
    mechanism: str = field(default="", init=False)

    @property
    def user_info(self) -> Mapping[str, str]:
        named = {"effective_user": self.user}
        return {**named, "real_user": self.real_user} if self.real_user else named

    def client(self, protocol: str, server_id: str) -> Mechanism | None:
        return None


@dataclass(frozen=True)
class DigestMd5:
    """A token. ``cnonce`` is random text, new for every connection."""

    token: Token
    cnonce: str
    qops: Sequence[str] = digest.QOPS
    method: str = field(default="TOKEN", init=False)
    mechanism: str = field(default="DIGEST-MD5", init=False)

    @property
    def user_info(self) -> Mapping[str, str]:
        return {}  # the token names the user; naming another is fatal

    def client(self, protocol: str, server_id: str) -> Mechanism | None:
        return digest.DigestClient(
            digest.user_of(self.token),
            digest.password_of(self.token),
            f"{protocol}/{server_id}",
            self.cnonce,
            self.qops,
        )
