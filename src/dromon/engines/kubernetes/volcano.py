"""Volcano's and Kubernetes' names for things, and ours for what we hang on them. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """Where objects of a kind are found in the API."""

    group: str  # "" for the core
    version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "") -> str:
        """All of them, those of a namespace, or one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{within}/{self.plural}" + (f"/{name}" if name else "")


JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs")
POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
QUEUE = Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", namespaced=False)
COMMAND = Kind("bus.volcano.sh", "v1alpha1", "Command", "commands")
PLAIN_JOB = Kind("batch", "v1", "Job", "jobs")
POD = Kind("", "v1", "Pod", "pods")
EVENT = Kind("", "v1", "Event", "events")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SECRET = Kind("", "v1", "Secret", "secrets")
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False)
REVIEW = Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview",
              "selfsubjectaccessreviews", False)  # fmt: skip

# Labels of everything a job has.
JOB_LABEL = "dromon.io/job"  # the job's id
NAME_LABEL = "dromon.io/name"
ROLE_LABEL = "dromon.io/role"
USER_LABEL = "dromon.io/user"
LIGHT_LABEL = "dromon.io/light"
# Annotations of the Job.
REQUEST_DIGEST = "dromon.io/request"
SUBMITTED = "dromon.io/submitted"
# What Volcano puts on pods.
VOLCANO_TASK = "volcano.sh/task-spec"
VOLCANO_JOB = "volcano.sh/job-name"
VOLCANO_INDEX = "volcano.sh/task-index"
VOLCANO_VERSION = "volcano.sh/job-version"

# How the first pod ends; all but 0 have a TerminateJob policy, so that no pod is deleted.
FEWER, GIVE_UP, TIME_OVER, STOPPED = 200, 201, 202, 203
RESERVED = (FEWER, GIVE_UP, TIME_OVER, STOPPED)
FETCH = "fetch"  # the container that unpacks what the pod is shipped, before the member's starts
TROUBLE = "dromon.io/trouble"  # an annotation: why whoever looked had the job ended
UNSTARTED = 128  # of a container whose command the runtime cannot start: there is no such program
RELEASED = 143  # as on SIGTERM: Volcano gives the job new pods

# Phases of a Volcano Job after which nothing happens to it.
COMPLETED, FAILED, TERMINATED, ABORTED = "Completed", "Failed", "Terminated", "Aborted"
ENDED = frozenset({COMPLETED, FAILED, TERMINATED})

LINE_PORT = 8470  # agents to their coordinator
PAGE_PORT = 8471  # the coordinator's page
