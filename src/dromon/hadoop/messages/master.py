"""ApplicationMasterProtocol: what an ApplicationMaster and the ResourceManager say each other."""

from dromon.hadoop.messages.launch import APPLICATION_ACL_MAP
from dromon.hadoop.messages.placement import (
    PLACEMENT_CONSTRAINT_MAP_ENTRY,
    REJECTED_SCHEDULING_REQUEST,
    SCHEDULING_REQUEST,
)
from dromon.hadoop.messages.records import (
    CONTAINER,
    CONTAINER_ID,
    CONTAINER_STATUS,
    NODE_ID,
    PRIORITY,
    RESOURCE,
    RESOURCE_REQUEST,
    RESOURCE_TYPE_INFO,
)
from dromon.hadoop.messages.reports import NODE_REPORT
from dromon.hadoop.messages.security import TOKEN
from dromon.hadoop.protobuf import BOOL, BYTES, ENUM, FLOAT, INT32, STRING, Table, many, need, one
from dromon.hadoop.protocol import Protocol

REGISTER_APPLICATION_MASTER_REQUEST = Table(
    "RegisterApplicationMasterRequestProto",
    one(1, "host", STRING),
    one(2, "rpc_port", INT32),
    one(3, "tracking_url", STRING),
    many(4, "placement_constraints", PLACEMENT_CONSTRAINT_MAP_ENTRY),
)
NM_TOKEN = Table(
    "NMTokenProto",
    one(1, "node_id", NODE_ID),
    one(2, "token", TOKEN),
)
RESOURCE_PROFILE_ENTRY = Table(
    "ResourceProfileEntry",
    need(1, "name", STRING),
    need(2, "resources", RESOURCE),
)
RESOURCE_PROFILES = Table(
    "ResourceProfilesProto",
    many(1, "resource_profiles_map", RESOURCE_PROFILE_ENTRY),
)
REGISTER_APPLICATION_MASTER_RESPONSE = Table(
    "RegisterApplicationMasterResponseProto",
    one(1, "maximum_capability", RESOURCE),
    one(2, "client_to_am_token_master_key", BYTES),
    many(3, "application_acls", APPLICATION_ACL_MAP),
    many(4, "containers_from_previous_attempts", CONTAINER),
    one(5, "queue", STRING),
    many(6, "nm_tokens_from_previous_attempts", NM_TOKEN),
    many(7, "scheduler_resource_types", ENUM),
    one(8, "resource_profiles", RESOURCE_PROFILES),
    many(9, "resource_types", RESOURCE_TYPE_INFO),
)
FINISH_APPLICATION_MASTER_REQUEST = Table(
    "FinishApplicationMasterRequestProto",
    one(1, "diagnostics", STRING),
    one(2, "tracking_url", STRING),
    one(3, "final_application_status", ENUM),
)
FINISH_APPLICATION_MASTER_RESPONSE = Table(
    "FinishApplicationMasterResponseProto",
    one(1, "is_unregistered", BOOL, False),
)
RESOURCE_BLACKLIST_REQUEST = Table(
    "ResourceBlacklistRequestProto",
    many(1, "blacklist_additions", STRING),
    many(2, "blacklist_removals", STRING),
)
UPDATE_CONTAINER_REQUEST = Table(
    "UpdateContainerRequestProto",
    need(1, "container_version", INT32),
    need(2, "container_id", CONTAINER_ID),
    need(3, "update_type", ENUM),
    one(4, "capability", RESOURCE),
    one(5, "execution_type", ENUM),
)
ALLOCATE_REQUEST = Table(
    "AllocateRequestProto",
    many(1, "ask", RESOURCE_REQUEST),
    many(2, "release", CONTAINER_ID),
    one(3, "blacklist_request", RESOURCE_BLACKLIST_REQUEST),
    one(4, "response_id", INT32),
    one(5, "progress", FLOAT),
    many(7, "update_requests", UPDATE_CONTAINER_REQUEST),
    many(10, "scheduling_requests", SCHEDULING_REQUEST),
    one(11, "tracking_url", STRING),
)
PREEMPTION_CONTAINER = Table(
    "PreemptionContainerProto",
    one(1, "id", CONTAINER_ID),
)
STRICT_PREEMPTION_CONTRACT = Table(
    "StrictPreemptionContractProto",
    many(1, "container", PREEMPTION_CONTAINER),
)
PREEMPTION_RESOURCE_REQUEST = Table(
    "PreemptionResourceRequestProto",
    one(1, "resource", RESOURCE_REQUEST),
)
PREEMPTION_CONTRACT = Table(
    "PreemptionContractProto",
    many(1, "resource", PREEMPTION_RESOURCE_REQUEST),
    many(2, "container", PREEMPTION_CONTAINER),
)
PREEMPTION_MESSAGE = Table(
    "PreemptionMessageProto",
    one(1, "strict_contract", STRICT_PREEMPTION_CONTRACT),
    one(2, "contract", PREEMPTION_CONTRACT),
)
COLLECTOR_INFO = Table(
    "CollectorInfoProto",
    one(1, "collector_addr", STRING),
    one(2, "collector_token", TOKEN),
)
UPDATE_CONTAINER_ERROR = Table(
    "UpdateContainerErrorProto",
    one(1, "reason", STRING),
    one(2, "update_request", UPDATE_CONTAINER_REQUEST),
    one(3, "current_container_version", INT32),
)
UPDATED_CONTAINER = Table(
    "UpdatedContainerProto",
    need(1, "update_type", ENUM),
    need(2, "container", CONTAINER),
)
ENHANCED_HEADROOM = Table(
    "EnhancedHeadroomProto",
    one(1, "total_pending_count", INT32),
    one(2, "total_active_cores", INT32),
)
ALLOCATE_RESPONSE = Table(
    "AllocateResponseProto",
    one(1, "a_m_command", ENUM),
    one(2, "response_id", INT32),
    many(3, "allocated_containers", CONTAINER),
    many(4, "completed_container_statuses", CONTAINER_STATUS),
    one(5, "limit", RESOURCE),
    many(6, "updated_nodes", NODE_REPORT),
    one(7, "num_cluster_nodes", INT32),
    one(8, "preempt", PREEMPTION_MESSAGE),
    many(9, "nm_tokens", NM_TOKEN),
    one(12, "am_rm_token", TOKEN),
    one(13, "application_priority", PRIORITY),
    one(14, "collector_info", COLLECTOR_INFO),
    many(15, "update_errors", UPDATE_CONTAINER_ERROR),
    many(16, "updated_containers", UPDATED_CONTAINER),
    many(17, "containers_from_previous_attempts", CONTAINER),
    many(18, "rejected_scheduling_requests", REJECTED_SCHEDULING_REQUEST),
    one(19, "enhanced_headroom", ENHANCED_HEADROOM),
)

APPLICATION_MASTER = Protocol(
    "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB",
    {
        "registerApplicationMaster": (
            REGISTER_APPLICATION_MASTER_REQUEST,
            REGISTER_APPLICATION_MASTER_RESPONSE,
        ),
        "finishApplicationMaster": (
            FINISH_APPLICATION_MASTER_REQUEST,
            FINISH_APPLICATION_MASTER_RESPONSE,
        ),
        "allocate": (ALLOCATE_REQUEST, ALLOCATE_RESPONSE),
    },
)
