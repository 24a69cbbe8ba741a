"""What is written inside a token, in words: for diagnostics, never for decisions."""

from __future__ import annotations

from dromon.hadoop import ids, token, writable
from dromon.hadoop.faults import CredentialsError, ProtocolError
from dromon.hadoop.messages.identifiers import (
    AMRM_TOKEN_IDENTIFIER,
    CONTAINER_TOKEN_IDENTIFIER,
    NM_TOKEN_IDENTIFIER,
    YARN_DELEGATION_TOKEN_IDENTIFIER,
)
from dromon.hadoop.protobuf import decode
from dromon.hadoop.token import Token


def describe(of: Token) -> dict[str, str | int]:
    """The kind, the service and what the identifier tells. A token we cannot read says so."""
    told: dict[str, str | int] = {"kind": of.kind, "service": of.service}
    try:
        told.update(_inside(of))
    except ProtocolError:
        told["identifier"] = f"{len(of.identifier)} bytes that make no sense"
    return told


def _inside(of: Token) -> dict[str, str | int]:
    if of.kind == token.AM_RM:
        message = decode(AMRM_TOKEN_IDENTIFIER, of.identifier)
        return {"attempt": ids.attempt(message["app_attempt_id"]), "key": message["key_id"]}
    if of.kind == token.NODE_MANAGER:
        message = decode(NM_TOKEN_IDENTIFIER, of.identifier)
        return {
            "attempt": ids.attempt(message["app_attempt_id"]),
            "node": ids.node(message["node_id"]),
            "user": message["app_submitter"],
            "key": message["key_id"],
        }
    if of.kind == token.CONTAINER:
        message = decode(CONTAINER_TOKEN_IDENTIFIER, of.identifier)
        return {
            "container": ids.container(message["container_id"]),
            "node": message["nm_host_addr"],
            "user": message["app_submitter"],
            "expires_ms": message["expiry_time_stamp"],
            "key": message["master_key_id"],
        }
    if of.kind == token.RM_DELEGATION:
        message = decode(YARN_DELEGATION_TOKEN_IDENTIFIER, of.identifier)
        return {
            "owner": message["owner"],
            "renewer": message["renewer"],
            "real_user": message["real_user"],
            "issued_ms": message["issue_date"],
            "expires_ms": message["max_date"],
            "number": message["sequence_number"],
            "key": message["master_key_id"],
        }
    if of.kind == token.HDFS_DELEGATION:
        return _hdfs(writable.Reader(of.identifier))
    return {"identifier": f"{len(of.identifier)} bytes"}


def _hdfs(reader: writable.Reader) -> dict[str, str | int]:
    if reader.take(1) != b"\0":
        raise CredentialsError("an HDFS delegation token of an unknown version")
    names = ("owner", "renewer", "real_user")
    numbers = ("issued_ms", "expires_ms", "number", "key")
    told: dict[str, str | int] = {name: reader.text() for name in names}
    told.update({name: reader.vint() for name in numbers})
    return told
