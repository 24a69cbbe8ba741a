"""The insides of YARN's tokens, as tables. For diagnostics: to the protocol they are opaque."""

from dromon.hadoop.messages.launch import LOG_AGGREGATION_CONTEXT
from dromon.hadoop.messages.records import (
    APPLICATION_ATTEMPT_ID,
    CONTAINER_ID,
    NODE_ID,
    PRIORITY,
    RESOURCE,
)
from dromon.hadoop.protobuf import ENUM, INT32, INT64, STRING, Table, many, one

AMRM_TOKEN_IDENTIFIER = Table(
    "AMRMTokenIdentifierProto",
    one(1, "app_attempt_id", APPLICATION_ATTEMPT_ID),
    one(2, "key_id", INT32, -1),
)
NM_TOKEN_IDENTIFIER = Table(
    "NMTokenIdentifierProto",
    one(1, "app_attempt_id", APPLICATION_ATTEMPT_ID),
    one(2, "node_id", NODE_ID),
    one(3, "app_submitter", STRING),
    one(4, "key_id", INT32, -1),
)
CONTAINER_TOKEN_IDENTIFIER = Table(
    "ContainerTokenIdentifierProto",
    one(1, "container_id", CONTAINER_ID),
    one(2, "nm_host_addr", STRING),
    one(3, "app_submitter", STRING),
    one(4, "resource", RESOURCE),
    one(5, "expiry_time_stamp", INT64),
    one(6, "master_key_id", INT32, -1),
    one(7, "rm_identifier", INT64),
    one(8, "priority", PRIORITY),
    one(9, "creation_time", INT64),
    one(10, "log_aggregation_context", LOG_AGGREGATION_CONTEXT),
    one(11, "node_label_expression", STRING),
    one(12, "container_type", ENUM),
    one(13, "execution_type", ENUM, 1),
    one(14, "version", INT32, 0),
    one(15, "allocation_request_id", INT64, -1),
    many(16, "allocation_tags", STRING),
)
YARN_DELEGATION_TOKEN_IDENTIFIER = Table(
    "YARNDelegationTokenIdentifierProto",
    one(1, "owner", STRING),
    one(2, "renewer", STRING),
    one(3, "real_user", STRING),
    one(4, "issue_date", INT64),
    one(5, "max_date", INT64),
    one(6, "sequence_number", INT32),
    one(7, "master_key_id", INT32),
)
CLIENT_TO_AM_TOKEN_IDENTIFIER = Table(
    "ClientToAMTokenIdentifierProto",
    one(1, "app_attempt_id", APPLICATION_ATTEMPT_ID),
    one(2, "client_name", STRING),
)
