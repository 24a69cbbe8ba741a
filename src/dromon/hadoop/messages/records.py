"""What several of YARN's calls speak of: identities, resources, containers and asks, as tables.

Field names are Hadoop's own in snake case.
"""

from dromon.hadoop.messages.security import TOKEN
from dromon.hadoop.protobuf import BOOL, ENUM, INT32, INT64, STRING, Table, many, need, one

STRING_STRING_MAP = Table(
    "StringStringMapProto",
    one(1, "key", STRING),
    one(2, "value", STRING),
)
RESOURCE_INFORMATION = Table(
    "ResourceInformationProto",
    need(1, "key", STRING),
    one(2, "value", INT64),
    one(3, "units", STRING),
    one(4, "type", ENUM),
    many(5, "tags", STRING),
    many(6, "attributes", STRING_STRING_MAP),
)
RESOURCE = Table(
    "ResourceProto",
    one(1, "memory", INT64),
    one(2, "virtual_cores", INT32),
    many(3, "resource_value_map", RESOURCE_INFORMATION),
)
APPLICATION_ID = Table(
    "ApplicationIdProto",
    one(1, "id", INT32),
    one(2, "cluster_timestamp", INT64),
)
APPLICATION_ATTEMPT_ID = Table(
    "ApplicationAttemptIdProto",
    one(1, "application_id", APPLICATION_ID),
    one(2, "attempt_id", INT32),
)
CONTAINER_ID = Table(
    "ContainerIdProto",
    one(1, "app_id", APPLICATION_ID),
    one(2, "app_attempt_id", APPLICATION_ATTEMPT_ID),
    one(3, "id", INT64),
)
NODE_ID = Table(
    "NodeIdProto",
    one(1, "host", STRING),
    one(2, "port", INT32),
)
PRIORITY = Table(
    "PriorityProto",
    one(1, "priority", INT32),
)
CONTAINER = Table(
    "ContainerProto",
    one(1, "id", CONTAINER_ID),
    one(2, "node_id", NODE_ID),
    one(3, "node_http_address", STRING),
    one(4, "resource", RESOURCE),
    one(5, "priority", PRIORITY),
    one(6, "container_token", TOKEN),
    one(7, "execution_type", ENUM, 1),
    one(8, "allocation_request_id", INT64, -1),
    one(9, "version", INT32, 0),
    many(10, "allocation_tags", STRING),
    one(11, "exposed_ports", STRING),
)
RESOURCE_TYPE_INFO = Table(
    "ResourceTypeInfoProto",
    need(1, "name", STRING),
    one(2, "units", STRING),
    one(3, "type", ENUM),
)
CONTAINER_STATUS = Table(
    "ContainerStatusProto",
    one(1, "container_id", CONTAINER_ID),
    one(2, "state", ENUM),
    one(3, "diagnostics", STRING, "N/A"),
    one(4, "exit_status", INT32, -1000),
    one(5, "capability", RESOURCE),
    one(6, "execution_type", ENUM, 1),
    many(7, "container_attributes", STRING_STRING_MAP),
    one(8, "container_sub_state", ENUM),
)
EXECUTION_TYPE_REQUEST = Table(
    "ExecutionTypeRequestProto",
    one(1, "execution_type", ENUM, 1),
    one(2, "enforce_execution_type", BOOL, False),
)
RESOURCE_REQUEST = Table(
    "ResourceRequestProto",
    one(1, "priority", PRIORITY),
    one(2, "resource_name", STRING),
    one(3, "capability", RESOURCE),
    one(4, "num_containers", INT32),
    one(5, "relax_locality", BOOL, True),
    one(6, "node_label_expression", STRING),
    one(7, "execution_type_request", EXECUTION_TYPE_REQUEST),
    one(8, "allocation_request_id", INT64, -1),
)
