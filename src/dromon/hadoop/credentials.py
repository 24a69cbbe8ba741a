"""The credentials file: how tokens and secrets come to a container, and how we pass them on.

``HDTS``, one byte of format (0 Writable, 1 protobuf), then the tokens and secrets by alias. Hadoop
writes the first format unless told otherwise and reads both. No file is opened here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from dromon.hadoop import writable
from dromon.hadoop.faults import CredentialsError, LocalProtocolError, ProtocolError
from dromon.hadoop.messages.security import CREDENTIALS
from dromon.hadoop.protobuf import delimited, read_delimited
from dromon.hadoop.token import Token

MAGIC = b"HDTS"
WRITABLE, PROTOBUF = 0, 1


@dataclass(frozen=True)
class Credentials:
    """Tokens and secrets, each by its alias. Aliases mean nothing: look tokens up by kind."""

    tokens: Mapping[str, Token] = field(default_factory=dict)
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def of_kind(self, kind: str) -> list[Token]:
        return [token for token in self.tokens.values() if token.kind == kind]

    def without(self, kind: str) -> Credentials:
        """The same less one kind: a member must never get its master's AMRMToken."""
        left = {alias: token for alias, token in self.tokens.items() if token.kind != kind}
        return Credentials(left, self.secrets)

    def plus(self, other: Credentials) -> Credentials:
        """Both together; on the same alias the other one's wins."""
        return Credentials({**self.tokens, **other.tokens}, {**self.secrets, **other.secrets})


def load(data: bytes) -> Credentials:
    """What is in a credentials file."""
    if data[:4] != MAGIC:
        raise CredentialsError("this is no credentials file: it does not begin with HDTS")
    version = data[4] if len(data) > 4 else -1
    if version == WRITABLE:
        return _load_writable(writable.Reader(data[5:]))
    if version == PROTOBUF:
        return _load_protobuf(data)
    raise CredentialsError(f"a credentials file of unknown format {version}")


def dump(credentials: Credentials, version: int = WRITABLE) -> bytes:
    """The file's bytes. The default format is what every Hadoop reads and writes."""
    head = MAGIC + bytes((version,))
    if version == PROTOBUF:
        tokens = [
            {"alias": alias, "token": token.to_message()}
            for alias, token in credentials.tokens.items()
        ]
        secrets = [
            {"alias": alias, "secret": secret} for alias, secret in credentials.secrets.items()
        ]
        return head + delimited(CREDENTIALS, {"tokens": tokens, "secrets": secrets})
    if version != WRITABLE:
        raise LocalProtocolError(f"no credentials format {version}")
    parts = [head, writable.vint(len(credentials.tokens))]
    for alias, token in credentials.tokens.items():
        parts += [writable.text(alias), _token_bytes(token)]
    parts.append(writable.vint(len(credentials.secrets)))
    for alias, secret in credentials.secrets.items():
        parts += [writable.text(alias), writable.sized(secret)]
    return b"".join(parts)


def to_url(token: Token) -> str:
    """A token as REST calls and WebHDFS carry it: URL-safe base64, no padding."""
    return base64.urlsafe_b64encode(_token_bytes(token)).rstrip(b"=").decode()


def _load_writable(reader: writable.Reader) -> Credentials:
    tokens: dict[str, Token] = {}
    for _ in range(_count(reader)):
        alias = reader.text()
        tokens[alias] = _take_token(reader)
    secrets: dict[str, bytes] = {}
    for _ in range(_count(reader)):
        alias = reader.text()
        secrets[alias] = reader.sized()
    return Credentials(tokens, secrets)


def _load_protobuf(data: bytes) -> Credentials:
    try:
        message, _ = read_delimited(CREDENTIALS, data, 5)
    except ProtocolError as error:
        raise CredentialsError(f"the credentials file is damaged: {error}") from None
    return Credentials(
        {entry["alias"]: Token.from_message(entry["token"]) for entry in message["tokens"]},
        {entry["alias"]: entry["secret"] for entry in message["secrets"]},
    )


def _count(reader: writable.Reader) -> int:
    count = reader.vint()
    if count < 0:
        raise CredentialsError(f"a credentials file with {count} entries")
    return count


def _take_token(reader: writable.Reader) -> Token:
    identifier, password = reader.sized(), reader.sized()
    return Token(identifier, password, kind=reader.text(), service=reader.text())


def _token_bytes(token: Token) -> bytes:
    return b"".join(
        (
            writable.sized(token.identifier),
            writable.sized(token.password),
            writable.text(token.kind),
            writable.text(token.service),
        )
    )
