"""What can go wrong between Hadoop and us, and who is to blame.

    ProtocolError
    ├── LocalProtocolError    we asked for something that cannot be sent: Dromon's own mistake
    ├── RemoteProtocolError   the peer sent bytes that make no sense
    ├── Unauthenticated       the two sides cannot agree on who we are, or how to prove it
    └── CredentialsError      a credentials file or token is damaged

What the peer *says* went wrong is no fault of the protocol: see the events of ``connection``.
"""

from dromon.errors import EngineError


class ProtocolError(EngineError):
    """Hadoop's protocol was broken."""


class LocalProtocolError(ProtocolError):
    """Dromon tried to send what Hadoop's protocol does not allow."""

    hint = "This is a mistake in Dromon: please report it with the command that led here."


class RemoteProtocolError(ProtocolError):
    """The peer does not speak Hadoop's RPC protocol."""

    hint = "Check host and port: is it the RPC port of the service, not its web page?"


class Unauthenticated(ProtocolError):
    """The server and Dromon found no way to authenticate."""

    hint = "Check `hadoop.security.authentication` and `hadoop.rpc.protection` of the cluster."


class CredentialsError(ProtocolError):
    """The credentials are damaged."""

    hint = "A credentials file is written by the cluster or by Dromon; it cannot be edited by hand."
