"""The enumerations of Hadoop RPC and YARN, by the names of their .proto files less the prefixes.

Records hold plain integers, which compare equal to these: a newer Hadoop may send values that have
no name here.
"""

from enum import IntEnum


class RpcStatus(IntEnum):
    SUCCESS = 0
    ERROR = 1
    FATAL = 2


class RpcErrorCode(IntEnum):
    ERROR_APPLICATION = 1
    ERROR_NO_SUCH_METHOD = 2
    ERROR_NO_SUCH_PROTOCOL = 3
    ERROR_RPC_SERVER = 4
    ERROR_SERIALIZING_RESPONSE = 5
    ERROR_RPC_VERSION_MISMATCH = 6
    FATAL_UNKNOWN = 10
    FATAL_UNSUPPORTED_SERIALIZATION = 11
    FATAL_INVALID_RPC_HEADER = 12
    FATAL_DESERIALIZING_REQUEST = 13
    FATAL_VERSION_MISMATCH = 14
    FATAL_UNAUTHORIZED = 15


class SaslState(IntEnum):
    SUCCESS = 0
    NEGOTIATE = 1
    INITIATE = 2
    CHALLENGE = 3
    RESPONSE = 4
    WRAP = 5


class ContainerState(IntEnum):
    NEW = 1
    RUNNING = 2
    COMPLETE = 3


class ContainerSubState(IntEnum):
    SCHEDULED = 1
    RUNNING = 2
    PAUSED = 3
    COMPLETING = 4
    DONE = 5


class ApplicationState(IntEnum):
    NEW = 1
    NEW_SAVING = 2
    SUBMITTED = 3
    ACCEPTED = 4
    RUNNING = 5
    FINISHED = 6
    FAILED = 7
    KILLED = 8


class AttemptState(IntEnum):
    NEW = 1
    SUBMITTED = 2
    SCHEDULED = 3
    ALLOCATED_SAVING = 4
    ALLOCATED = 5
    LAUNCHED = 6
    FAILED = 7
    RUNNING = 8
    FINISHING = 9
    FINISHED = 10
    KILLED = 11


class FinalStatus(IntEnum):
    UNDEFINED = 0
    SUCCEEDED = 1
    FAILED = 2
    KILLED = 3
    ENDED = 4


class Visibility(IntEnum):
    PUBLIC = 1
    PRIVATE = 2
    APPLICATION = 3


class LocalResourceType(IntEnum):
    ARCHIVE = 1
    FILE = 2
    PATTERN = 3


class LogAggregationStatus(IntEnum):
    DISABLED = 1
    NOT_START = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    TIME_OUT = 6
    RUNNING_WITH_FAILURE = 7


class NodeState(IntEnum):
    NEW = 1
    RUNNING = 2
    UNHEALTHY = 3
    DECOMMISSIONED = 4
    LOST = 5
    REBOOTED = 6
    DECOMMISSIONING = 7
    SHUTDOWN = 8


class NodeUpdateType(IntEnum):
    USABLE = 0
    UNUSABLE = 1
    DECOMMISSIONING = 2


class ExecutionType(IntEnum):
    GUARANTEED = 1
    OPPORTUNISTIC = 2


class MasterCommand(IntEnum):
    RESYNC = 1
    SHUTDOWN = 2


class TimeoutType(IntEnum):
    LIFETIME = 1


class AccessType(IntEnum):
    VIEW_APP = 1
    MODIFY_APP = 2


class QueueState(IntEnum):
    STOPPED = 1
    RUNNING = 2
    DRAINING = 3


class QueueAcl(IntEnum):
    SUBMIT_APPLICATIONS = 1
    ADMINISTER_QUEUE = 2


class SignalCommand(IntEnum):
    OUTPUT_THREAD_DUMP = 1
    GRACEFUL_SHUTDOWN = 2
    FORCEFUL_SHUTDOWN = 3


class AttributeOperator(IntEnum):
    NO_OP = 1
    EQ = 2
    NE = 3


class RetryPolicy(IntEnum):
    NEVER_RETRY = 0
    RETRY_ON_ALL_ERRORS = 1
    RETRY_ON_SPECIFIC_ERROR_CODES = 2


class TargetType(IntEnum):
    NODE_ATTRIBUTE = 1
    ALLOCATION_TAG = 2
    SELF = 3


class CompositeType(IntEnum):
    AND = 1
    OR = 2
    DELAYED_OR = 3


class ContainerUpdateType(IntEnum):
    INCREASE_RESOURCE = 0
    DECREASE_RESOURCE = 1
    PROMOTE_EXECUTION_TYPE = 2
    DEMOTE_EXECUTION_TYPE = 3


class RequestScope(IntEnum):
    ALL = 0
    VIEWABLE = 1
    OWN = 2


class ExitStatus(IntEnum):
    """What a container's exit status means where it is not the process's own (0 to 255).

    With state COMPLETE, INVALID says that localisation failed.
    """

    SUCCESS = 0
    INVALID = -1000
    ABORTED = -100
    DISKS_FAILED = -101
    PREEMPTED = -102
    KILLED_EXCEEDED_VMEM = -103
    KILLED_EXCEEDED_PMEM = -104
    KILLED_BY_APPMASTER = -105
    KILLED_BY_RESOURCEMANAGER = -106
    KILLED_AFTER_APP_COMPLETION = -107
    KILLED_BY_CONTAINER_SCHEDULER = -108
    KILLED_FOR_EXCESS_LOGS = -109
