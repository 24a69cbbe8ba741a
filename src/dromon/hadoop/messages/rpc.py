"""Headers and handshake of Hadoop RPC, as tables."""

from dromon.hadoop.protobuf import (
    BYTES,
    ENUM,
    INT64,
    SINT32,
    STRING,
    UINT32,
    UINT64,
    Table,
    many,
    need,
    one,
)

REQUEST_HEADER = Table(
    "RequestHeaderProto",
    need(1, "method_name", STRING),
    need(2, "declaring_class_protocol_name", STRING),
    need(3, "client_protocol_version", UINT64),
)
USER_INFORMATION = Table(
    "UserInformationProto",
    one(1, "effective_user", STRING),
    one(2, "real_user", STRING),
)
IPC_CONNECTION_CONTEXT = Table(
    "IpcConnectionContextProto",
    one(2, "user_info", USER_INFORMATION),
    one(3, "protocol", STRING),
)
RPC_CALLER_CONTEXT = Table(
    "RPCCallerContextProto",
    need(1, "context", STRING),
    one(2, "signature", BYTES),
)
RPC_REQUEST_HEADER = Table(
    "RpcRequestHeaderProto",
    one(1, "rpc_kind", ENUM),
    one(2, "rpc_op", ENUM),
    need(3, "call_id", SINT32),
    need(4, "client_id", BYTES),
    one(5, "retry_count", SINT32, -1),
    one(7, "caller_context", RPC_CALLER_CONTEXT),
    one(8, "state_id", INT64),
    one(9, "router_federated_state", BYTES),
    one(10, "authorization_header", BYTES),
)
RPC_RESPONSE_HEADER = Table(
    "RpcResponseHeaderProto",
    need(1, "call_id", UINT32),
    need(2, "status", ENUM),
    one(3, "server_ipc_version_num", UINT32),
    one(4, "exception_class_name", STRING),
    one(5, "error_msg", STRING),
    one(6, "error_detail", ENUM),
    one(7, "client_id", BYTES),
    one(8, "retry_count", SINT32, -1),
    one(9, "state_id", INT64),
    one(10, "router_federated_state", BYTES),
)
SASL_AUTH = Table(
    "SaslAuth",
    need(1, "method", STRING),
    need(2, "mechanism", STRING),
    one(3, "protocol", STRING),
    one(4, "server_id", STRING),
    one(5, "challenge", BYTES),
)
RPC_SASL = Table(
    "RpcSaslProto",
    one(1, "version", UINT32),
    need(2, "state", ENUM),
    one(3, "token", BYTES),
    many(4, "auths", SASL_AUTH),
)
