"""ApplicationClientProtocol: what a client asks of the ResourceManager."""

from dromon.hadoop.messages.launch import APPLICATION_SUBMISSION_CONTEXT
from dromon.hadoop.messages.nodes import SIGNAL_CONTAINER_REQUEST, SIGNAL_CONTAINER_RESPONSE
from dromon.hadoop.messages.records import (
    APPLICATION_ATTEMPT_ID,
    APPLICATION_ID,
    CONTAINER_ID,
    PRIORITY,
    RESOURCE,
    RESOURCE_TYPE_INFO,
)
from dromon.hadoop.messages.reports import (
    APPLICATION_ATTEMPT_REPORT,
    APPLICATION_REPORT,
    CONTAINER_REPORT,
    LABELS_TO_NODE_IDS,
    NODE_ID_TO_LABELS,
    NODE_LABEL,
    NODE_REPORT,
    QUEUE_INFO,
    QUEUE_USER_ACL_INFO,
    YARN_CLUSTER_METRICS,
)
from dromon.hadoop.messages.security import (
    CANCEL_DELEGATION_TOKEN_REQUEST,
    CANCEL_DELEGATION_TOKEN_RESPONSE,
    GET_DELEGATION_TOKEN_REQUEST,
    GET_DELEGATION_TOKEN_RESPONSE,
    RENEW_DELEGATION_TOKEN_REQUEST,
    RENEW_DELEGATION_TOKEN_RESPONSE,
)
from dromon.hadoop.protobuf import BOOL, ENUM, INT64, STRING, Table, many, need, one
from dromon.hadoop.protocol import Protocol

