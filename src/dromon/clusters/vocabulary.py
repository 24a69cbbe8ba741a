"""What Volcano's scheduler knows: its actions, plug-ins, their switches and arguments.

Read from the scheduler of 1.14.1 and 1.15.1. Whatever is not here it ignores or refuses.
"""

# Which release brought an action, where not all have it.
ACTIONS = {
    "enqueue": "", "allocate": "", "backfill": "", "preempt": "", "reclaim": "", "shuffle": "",
    "gangpreempt": "1.15", "gangreclaim": "1.15",
}  # fmt: skip
GONE_ACTIONS = ("elect", "reserve")

# Switches of a plug-in; some are spelt with a d, and the others are not.
SWITCHES = (
    "enableJobOrder", "enableHierarchy", "enableJobReady", "enableJobPipelined", "enableTaskOrder",
    "enablePreemptable", "enableReclaimable", "enablePreemptive", "enableQueueOrder",
    "EnabledClusterOrder", "enablePredicate", "enableBestNode", "enableNodeOrder",
    "enableTargetJob", "enableReservedNodes", "enableJobEnqueued", "enabledVictim",
    "enableJobStarving", "enabledOverused", "enabledAllocatable", "enabledHyperNodeOrder",
    "enabledSubJobReady", "enabledSubJobPipelined", "enabledSubJobOrder",
    "enabledHyperNodeGradient",
)  # fmt: skip
PLUGIN_KEYS = ("name", *SWITCHES, "arguments")

# Arguments by plug-in: what kind each is. An argument of another kind is ignored, with a line in
# the log. A name that ends with a dot begins a family.
_BINPACK = {"binpack.weight": int, "binpack.cpu": int, "binpack.memory": int,
            "binpack.resources": str, "binpack.resources.": int}  # fmt: skip
PLUGINS: dict[str, dict[str, type] | None] = {  # None: any argument
    "priority": {}, "gang": {}, "conformance": {}, "drf": {}, "proportion": {}, "pdb": {},
    "cdp": {}, "resourcequota": {},
    "capacity": {"ancestorReclaimLevel": int, "capacity.DRAConsumableCapacityEnable": bool,
                 "capacity.DynamicResourceAllocationEnable": bool},
    "sla": {"sla-waiting-time": str},
    "overcommit": {"overcommit-factor": float},
    "binpack": _BINPACK,
    "nodeorder": {f"{kind}.weight": int for kind in (
        "balancedresource", "imagelocality", "leastrequested", "mostrequested", "nodeaffinity",
        "podaffinity", "podtopologyspread", "tainttoleration")},
    "predicates": {
        **{f"predicate.{kind}Enable": bool for kind in (
            "Cache", "DynamicResourceAllocation", "NodeAffinity", "NodePorts", "NodeVolumeLimits",
            "PodAffinity", "PodTopologySpread", "TaintToleration", "VolumeBinding", "VolumeZone")},
        "dynamicresources.filterTimeoutSeconds": int, "volumebinding.bindTimeoutSeconds": int,
        "volumebinding.shape": object, "volumebinding.weight": int,
    },
    "deviceshare": None, "resource-strategy-fit": None, "tdm": None, "task-topology": None,
    "numa-aware": None, "rescheduling": None, "usage": None, "nodegroup": None,
    "network-topology-aware": None, "extender": None,
}  # fmt: skip

# Who may say no when somebody is to be evicted. The first tier in which anybody names victims
# decides; in a tier all must agree; a tier in which one names nobody is passed over.
JUDGES_PREEMPT = ("priority", "gang", "conformance", "drf", "tdm", "pdb", "cdp", "extender")
JUDGES_RECLAIM = ("capacity", "proportion", "gang", "conformance", "pdb", "cdp", "extender")
QUEUE_PLUGINS = ("capacity", "proportion")  # those that know of shares

QUEUE_KEYS = (
    "affinity", "capability", "dequeueStrategy", "deserved", "extendClusters", "guarantee",
    "parent", "priority", "reclaimable", "type", "weight",
)  # fmt: skip
