"""How each component is called, and the files it is configured by. Starts nothing."""

import json
from typing import Any

from testbeds.kubernetes.plan import PAUSE, Plan, number
from testbeds.kubernetes.programs import Programs
from testbeds.kubernetes.users import TOKENS

ADMISSION = 8443  # the port of Volcano's webhooks
WEBHOOKS = ("/jobs/mutate", "/jobs/validate", "/podgroups/mutate", "/pods/mutate",
            "/pods/validate", "/queues/mutate", "/queues/validate")  # fmt: skip
# Where each says that it is well.
HEALTH = {
    "etcd": ("http", 2381, "/health"),
    "controller-manager": ("https", 10257, "/healthz"),
    "scheduler": ("https", 10259, "/healthz"),
    "volcano-scheduler": ("http", 11251, "/healthz"),
    "volcano-controllers": ("http", 11252, "/healthz"),
    "kwok": ("http", 10247, "/healthz"),
}
LEASE = 40  # seconds, Kubernetes' own; a node renews it four times in that time
# The usual limits make a few hundred nodes take minutes.
SWIFT = ("--kube-api-qps=500", "--kube-api-burst=1000")


def command(plan: Plan, programs: Programs, component: str) -> list[str]:
    if component.startswith("containerd"):
        return [f"{programs.bin}/containerd", "--config", plan.conf(f"{component}.toml")]
    if component.startswith("node"):
        return [programs.cluster, "kubelet", *_kubelet(plan, component)]
    return [programs.cluster, component, *_CONTROL[component](plan)]


def files(plan: Plan, programs: Programs, snapshotter: str) -> dict[str, str]:
    """What is written into DIR/conf, besides certificates."""
    made = {
        "tokens.csv": "".join(f"{token},{user},{user}\n" for user, token in TOKENS.items()),
        "volcano-scheduler.conf": plan.options.scheduler_conf,
        "kwok.yaml": "---\n".join(json.dumps(stage, indent=1) + "\n" for stage in _STAGES),
    }
    for n in plan.numbers:
        made[f"containerd{n}.toml"] = _containerd(plan, programs, n, snapshotter)
        made[f"cni{n}/pods.conflist"] = json.dumps(_cni(plan, n))
        made[f"node{n}.json"] = json.dumps(_kubelet_configuration(plan, n))
    return made


# ---- the control plane --------------------------------------------------------------------------


def _etcd(plan: Plan) -> list[str]:
    return [
        f"--data-dir={plan.data('etcd')}",
        "--unsafe-no-fsync",  # a bed that falls with its machine is made anew
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        f"--listen-metrics-urls=http://{plan.control}:2381",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        "--initial-cluster=default=http://127.0.0.1:2380",
    ]


def _apiserver(plan: Plan) -> list[str]:
    expiry = plan.options.expiry
    patience = [] if expiry is None else [
        f"--default-not-ready-toleration-seconds={expiry}",
        f"--default-unreachable-toleration-seconds={expiry}",
    ]  # fmt: skip
    return [
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={plan.control}",
        "--bind-address=0.0.0.0",
        "--secure-port=443",  # as its service has it
        f"--service-cluster-ip-range={plan.services}",
        f"--cert-dir={plan.data('apiserver')}",
        f"--tls-cert-file={plan.conf('server.crt')}",
        f"--tls-private-key-file={plan.conf('server.key')}",
        f"--client-ca-file={plan.conf('ca.crt')}",
        f"--token-auth-file={plan.conf('tokens.csv')}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={plan.conf('accounts.key')}",
        f"--service-account-signing-key-file={plan.conf('accounts.key')}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged",
        *patience,
    ]


def _controller_manager(plan: Plan) -> list[str]:
    expiry = plan.options.expiry
    return [
        f"--kubeconfig={plan.kubeconfig}",
        "--leader-elect=false",
        "--controllers=*,-node-ipam-controller",
        f"--cert-dir={plan.data('controller-manager')}",
        f"--root-ca-file={plan.conf('ca.crt')}",
        f"--service-account-private-key-file={plan.conf('accounts.key')}",
        *([] if expiry is None else [f"--node-monitor-grace-period={expiry}s"]),
        *([] if expiry is None else ["--node-monitor-period=1s"]),
        *SWIFT,
    ]


def _scheduler(plan: Plan) -> list[str]:
    return [
        f"--kubeconfig={plan.kubeconfig}",
        "--leader-elect=false",
        f"--cert-dir={plan.data('scheduler')}",
        *SWIFT,
    ]


def _dns(plan: Plan) -> list[str]:
    return [f"--kubeconfig={plan.kubeconfig}", f"--listen={plan.control}:53"]


def _volcano_scheduler(plan: Plan) -> list[str]:
    return [
        f"--kubeconfig={plan.kubeconfig}",
        "--leader-elect=false",
        f"--scheduler-conf={plan.conf('volcano-scheduler.conf')}",
        "--listen-address=127.0.0.1:8181",
        "--enable-healthz",
        f"--healthz-address={plan.control}:11251",
        "--cache-dumper=false",
        "--logtostderr",
        "-v=3",
        *SWIFT,
    ]


def _volcano_controllers(plan: Plan) -> list[str]:
    return [
        f"--kubeconfig={plan.kubeconfig}",
        "--leader-elect=false",
        "--listen-address=127.0.0.1:8182",
        "--enable-healthz",
        f"--healthz-address={plan.control}:11252",
        "--logtostderr",
        "-v=3",
        *SWIFT,
    ]