GET_NEW_APPLICATION_REQUEST = Table("GetNewApplicationRequestProto")
GET_NEW_APPLICATION_RESPONSE = Table(
    "GetNewApplicationResponseProto",
    one(1, "application_id", APPLICATION_ID),
    one(2, "maximum_capability", RESOURCE),
)
GET_APPLICATION_REPORT_REQUEST = Table(
    "GetApplicationReportRequestProto",
    one(1, "application_id", APPLICATION_ID),
)
GET_APPLICATION_REPORT_RESPONSE = Table(
    "GetApplicationReportResponseProto",
    one(1, "application_report", APPLICATION_REPORT),
)
SUBMIT_APPLICATION_REQUEST = Table(
    "SubmitApplicationRequestProto",
    one(1, "application_submission_context", APPLICATION_SUBMISSION_CONTEXT),
)
SUBMIT_APPLICATION_RESPONSE = Table("SubmitApplicationResponseProto")
FAIL_APPLICATION_ATTEMPT_REQUEST = Table(
    "FailApplicationAttemptRequestProto",
    one(1, "application_attempt_id", APPLICATION_ATTEMPT_ID),
)
FAIL_APPLICATION_ATTEMPT_RESPONSE = Table("FailApplicationAttemptResponseProto")
KILL_APPLICATION_REQUEST = Table(
    "KillApplicationRequestProto",
    one(1, "application_id", APPLICATION_ID),
    one(2, "diagnostics", STRING),
)
KILL_APPLICATION_RESPONSE = Table(
    "KillApplicationResponseProto",
    one(1, "is_kill_completed", BOOL, False),
)
GET_CLUSTER_METRICS_REQUEST = Table("GetClusterMetricsRequestProto")
GET_CLUSTER_METRICS_RESPONSE = Table(
    "GetClusterMetricsResponseProto",
    one(1, "cluster_metrics", YARN_CLUSTER_METRICS),
)
GET_APPLICATIONS_REQUEST = Table(
    "GetApplicationsRequestProto",
    many(1, "application_types", STRING),
    many(2, "application_states", ENUM),
    many(3, "users", STRING),
    many(4, "queues", STRING),
    one(5, "limit", INT64),
    one(6, "start_begin", INT64),
    one(7, "start_end", INT64),
    one(8, "finish_begin", INT64),
    one(9, "finish_end", INT64),
    many(10, "application_tags", STRING),
    one(11, "scope", ENUM, 0),
    one(12, "name", STRING),
)
GET_APPLICATIONS_RESPONSE = Table(
    "GetApplicationsResponseProto",
    many(1, "applications", APPLICATION_REPORT),
)
GET_CLUSTER_NODES_REQUEST = Table(
    "GetClusterNodesRequestProto",
    many(1, "node_states", ENUM),
)
GET_CLUSTER_NODES_RESPONSE = Table(
    "GetClusterNodesResponseProto",
    many(1, "node_reports", NODE_REPORT),
)
GET_QUEUE_INFO_REQUEST = Table(
    "GetQueueInfoRequestProto",
    one(1, "queue_name", STRING),
    one(2, "include_applications", BOOL),
    one(3, "include_child_queues", BOOL),
    one(4, "recursive", BOOL),
    one(5, "sub_cluster_id", STRING),
)
GET_QUEUE_INFO_RESPONSE = Table(
    "GetQueueInfoResponseProto",
    one(1, "queue_info", QUEUE_INFO),
)
GET_QUEUE_USER_ACLS_INFO_REQUEST = Table("GetQueueUserAclsInfoRequestProto")
GET_QUEUE_USER_ACLS_INFO_RESPONSE = Table(
    "GetQueueUserAclsInfoResponseProto",
    many(1, "queue_user_acls", QUEUE_USER_ACL_INFO),
)
MOVE_APPLICATION_ACROSS_QUEUES_REQUEST = Table(
    "MoveApplicationAcrossQueuesRequestProto",
    need(1, "application_id", APPLICATION_ID),
    need(2, "target_queue", STRING),
)
MOVE_APPLICATION_ACROSS_QUEUES_RESPONSE = Table("MoveApplicationAcrossQueuesResponseProto")
GET_APPLICATION_ATTEMPT_REPORT_REQUEST = Table(
    "GetApplicationAttemptReportRequestProto",
    one(1, "application_attempt_id", APPLICATION_ATTEMPT_ID),
)
GET_APPLICATION_ATTEMPT_REPORT_RESPONSE = Table(
    "GetApplicationAttemptReportResponseProto",
    one(1, "application_attempt_report", APPLICATION_ATTEMPT_REPORT),
)
GET_APPLICATION_ATTEMPTS_REQUEST = Table(
    "GetApplicationAttemptsRequestProto",
    one(1, "application_id", APPLICATION_ID),
)
GET_APPLICATION_ATTEMPTS_RESPONSE = Table(
    "GetApplicationAttemptsResponseProto",
    many(1, "application_attempts", APPLICATION_ATTEMPT_REPORT),
)
GET_CONTAINER_REPORT_REQUEST = Table(
    "GetContainerReportRequestProto",
    one(1, "container_id", CONTAINER_ID),
)
GET_CONTAINER_REPORT_RESPONSE = Table(
    "GetContainerReportResponseProto",
    one(1, "container_report", CONTAINER_REPORT),
)
GET_CONTAINERS_REQUEST = Table(
    "GetContainersRequestProto",
    one(1, "application_attempt_id", APPLICATION_ATTEMPT_ID),
)
GET_CONTAINERS_RESPONSE = Table(
    "GetContainersResponseProto",
    many(1, "containers", CONTAINER_REPORT),
)
GET_NODES_TO_LABELS_REQUEST = Table("GetNodesToLabelsRequestProto")
GET_NODES_TO_LABELS_RESPONSE = Table(
    "GetNodesToLabelsResponseProto",
    many(1, "node_to_labels", NODE_ID_TO_LABELS),
)
GET_LABELS_TO_NODES_REQUEST = Table(
    "GetLabelsToNodesRequestProto",
    many(1, "node_labels", STRING),
)
GET_LABELS_TO_NODES_RESPONSE = Table(
    "GetLabelsToNodesResponseProto",
    many(1, "labels_to_nodes", LABELS_TO_NODE_IDS),
)
GET_CLUSTER_NODE_LABELS_REQUEST = Table("GetClusterNodeLabelsRequestProto")
GET_CLUSTER_NODE_LABELS_RESPONSE = Table(
    "GetClusterNodeLabelsResponseProto",
    many(1, "deprecated_node_labels", STRING),
    many(2, "node_labels", NODE_LABEL),
)
UPDATE_APPLICATION_PRIORITY_REQUEST = Table(
    "UpdateApplicationPriorityRequestProto",
    need(1, "application_id", APPLICATION_ID),
    need(2, "application_priority", PRIORITY),
)
UPDATE_APPLICATION_PRIORITY_RESPONSE = Table(
    "UpdateApplicationPriorityResponseProto",
    one(1, "application_priority", PRIORITY),
)
APPLICATION_UPDATE_TIMEOUT_MAP = Table(
    "ApplicationUpdateTimeoutMapProto",
    one(1, "application_timeout_type", ENUM),
    one(2, "expire_time", STRING),
)
UPDATE_APPLICATION_TIMEOUTS_REQUEST = Table(
    "UpdateApplicationTimeoutsRequestProto",
    need(1, "application_id", APPLICATION_ID),
    many(2, "application_timeouts", APPLICATION_UPDATE_TIMEOUT_MAP),
)
UPDATE_APPLICATION_TIMEOUTS_RESPONSE = Table(
    "UpdateApplicationTimeoutsResponseProto",
    many(1, "application_timeouts", APPLICATION_UPDATE_TIMEOUT_MAP),
)
GET_ALL_RESOURCE_TYPE_INFO_REQUEST = Table("GetAllResourceTypeInfoRequestProto")
GET_ALL_RESOURCE_TYPE_INFO_RESPONSE = Table(
    "GetAllResourceTypeInfoResponseProto",
    many(1, "resource_type_info", RESOURCE_TYPE_INFO),
)

