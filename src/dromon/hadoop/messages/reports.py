"""What the ResourceManager tells of applications, nodes and queues, as tables."""

from dromon.hadoop.messages.records import (
    APPLICATION_ATTEMPT_ID,
    APPLICATION_ID,
    CONTAINER_ID,
    NODE_ID,
    PRIORITY,
    RESOURCE,
)
from dromon.hadoop.messages.security import TOKEN
from dromon.hadoop.protobuf import (
    BOOL,
    ENUM,
    FLOAT,
    INT32,
    INT64,
    STRING,
    UINT32,
    Table,
    many,
    need,
    one,
)

STRING_FLOAT_MAP = Table(
    "StringFloatMapProto",
    need(1, "key", STRING),
    need(2, "value", FLOAT),
)
STRING_LONG_MAP = Table(
    "StringLongMapProto",
    need(1, "key", STRING),
    need(2, "value", INT64),
)
APPLICATION_RESOURCE_USAGE_REPORT = Table(
    "ApplicationResourceUsageReportProto",
    one(1, "num_used_containers", INT32),
    one(2, "num_reserved_containers", INT32),
    one(3, "used_resources", RESOURCE),
    one(4, "reserved_resources", RESOURCE),
    one(5, "needed_resources", RESOURCE),
    one(6, "memory_seconds", INT64),
    one(7, "vcore_seconds", INT64),
    one(8, "queue_usage_percentage", FLOAT),
    one(9, "cluster_usage_percentage", FLOAT),
    one(10, "preempted_memory_seconds", INT64),
    one(11, "preempted_vcore_seconds", INT64),
    many(12, "application_resource_usage_map", STRING_LONG_MAP),
    many(13, "application_preempted_resource_usage_map", STRING_LONG_MAP),
)
APPLICATION_TIMEOUT = Table(
    "ApplicationTimeoutProto",
    need(1, "application_timeout_type", ENUM),
    one(2, "expire_time", STRING),
    one(3, "remaining_time", INT64),
)
APP_TIMEOUTS_MAP = Table(
    "AppTimeoutsMapProto",
    one(1, "application_timeout_type", ENUM),
    one(2, "application_timeout", APPLICATION_TIMEOUT),
)
APPLICATION_REPORT = Table(
    "ApplicationReportProto",
    one(1, "application_id", APPLICATION_ID),
    one(2, "user", STRING),
    one(3, "queue", STRING),
    one(4, "name", STRING),
    one(5, "host", STRING),
    one(6, "rpc_port", INT32),
    one(7, "client_to_am_token", TOKEN),
    one(8, "yarn_application_state", ENUM),
    one(9, "tracking_url", STRING),
    one(10, "diagnostics", STRING, "N/A"),
    one(11, "start_time", INT64),
    one(12, "finish_time", INT64),
    one(13, "final_application_status", ENUM),
    one(14, "app_resource_usage", APPLICATION_RESOURCE_USAGE_REPORT),
    one(15, "original_tracking_url", STRING),
    one(16, "current_application_attempt_id", APPLICATION_ATTEMPT_ID),
    one(17, "progress", FLOAT),
    one(18, "application_type", STRING),
    one(19, "am_rm_token", TOKEN),
    many(20, "application_tags", STRING),
    one(21, "log_aggregation_status", ENUM),
    one(22, "unmanaged_application", BOOL, False),
    one(23, "priority", PRIORITY),
    one(24, "app_node_label_expression", STRING),
    one(25, "am_node_label_expression", STRING),
    many(26, "app_timeouts", APP_TIMEOUTS_MAP),
    one(27, "launch_time", INT64),
    one(28, "submit_time", INT64),
    one(29, "rm_cluster_id", STRING),
)
APPLICATION_ATTEMPT_REPORT = Table(
    "ApplicationAttemptReportProto",
    one(1, "application_attempt_id", APPLICATION_ATTEMPT_ID),
    one(2, "host", STRING),
    one(3, "rpc_port", INT32),
    one(4, "tracking_url", STRING),
    one(5, "diagnostics", STRING, "N/A"),
    one(6, "yarn_application_attempt_state", ENUM),
    one(7, "am_container_id", CONTAINER_ID),
    one(8, "original_tracking_url", STRING),
    one(9, "start_time", INT64),
    one(10, "finish_time", INT64),
)
CONTAINER_REPORT = Table(
    "ContainerReportProto",
    one(1, "container_id", CONTAINER_ID),
    one(2, "resource", RESOURCE),
    one(3, "node_id", NODE_ID),
    one(4, "priority", PRIORITY),
    one(5, "creation_time", INT64),
    one(6, "finish_time", INT64),
    one(7, "diagnostics_info", STRING, "N/A"),
    one(8, "log_url", STRING),
    one(9, "container_exit_status", INT32),
    one(10, "container_state", ENUM),
    one(11, "node_http_address", STRING),
    one(12, "execution_type", ENUM, 1),
    one(13, "exposed_ports", STRING),
)
RESOURCE_UTILIZATION = Table(
    "ResourceUtilizationProto",
    one(1, "pmem", INT32),
    one(2, "vmem", INT32),
    one(3, "cpu", FLOAT),
    many(4, "custom_resources", STRING_FLOAT_MAP),
)
NODE_ATTRIBUTE_KEY = Table(
    "NodeAttributeKeyProto",
    one(1, "attribute_prefix", STRING, "rm.yarn.io"),
    need(2, "attribute_name", STRING),
)
NODE_ATTRIBUTE = Table(
    "NodeAttributeProto",
    need(1, "attribute_key", NODE_ATTRIBUTE_KEY),
    one(2, "attribute_type", ENUM, 1),
    one(3, "attribute_value", STRING),
)
NODE_REPORT = Table(
    "NodeReportProto",
    one(1, "node_id", NODE_ID),
    one(2, "http_address", STRING),
    one(3, "rack_name", STRING),
    one(4, "used", RESOURCE),
    one(5, "capability", RESOURCE),
    one(6, "num_containers", INT32),
    one(7, "node_state", ENUM),
    one(8, "health_report", STRING),
    one(9, "last_health_report_time", INT64),
    many(10, "node_labels", STRING),
    one(11, "containers_utilization", RESOURCE_UTILIZATION),
    one(12, "node_utilization", RESOURCE_UTILIZATION),
    one(13, "decommissioning_timeout", UINT32),
    one(14, "node_update_type", ENUM),
    many(15, "node_attributes", NODE_ATTRIBUTE),
)
NODE_ID_TO_LABELS = Table(
    "NodeIdToLabelsProto",
    one(1, "node_id", NODE_ID),
    many(2, "node_labels", STRING),
)
LABELS_TO_NODE_IDS = Table(
    "LabelsToNodeIdsProto",
    one(1, "node_labels", STRING),
    many(2, "node_id", NODE_ID),
)
NODE_LABEL = Table(
    "NodeLabelProto",
    one(1, "name", STRING),
    one(2, "is_exclusive", BOOL, True),
)
QUEUE_STATISTICS = Table(
    "QueueStatisticsProto",
    one(1, "num_apps_submitted", INT64),
    one(2, "num_apps_running", INT64),
    one(3, "num_apps_pending", INT64),
    one(4, "num_apps_completed", INT64),
    one(5, "num_apps_killed", INT64),
    one(6, "num_apps_failed", INT64),
    one(7, "num_active_users", INT64),
    one(8, "available_memory_mb", INT64),
    one(9, "allocated_memory_mb", INT64),
    one(10, "pending_memory_mb", INT64),
    one(11, "reserved_memory_mb", INT64),
    one(12, "available_v_cores", INT64),
    one(13, "allocated_v_cores", INT64),
    one(14, "pending_v_cores", INT64),
    one(15, "reserved_v_cores", INT64),
    one(16, "allocated_containers", INT64),
    one(17, "pending_containers", INT64),
    one(18, "reserved_containers", INT64),
)
QUEUE_CONFIGURATIONS = Table(
    "QueueConfigurationsProto",
    one(1, "capacity", FLOAT),
    one(2, "absolute_capacity", FLOAT),
    one(3, "max_capacity", FLOAT),
    one(4, "absolute_max_capacity", FLOAT),
    one(5, "max_am_percentage", FLOAT),
    one(6, "effective_min_capacity", RESOURCE),
    one(7, "effective_max_capacity", RESOURCE),
    one(8, "configured_min_capacity", RESOURCE),
    one(9, "configured_max_capacity", RESOURCE),
)
QUEUE_CONFIGURATIONS_MAP = Table(
    "QueueConfigurationsMapProto",
    need(1, "partition_name", STRING),
    one(2, "queue_configurations", QUEUE_CONFIGURATIONS),
)
QUEUE_INFO = Table(
    "QueueInfoProto",
    one(1, "queue_name", STRING),
    one(2, "capacity", FLOAT),
    one(3, "maximum_capacity", FLOAT),
    one(4, "current_capacity", FLOAT),
    one(5, "state", ENUM),
    many(7, "applications", APPLICATION_REPORT),
    many(8, "accessible_node_labels", STRING),
    one(9, "default_node_label_expression", STRING),
    one(10, "queue_statistics", QUEUE_STATISTICS),
    one(11, "preemption_disabled", BOOL),
    many(12, "queue_configurations_map", QUEUE_CONFIGURATIONS_MAP),
    one(13, "intra_queue_preemption_disabled", BOOL),
    one(14, "weight", FLOAT),
    one(15, "queue_path", STRING),
    one(16, "max_parallel_apps", INT32),
    one(17, "scheduler_type", STRING),
    one(18, "min_resource_v_core", INT32),
    one(19, "min_resource_memory", INT64),
    one(20, "max_resource_v_core", INT32),
    one(21, "max_resource_memory", INT64),
    one(22, "reserved_resource_v_core", INT32),
    one(23, "reserved_resource_memory", INT64),
    one(24, "steady_fair_share_v_core", INT32),
    one(25, "steady_fair_share_memory", INT64),
    one(26, "sub_cluster_id", STRING),
    one(27, "max_running_app", INT32),
)
QUEUE_USER_ACL_INFO = Table(
    "QueueUserACLInfoProto",
    one(1, "queue_name", STRING),
    many(2, "user_acls", ENUM),
)
YARN_CLUSTER_METRICS = Table(
    "YarnClusterMetricsProto",
    one(1, "num_node_managers", INT32),
    one(2, "num_decommissioned_nms", INT32),
    one(3, "num_active_nms", INT32),
    one(4, "num_lost_nms", INT32),
    one(5, "num_unhealthy_nms", INT32),
    one(6, "num_rebooted_nms", INT32),
    one(7, "num_decommissioning_nms", INT32),
    one(8, "num_shutdown_nms", INT32),
)
QUEUE_INFO.extend(many(6, "child_queues", QUEUE_INFO))