def _volcano_admission(plan: Plan) -> list[str]:
    return [
        f"--kubeconfig={plan.kubeconfig}",
        f"--enabled-admission={','.join(WEBHOOKS)}",
        f"--tls-cert-file={plan.conf('server.crt')}",
        f"--tls-private-key-file={plan.conf('server.key')}",
        f"--ca-cert-file={plan.conf('ca.crt')}",
        f"--webhook-url=https://{plan.control}:{ADMISSION}",
        f"--listen-address={plan.control}",
        f"--port={ADMISSION}",
        "--logtostderr",
        "-v=3",
        *SWIFT,
    ]


def _kwok(plan: Plan) -> list[str]:
    return [
        f"--kubeconfig={plan.kubeconfig}",
        f"--config={plan.conf('kwok.yaml')}",
        "--manage-nodes-with-label-selector=type=kwok",
        "--manage-all-nodes=false",
        f"--node-ip={plan.control}",
        f"--cidr=10.{plan.block}.254.0/24",
        f"--server-address={plan.control}:10247",
        f"--node-lease-duration-seconds={plan.options.expiry or LEASE}",
    ]


_CONTROL = {
    "etcd": _etcd,
    "apiserver": _apiserver,
    "controller-manager": _controller_manager,
    "scheduler": _scheduler,
    "dns": _dns,
    "volcano-scheduler": _volcano_scheduler,
    "volcano-controllers": _volcano_controllers,
    "volcano-admission": _volcano_admission,
    "kwok": _kwok,
}


# ---- nodes --------------------------------------------------------------------------------------


def _kubelet(plan: Plan, node: str) -> list[str]:
    return [
        f"--config={plan.conf(f'{node}.json')}",
        f"--kubeconfig={plan.kubeconfig}",
        f"--hostname-override={node}",
        f"--node-ip={plan.address(number(node))}",
        f"--cert-dir={plan.data(node)}/certificates",
    ]


def _kubelet_configuration(plan: Plan, n: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{plan.name}/node{n}",
        "clusterDNS": [plan.control],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        # This machine's disk is everybody's; a bed does not evict pods for it.
        "evictionHard": {"memory.available": "64Mi", "nodefs.available": "1%"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "healthzBindAddress": "0.0.0.0",
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "nodeLeaseDurationSeconds": plan.options.expiry or LEASE,
        "podLogsDir": "/var/log/pods",
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
    }


def _containerd(plan: Plan, programs: Programs, n: int, snapshotter: str) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[{cri}]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  # Without the right to lower it for anybody, no sandbox would start.
  restrict_oom_score_adj = true
[{cri}.cni]
  bin_dir = "{programs.containers}/cni"
  conf_dir = "{plan.conf(f"cni{n}")}"
[{cri}.containerd]
  snapshotter = "{snapshotter}"
[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
  BinaryName = "{programs.bin}/runc"
"""


def _cni(plan: Plan, n: int) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": plan.pods(n)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/run/cni",
        },
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


# ---- fake nodes ---------------------------------------------------------------------------------


def _stage(name: str, kind: str, when: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": when},
            **more,
        },
    }


def _is(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


LASTS = "dromon.test/lasts"  # on a pod of a fake node: "30s" until it has succeeded

_NODE_READY = """\
conditions:
{{ range NodeConditions }}
- {lastHeartbeatTime: {{ Now | Quote }}, lastTransitionTime: {{ Now | Quote }},
   message: {{ .message | Quote }}, reason: {{ .reason | Quote }}, status: {{ .status | Quote }},
   type: {{ .type | Quote }}}
{{ end }}
addresses:
- {type: InternalIP, address: {{ NodeIP | Quote }}}
phase: Running
"""
_POD_RUNNING = """\
phase: Running
startTime: {{ Now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
conditions:
{{ range list "Initialized" "Ready" "ContainersReady" "PodScheduled" }}
- {lastTransitionTime: {{ Now | Quote }}, status: "True", type: {{ . }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ Now | Quote }}}}
{{ end }}
"""
_POD_SUCCEEDED = """\
phase: Succeeded
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated: {exitCode: 0, reason: Completed, finishedAt: {{ Now | Quote }},
      startedAt: {{ Now | Quote }}}
{{ end }}
"""
_STAGES = [
    _stage(
        "node-ready",
        "Node",
        [_is('.status.conditions.[] | select(.type == "Ready") | .status', "NotIn", "True")],
        next={"statusTemplate": _NODE_READY},
    ),
    _stage(
        "pod-running",
        "Pod",
        [
            _is(".metadata.deletionTimestamp", "DoesNotExist"),
            _is(".status.podIP", "DoesNotExist"),
        ],
        next={"statusTemplate": _POD_RUNNING},
    ),
    _stage(
        "pod-succeeded",
        "Pod",
        [
            _is(".metadata.deletionTimestamp", "DoesNotExist"),
            _is(".status.phase", "In", "Running"),
            _is(f'.metadata.annotations["{LASTS}"]', "Exists"),
        ],
        delay={"durationFrom": {"expressionFrom": f'.metadata.annotations["{LASTS}"]'}},
        next={"statusTemplate": _POD_SUCCEEDED},
    ),
    _stage(
        "pod-deleted",
        "Pod",
        [_is(".metadata.deletionTimestamp", "Exists")],
        next={"finalizers": {"empty": True}, "delete": True},
    ),
]
