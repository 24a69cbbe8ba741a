"""Tokens and delegation tokens, as tables."""

from dromon.hadoop.protobuf import BYTES, STRING, UINT64, Table, many, need, one

TOKEN = Table(
    "TokenProto",
    need(1, "identifier", BYTES),
    need(2, "password", BYTES),
    need(3, "kind", STRING),
    need(4, "service", STRING),
)
CREDENTIALS_KV = Table(
    "CredentialsKVProto",
    need(1, "alias", STRING),
    one(2, "token", TOKEN),
    one(3, "secret", BYTES),
)
CREDENTIALS = Table(
    "CredentialsProto",
    many(1, "tokens", CREDENTIALS_KV),
    many(2, "secrets", CREDENTIALS_KV),
)
GET_DELEGATION_TOKEN_REQUEST = Table(
    "GetDelegationTokenRequestProto",
    need(1, "renewer", STRING),
)
GET_DELEGATION_TOKEN_RESPONSE = Table(
    "GetDelegationTokenResponseProto",
    one(1, "token", TOKEN),
)
RENEW_DELEGATION_TOKEN_REQUEST = Table(
    "RenewDelegationTokenRequestProto",
    need(1, "token", TOKEN),
)
RENEW_DELEGATION_TOKEN_RESPONSE = Table(
    "RenewDelegationTokenResponseProto",
    need(1, "new_expiry_time", UINT64),
)
CANCEL_DELEGATION_TOKEN_REQUEST = Table(
    "CancelDelegationTokenRequestProto",
    need(1, "token", TOKEN),
)
CANCEL_DELEGATION_TOKEN_RESPONSE = Table("CancelDelegationTokenResponseProto")
