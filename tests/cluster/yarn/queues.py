"""The settings of a bed with queues of every kind: closed, never preempted, for some only."""

PREFIX = "yarn.scheduler.capacity.root"
SETTINGS = {
    "yarn.cluster.max-application-priority": "10",
    # Permissions are looked at; dr.who is whom the bed itself furnishes the cluster as.
    "yarn.acl.enable": "true",
    "yarn.admin.acl": "root,dr.who",
    f"{PREFIX}.acl_submit_applications": " ",
    f"{PREFIX}.acl_administer_queue": " ",
    f"{PREFIX}.default.acl_submit_applications": "*",
    f"{PREFIX}.research.acl_submit_applications": "root",
    f"{PREFIX}.urgent.acl_submit_applications": "root",
    f"{PREFIX}.queues": "default,research,urgent,kept,closed",
    f"{PREFIX}.urgent.capacity": "35",
    f"{PREFIX}.urgent.accessible-node-labels.gpu.capacity": "35",
    # What runs here is not taken away for others.
    f"{PREFIX}.kept.capacity": "5",
    f"{PREFIX}.kept.user-limit-factor": "100",
    f"{PREFIX}.kept.disable_preemption": "true",
    f"{PREFIX}.kept.accessible-node-labels": "*",
    f"{PREFIX}.kept.accessible-node-labels.gpu.capacity": "5",
    f"{PREFIX}.kept.acl_submit_applications": "*",
    f"{PREFIX}.closed.capacity": "0",
    f"{PREFIX}.closed.accessible-node-labels": "*",
    f"{PREFIX}.closed.accessible-node-labels.gpu.capacity": "0",
    f"{PREFIX}.closed.acl_submit_applications": "*",
    f"{PREFIX}.closed.state": "STOPPED",
    # Each look reads the whole process table.
    "yarn.nodemanager.container-monitor.interval-ms": "1500",
    # Long enough that a busy machine is not what ends a member.
    "yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill": "12000",
}
