"""The configuration files of each daemon, rendered from a plan. Pure: text out, nothing written."""

from xml.sax.saxutils import escape

from testbeds.yarn.plan import (
    GPUS,
    HOST,
    LABEL,
    NODE_MEMORY_MB,
    NODE_VCORES,
    QUEUES,
    Plan,
)

Settings = dict[str, str]

LOG4J = """\
log4j.rootLogger=INFO, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


def files(plan: Plan, daemon: str, jars: str) -> dict[str, str]:
    """File name -> text for the configuration directory of `daemon`, or of `client`."""
    sites = {
        "core-site.xml": core(plan, daemon),
        "hdfs-site.xml": hdfs(plan, daemon),
        "yarn-site.xml": yarn(plan, daemon, jars),
        "capacity-scheduler.xml": capacity(),
        "resource-types.xml": {"yarn.resource-types": "yarn.io/gpu"},
        "node-resources.xml": node_resources(daemon),
    }
    for key, value in plan.options.settings.items():
        sites[file_of(key)][key] = value
    texts = {name: render(settings) for name, settings in sites.items()}
    return {**texts, "log4j.properties": LOG4J}


def file_of(key: str) -> str:
    """The file a setting belongs in, by its name."""
    if key.startswith("yarn.scheduler.capacity."):
        return "capacity-scheduler.xml"
    if key.startswith("yarn.nodemanager.resource-type."):
        return "node-resources.xml"
    if key.startswith("yarn."):
        return "yarn-site.xml"
    return "hdfs-site.xml" if key.startswith("dfs.") else "core-site.xml"


def render(settings: Settings) -> str:
    properties = "".join(
        f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}</configuration>\n'


def core(plan: Plan, daemon: str) -> Settings:
    return {
        "fs.defaultFS": f"hdfs://{plan.address('namenode', 'rpc')}",
        "hadoop.tmp.dir": f"{plan.data(daemon)}/tmp",
    }


def hdfs(plan: Plan, daemon: str) -> Settings:
    settings = {
        "dfs.replication": "1",
        "dfs.namenode.rpc-address": plan.address("namenode", "rpc"),
        "dfs.namenode.http-address": plan.address("namenode", "web"),
        "dfs.namenode.name.dir": f"file://{plan.data('namenode')}/name",
        "dfs.datanode.data.dir": f"file://{plan.data('datanode')}/blocks",
        "dfs.datanode.address": plan.address("datanode", "data"),
        "dfs.datanode.http.address": plan.address("datanode", "web"),
        "dfs.datanode.ipc.address": plan.address("datanode", "ipc"),
        # Loopback addresses have no names worth checking.
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        # A restarted NameNode leaves safe mode as soon as its blocks are reported.
        "dfs.namenode.safemode.extension": "0",
        # A DataNode that was killed is noticed in about 25 s instead of 10 minutes.
        "dfs.heartbeat.interval": "1",
        # A file whose last block is not yet reported is asked for again soon, not after 400 ms.
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
        "dfs.namenode.heartbeat.recheck-interval": "7500",
        # Whether there are blocks to delete is looked at a hundred times a second otherwise.
        "dfs.namenode.block.deletion.unlock.interval.ms": "200",
    }
    if daemon in plan.nodes:
        # A node brings logs home once. With one NameNode its first failure would be the last, and
        # its line to a NameNode that was restarted meanwhile is one.
        settings["dfs.client.retry.policy.enabled"] = "true"
        settings["dfs.client.retry.policy.spec"] = "1000,60"  # each second, so many times
    return settings


def yarn(plan: Plan, daemon: str, jars: str) -> Settings:
    settings = {
        **manager(plan, "resourcemanager"),
        "yarn.resourcemanager.scheduler.class": "org.apache.hadoop.yarn.server.resourcemanager."
        "scheduler.capacity.CapacityScheduler",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "500",
        # A node that lost its ResourceManager asks again each second, not each half minute.
        "yarn.resourcemanager.connect.retry-interval.ms": "1000",
        "yarn.resourcemanager.placement-constraints.handler": "placement-processor",
        "yarn.scheduler.minimum-allocation-mb": "64",
        "yarn.scheduler.maximum-allocation-mb": str(NODE_MEMORY_MB),
        "yarn.scheduler.maximum-allocation-vcores": str(NODE_VCORES),
        # All nodes are on one host: without the port, locality could not tell them apart.
        "yarn.scheduler.include-port-in-node-name": "true",
        "yarn.node-labels.enabled": "true",
        "yarn.node-labels.fs-store.root-dir": f"file://{plan.data('resourcemanager')}/labels",
        # One directory for all clusters of a user otherwise: of two that start at once, one dies.
        "yarn.node-attribute.fs-store.root-dir": f"file://{plan.data('resourcemanager')}/attributes",
        "yarn.log-aggregation-enable": "true",
        "yarn.application.classpath": f"{plan.conf()},{jars}/*",
        **preemption(),
    }
    if daemon in plan.nodes:
        settings |= node(plan, daemon)
    if plan.options.expiry is not None:
        settings |= expiry(plan.options.expiry)
    if plan.options.recovery or len(plan.managers) > 1:
        settings |= recovery(plan)
    if len(plan.managers) > 1:
        settings |= availability(plan, daemon)
    return settings


def manager(plan: Plan, name: str, end: str = "") -> Settings:
    """Where a ResourceManager is."""
    places = {
        "address": "client",
        "scheduler.address": "scheduler",
        "resource-tracker.address": "tracker",
        "admin.address": "admin",
        "webapp.address": "web",
    }
    prefix = "yarn.resourcemanager."
    found = {f"{prefix}{key}{end}": plan.address(name, port) for key, port in places.items()}
    return {f"{prefix}hostname{end}": HOST, **found}


def availability(plan: Plan, daemon: str) -> Settings:
    """Several ResourceManagers with one memory; which of them is active, the bed says."""
    settings = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": ",".join(plan.managers),
        "yarn.resourcemanager.ha.automatic-failover.enabled": "false",
        "yarn.resourcemanager.cluster-id": "bed",
        "yarn.client.failover-sleep-base-ms": "100",
        "yarn.client.failover-sleep-max-ms": "1000",
    }
    if daemon in plan.managers:
        settings["yarn.resourcemanager.ha.id"] = daemon
    for name in plan.managers:
        settings |= manager(plan, name, f".{name}")
    return settings


def preemption() -> Settings:
    prefix = "yarn.resourcemanager.monitor.capacity.preemption."
    return {
        "yarn.resourcemanager.scheduler.monitor.enable": "true",
        f"{prefix}monitoring_interval": "500",
        f"{prefix}max_wait_before_kill": "3000",
        f"{prefix}total_preemption_per_round": "1.0",
        f"{prefix}natural_termination_factor": "1.0",
        f"{prefix}max_ignored_over_capacity": "0",
    }


def node(plan: Plan, daemon: str) -> Settings:
    data = plan.data(daemon)
    return {
        "yarn.nodemanager.hostname": HOST,
        "yarn.nodemanager.address": plan.address(daemon, "rpc"),
        "yarn.nodemanager.localizer.address": plan.address(daemon, "localizer"),
        "yarn.nodemanager.webapp.address": plan.address(daemon, "web"),
        "yarn.nodemanager.collector-service.address": plan.address(daemon, "collector"),
        "yarn.nodemanager.local-dirs": f"{data}/local",
        "yarn.nodemanager.log-dirs": f"{data}/containers",
        "yarn.nodemanager.recovery.dir": f"{data}/recovery",
        "yarn.nodemanager.resource.memory-mb": str(NODE_MEMORY_MB),
        "yarn.nodemanager.resource.cpu-vcores": str(NODE_VCORES),
        "yarn.nodemanager.vmem-check-enabled": "false",
        # With its default a container over its memory is never ended by this executor.
        "yarn.nodemanager.resource.memory.enforced": "false",
        # A disk of this machine that is nearly full is no reason to have no cluster.
        "yarn.nodemanager.disk-health-checker.enable": "false",
    }


def node_resources(daemon: str) -> Settings:
    return {"yarn.nodemanager.resource-type.yarn.io/gpu": str(GPUS)} if daemon == "node2" else {}


def expiry(seconds: int) -> Settings:
    milliseconds = str(seconds * 1000)
    return {
        "yarn.nm.liveness-monitor.expiry-interval-ms": milliseconds,
        "yarn.am.liveness-monitor.expiry-interval-ms": milliseconds,
        "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms": milliseconds,
    }


def recovery(plan: Plan) -> Settings:
    return {
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": "org.apache.hadoop.yarn.server.resourcemanager."
        "recovery.FileSystemRMStateStore",
        "yarn.resourcemanager.fs.state-store.uri": f"file://{plan.data('resourcemanager')}/state",
    }


def capacity() -> Settings:
    """Three queues; each may grow over the whole cluster and shrinks back by preemption."""
    settings = {
        "yarn.scheduler.capacity.maximum-applications": "10000",
        "yarn.scheduler.capacity.maximum-am-resource-percent": "0.8",
        # The ResourceManager refuses to start with a third resource type otherwise.
        "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource."
        "DominantResourceCalculator",
        "yarn.scheduler.capacity.root.queues": ",".join(QUEUES),
        "yarn.scheduler.capacity.root.accessible-node-labels": "*",
        f"yarn.scheduler.capacity.root.accessible-node-labels.{LABEL}.capacity": "100",
    }
    for queue, percent in QUEUES.items():
        prefix = f"yarn.scheduler.capacity.root.{queue}"
        settings |= {
            f"{prefix}.capacity": str(percent),
            f"{prefix}.maximum-capacity": "100",
            # One user alone may fill the cluster.
            f"{prefix}.user-limit-factor": "10",
            f"{prefix}.accessible-node-labels": "*",
            f"{prefix}.accessible-node-labels.{LABEL}.capacity": str(percent),
            f"{prefix}.accessible-node-labels.{LABEL}.maximum-capacity": "100",
        }
    return settings
