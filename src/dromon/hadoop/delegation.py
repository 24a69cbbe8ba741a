"""HDFS delegation tokens: asked of NameNodes over RPC, and cancelled.

A token lets whoever holds it act as its owner on one file system, without a password or a ticket.
Where security is off a NameNode gives none, and none is needed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dromon.hadoop.addresses import NameService
from dromon.hadoop.credentials import Credentials
from dromon.hadoop.failover import Policy
from dromon.hadoop.messages.namenode import NAME_NODE
from dromon.hadoop.protobuf import Record
from dromon.hadoop.site import Site
from dromon.hadoop.token import Token
from dromon.hadoop.transport import Identity, RpcClient, Unreachable

PATIENCE = 30.0


def fetch(
    services: Iterable[NameService],
    renewer: str,
    auth: Identity,
    *,
    use_ip: bool = True,
    patience: float = PATIENCE,
) -> list[Token]:
    """A token of each file system that issues them, to be renewed by ``renewer`` (for a job, the
    ResourceManager's principal). Each is filed as Hadoop's own clients look it up."""
    found: dict[str, Token] = {}
    for service in services:
        if service.name in found:
            continue
        answer = _ask(service, auth, "getDelegationToken", {"renewer": renewer}, patience)
        if answer.get("token"):
            token = Token.from_message(answer["token"])
            found[service.name] = replace(token, service=filed_under(service, use_ip))
    return list(found.values())


def cancel(
    token: Token, service: NameService, auth: Identity, *, patience: float = PATIENCE
) -> None:
    """Its owner may, and its renewer."""
    _ask(service, auth, "cancelDelegationToken", {"token": token.to_message()}, patience)


def filed_under(service: NameService, use_ip: bool = True) -> str:
    """The service of a token: ``ha-hdfs:name``, or the one NameNode's address and port."""
    if service.token_service:
        return service.token_service
    host, port = service.nodes[0].rpc
    if not use_ip:
        return f"{host.lower()}:{port}"
    try:
        return f"{socket.gethostbyname(host)}:{port}"
    except OSError as error:
        raise Unreachable(
            f"The NameNode's host {host} has no address: {error}.",
            hint="Check fs.defaultFS in core-site.xml, and `hdfs:` in the job.",
        ) from error


def uses_ip(site: Site) -> bool:
    """Does the site file tokens by address (Hadoop's default) or by name?"""
    return site.get("hadoop.security.token.service.use_ip", "true").lower() != "false"


def credentials(tokens: Iterable[Token]) -> Credentials:
    """Tokens as a credentials file holds them."""
    return Credentials({token.service: token for token in tokens})


def _ask(
    service: NameService, auth: Identity, method: str, message: dict[str, Any], patience: float
) -> Record:
    servers = [node.rpc for node in service.nodes]
    client = RpcClient(
        NAME_NODE,
        servers,
        auth,
        what=f"NameNode of hdfs://{service.name}",
        policy=Policy(patience=patience),
    )
    try:
        return client.call(method, message)
    finally:
        client.close()
