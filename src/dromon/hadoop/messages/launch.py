"""What to run in a container and what to submit as an application, as tables."""

from dromon.hadoop.messages.records import (
    APPLICATION_ID,
    PRIORITY,
    RESOURCE,
    RESOURCE_REQUEST,
    STRING_STRING_MAP,
)
from dromon.hadoop.protobuf import BOOL, BYTES, ENUM, INT32, INT64, STRING, Table, many, one

URL = Table(
    "URLProto",
    one(1, "scheme", STRING),
    one(2, "host", STRING),
    one(3, "port", INT32),
    one(4, "file", STRING),
    one(5, "user_info", STRING),
)
LOCAL_RESOURCE = Table(
    "LocalResourceProto",
    one(1, "resource", URL),
    one(2, "size", INT64),
    one(3, "timestamp", INT64),
    one(4, "type", ENUM),
    one(5, "visibility", ENUM),
    one(6, "pattern", STRING),
    one(7, "should_be_uploaded_to_shared_cache", BOOL),
)
STRING_LOCAL_RESOURCE_MAP = Table(
    "StringLocalResourceMapProto",
    one(1, "key", STRING),
    one(2, "value", LOCAL_RESOURCE),
)
STRING_BYTES_MAP = Table(
    "StringBytesMapProto",
    one(1, "key", STRING),
    one(2, "value", BYTES),
)
CONTAINER_RETRY_CONTEXT = Table(
    "ContainerRetryContextProto",
    one(1, "retry_policy", ENUM, 0),
    many(2, "error_codes", INT32),
    one(3, "max_retries", INT32, 0),
    one(4, "retry_interval", INT32, 0),
    one(5, "failures_validity_interval", INT64, -1),
)
APPLICATION_ACL_MAP = Table(
    "ApplicationACLMapProto",
    one(1, "access_type", ENUM),
    one(2, "acl", STRING, " "),
)
CONTAINER_LAUNCH_CONTEXT = Table(
    "ContainerLaunchContextProto",
    many(1, "local_resources", STRING_LOCAL_RESOURCE_MAP),
    one(2, "tokens", BYTES),
    many(3, "service_data", STRING_BYTES_MAP),
    many(4, "environment", STRING_STRING_MAP),
    many(5, "command", STRING),
    many(6, "application_acls", APPLICATION_ACL_MAP),
    one(7, "container_retry_context", CONTAINER_RETRY_CONTEXT),
    one(8, "tokens_conf", BYTES),
)
LOG_AGGREGATION_CONTEXT = Table(
    "LogAggregationContextProto",
    one(1, "include_pattern", STRING, ".*"),
    one(2, "exclude_pattern", STRING),
    one(3, "rolled_logs_include_pattern", STRING),
    one(4, "rolled_logs_exclude_pattern", STRING, ".*"),
    one(5, "log_aggregation_policy_class_name", STRING),
    one(6, "log_aggregation_policy_parameters", STRING),
)
APPLICATION_TIMEOUT_MAP = Table(
    "ApplicationTimeoutMapProto",
    one(1, "application_timeout_type", ENUM),
    one(2, "timeout", INT64),
)
RESERVATION_ID = Table(
    "ReservationIdProto",
    one(1, "id", INT64),
    one(2, "cluster_timestamp", INT64),
)
APPLICATION_SUBMISSION_CONTEXT = Table(
    "ApplicationSubmissionContextProto",
    one(1, "application_id", APPLICATION_ID),
    one(2, "application_name", STRING, "N/A"),
    one(3, "queue", STRING, "default"),
    one(4, "priority", PRIORITY),
    one(5, "am_container_spec", CONTAINER_LAUNCH_CONTEXT),
    one(6, "cancel_tokens_when_complete", BOOL, True),
    one(7, "unmanaged_am", BOOL, False),
    one(8, "max_app_attempts", INT32, 0),
    one(9, "resource", RESOURCE),
    one(10, "application_type", STRING, "YARN"),
    one(11, "keep_containers_across_application_attempts", BOOL, False),
    many(12, "application_tags", STRING),
    one(13, "attempt_failures_validity_interval", INT64, -1),
    one(14, "log_aggregation_context", LOG_AGGREGATION_CONTEXT),
    one(15, "reservation_id", RESERVATION_ID),
    one(16, "node_label_expression", STRING),
    many(17, "am_container_resource_request", RESOURCE_REQUEST),
    many(18, "application_timeouts", APPLICATION_TIMEOUT_MAP),
    many(19, "application_scheduling_properties", STRING_STRING_MAP),
)
