"""The part of HDFS's ClientProtocol that deals in delegation tokens: all that we ask over RPC."""

from dromon.hadoop.messages.security import (
    CANCEL_DELEGATION_TOKEN_REQUEST,
    CANCEL_DELEGATION_TOKEN_RESPONSE,
    GET_DELEGATION_TOKEN_REQUEST,
    GET_DELEGATION_TOKEN_RESPONSE,
    RENEW_DELEGATION_TOKEN_REQUEST,
    RENEW_DELEGATION_TOKEN_RESPONSE,
)
from dromon.hadoop.protocol import Protocol

NAME_NODE = Protocol(
    "org.apache.hadoop.hdfs.protocol.ClientProtocol",
    {
        "getDelegationToken": (GET_DELEGATION_TOKEN_REQUEST, GET_DELEGATION_TOKEN_RESPONSE),
        "renewDelegationToken": (RENEW_DELEGATION_TOKEN_REQUEST, RENEW_DELEGATION_TOKEN_RESPONSE),
        "cancelDelegationToken": (
            CANCEL_DELEGATION_TOKEN_REQUEST,
            CANCEL_DELEGATION_TOKEN_RESPONSE,
        ),
    },
)
