"""ContainerManagementProtocol: what a NodeManager is asked."""

from dromon.hadoop.messages.launch import CONTAINER_LAUNCH_CONTEXT, STRING_BYTES_MAP
from dromon.hadoop.messages.records import CONTAINER_ID, CONTAINER_STATUS
from dromon.hadoop.messages.security import TOKEN
from dromon.hadoop.protobuf import ENUM, STRING, Table, many, need, one
from dromon.hadoop.protocol import Protocol

START_CONTAINER_REQUEST = Table(
    "StartContainerRequestProto",
    one(1, "container_launch_context", CONTAINER_LAUNCH_CONTEXT),
    one(2, "container_token", TOKEN),
)
START_CONTAINERS_REQUEST = Table(
    "StartContainersRequestProto",
    many(1, "start_container_request", START_CONTAINER_REQUEST),
)
SERIALIZED_EXCEPTION = Table(
    "SerializedExceptionProto",
    one(1, "message", STRING),
    one(2, "trace", STRING),
    one(3, "class_name", STRING),
)
CONTAINER_EXCEPTION_MAP = Table(
    "ContainerExceptionMapProto",
    one(1, "container_id", CONTAINER_ID),
    one(2, "exception", SERIALIZED_EXCEPTION),
)
START_CONTAINERS_RESPONSE = Table(
    "StartContainersResponseProto",
    many(1, "services_meta_data", STRING_BYTES_MAP),
    many(2, "succeeded_requests", CONTAINER_ID),
    many(3, "failed_requests", CONTAINER_EXCEPTION_MAP),
)
STOP_CONTAINERS_REQUEST = Table(
    "StopContainersRequestProto",
    many(1, "container_id", CONTAINER_ID),
)
STOP_CONTAINERS_RESPONSE = Table(
    "StopContainersResponseProto",
    many(1, "succeeded_requests", CONTAINER_ID),
    many(2, "failed_requests", CONTAINER_EXCEPTION_MAP),
)
GET_CONTAINER_STATUSES_REQUEST = Table(
    "GetContainerStatusesRequestProto",
    many(1, "container_id", CONTAINER_ID),
)
GET_CONTAINER_STATUSES_RESPONSE = Table(
    "GetContainerStatusesResponseProto",
    many(1, "status", CONTAINER_STATUS),
    many(2, "failed_requests", CONTAINER_EXCEPTION_MAP),
)
SIGNAL_CONTAINER_REQUEST = Table(
    "SignalContainerRequestProto",
    need(1, "container_id", CONTAINER_ID),
    need(2, "command", ENUM),
)
SIGNAL_CONTAINER_RESPONSE = Table("SignalContainerResponseProto")
SERIALIZED_EXCEPTION.extend(one(4, "cause", SERIALIZED_EXCEPTION))

CONTAINER_MANAGEMENT = Protocol(
    "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB",
    {
        "startContainers": (START_CONTAINERS_REQUEST, START_CONTAINERS_RESPONSE),
        "stopContainers": (STOP_CONTAINERS_REQUEST, STOP_CONTAINERS_RESPONSE),
        "getContainerStatuses": (GET_CONTAINER_STATUSES_REQUEST, GET_CONTAINER_STATUSES_RESPONSE),
        "signalToContainer": (SIGNAL_CONTAINER_REQUEST, SIGNAL_CONTAINER_RESPONSE),
    },
)