APPLICATION_CLIENT = Protocol(
    "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB",
    {
        "getNewApplication": (GET_NEW_APPLICATION_REQUEST, GET_NEW_APPLICATION_RESPONSE),
        "getApplicationReport": (GET_APPLICATION_REPORT_REQUEST, GET_APPLICATION_REPORT_RESPONSE),
        "submitApplication": (SUBMIT_APPLICATION_REQUEST, SUBMIT_APPLICATION_RESPONSE),
        "failApplicationAttempt": (
            FAIL_APPLICATION_ATTEMPT_REQUEST,
            FAIL_APPLICATION_ATTEMPT_RESPONSE,
        ),
        "forceKillApplication": (KILL_APPLICATION_REQUEST, KILL_APPLICATION_RESPONSE),
        "getClusterMetrics": (GET_CLUSTER_METRICS_REQUEST, GET_CLUSTER_METRICS_RESPONSE),
        "getApplications": (GET_APPLICATIONS_REQUEST, GET_APPLICATIONS_RESPONSE),
        "getClusterNodes": (GET_CLUSTER_NODES_REQUEST, GET_CLUSTER_NODES_RESPONSE),
        "getQueueInfo": (GET_QUEUE_INFO_REQUEST, GET_QUEUE_INFO_RESPONSE),
        "getQueueUserAcls": (GET_QUEUE_USER_ACLS_INFO_REQUEST, GET_QUEUE_USER_ACLS_INFO_RESPONSE),
        "getDelegationToken": (GET_DELEGATION_TOKEN_REQUEST, GET_DELEGATION_TOKEN_RESPONSE),
        "renewDelegationToken": (RENEW_DELEGATION_TOKEN_REQUEST, RENEW_DELEGATION_TOKEN_RESPONSE),
        "cancelDelegationToken": (
            CANCEL_DELEGATION_TOKEN_REQUEST,
            CANCEL_DELEGATION_TOKEN_RESPONSE,
        ),
        "moveApplicationAcrossQueues": (
            MOVE_APPLICATION_ACROSS_QUEUES_REQUEST,
            MOVE_APPLICATION_ACROSS_QUEUES_RESPONSE,
        ),
        "getApplicationAttemptReport": (
            GET_APPLICATION_ATTEMPT_REPORT_REQUEST,
            GET_APPLICATION_ATTEMPT_REPORT_RESPONSE,
        ),
        "getApplicationAttempts": (
            GET_APPLICATION_ATTEMPTS_REQUEST,
            GET_APPLICATION_ATTEMPTS_RESPONSE,
        ),
        "getContainerReport": (GET_CONTAINER_REPORT_REQUEST, GET_CONTAINER_REPORT_RESPONSE),
        "getContainers": (GET_CONTAINERS_REQUEST, GET_CONTAINERS_RESPONSE),
        "getNodeToLabels": (GET_NODES_TO_LABELS_REQUEST, GET_NODES_TO_LABELS_RESPONSE),
        "getLabelsToNodes": (GET_LABELS_TO_NODES_REQUEST, GET_LABELS_TO_NODES_RESPONSE),
        "getClusterNodeLabels": (GET_CLUSTER_NODE_LABELS_REQUEST, GET_CLUSTER_NODE_LABELS_RESPONSE),
        "updateApplicationPriority": (
            UPDATE_APPLICATION_PRIORITY_REQUEST,
            UPDATE_APPLICATION_PRIORITY_RESPONSE,
        ),
        "signalToContainer": (SIGNAL_CONTAINER_REQUEST, SIGNAL_CONTAINER_RESPONSE),
        "updateApplicationTimeouts": (
            UPDATE_APPLICATION_TIMEOUTS_REQUEST,
            UPDATE_APPLICATION_TIMEOUTS_RESPONSE,
        ),
        "getResourceTypeInfo": (
            GET_ALL_RESOURCE_TYPE_INFO_REQUEST,
            GET_ALL_RESOURCE_TYPE_INFO_RESPONSE,
        ),
    },
)
