"""What compiling must know of a cluster; found out once, by asking it. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GPU = "nvidia.com/gpu"
GPU_KINDS = "nvidia.com/gpu.product"
PYTHON = "python3"


@dataclass(frozen=True)
class Target:
    """One namespace of one cluster, as its context describes it and as it answers."""

    namespace: str = "default"
    image: str = ""  # for jobs that name none
    image_pull_policy: str = ""  # "": as Kubernetes has it for the image's tag
    python: str = PYTHON  # in the image; runs the agent
    # {"volume": {"nfs": …}, "sub_path": "…", "local": where the client itself sees it, or ""}
    store: Mapping[str, Any] | None = None
    blobs: str = ""  # s3://bucket/prefix that code and environments go through
    priority_classes: Mapping[str, int] = field(default_factory=dict)
    default_priority_class: str = ""
    queues: tuple[str, ...] = ()  # empty: not known, so none is refused
    gpu_resource: str = GPU
    gpu_kinds: str = GPU_KINDS  # the label of nodes that tells the model of their GPUs
    gpu_products: tuple[str, ...] = ()  # its values on this cluster, where they are known
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # word -> selector
    host_path_allowed: bool = False
    run_as: Mapping[str, int] | None = None  # {"uid", "gid"}; None: as the image says
    volcano: bool = True
    light: str = ""  # the digest of the light rooms
