"""What an administrator would do in a new cluster: Volcano's resources, queues, users, GPUs.

All of it is harmless when it is done already.
"""

import base64
import json
from pathlib import Path
from typing import Any

from testbeds.kubernetes import api, users
from testbeds.kubernetes.commands import ADMISSION, WEBHOOKS
from testbeds.kubernetes.plan import GPU, Plan
from testbeds.kubernetes.programs import Programs

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
VERBS = {"jobs/validate": ["CREATE", "UPDATE"], "queues/validate": ["CREATE", "UPDATE", "DELETE"]}
GROUPS = {
    "jobs": ("batch.volcano.sh", "v1alpha1"),
    "podgroups": ("scheduling.volcano.sh", "v1beta1"),
    "queues": ("scheduling.volcano.sh", "v1beta1"),
    "pods": ("", "v1"),
}


def resources(plan: Plan, programs: Programs) -> None:
    """What Volcano's processes must find when they start."""
    for file in sorted(Path(programs.kubernetes, "crds").iterdir()):
        group, _, plural = file.stem.partition("_")
        api.apply(plan, f"{CRDS}/{plural}.{group}", file.read_bytes())
    api.apply(
        plan, "/api/v1/namespaces/volcano-system", _object("v1", "Namespace", "volcano-system")
    )
    for path in WEBHOOKS:
        kind, made = _webhook(plan, path)
        where = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{made['metadata']['name']}"
        api.apply(plan, where, made)


def established(plan: Plan) -> None:
    for one in api.items(plan, CRDS):
        conditions = one.get("status", {}).get("conditions") or ()
        if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            raise api.NotYet(f"does not serve {one['metadata']['name']} yet")


def people(plan: Plan) -> None:
    for path, made in users.objects().items():
        api.apply(plan, path, made)
    for name, value in plan.options.priorities.items():
        made = {**_object("scheduling.k8s.io/v1", "PriorityClass", name), "value": value}
        api.apply(plan, f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}", made)


def settled(plan: Plan) -> None:
    """Without these no pod of the namespace is let in, or none starts."""
    inside = "/api/v1/namespaces/default"
    api.get(plan, f"{inside}/serviceaccounts/default")
    api.get(plan, f"{inside}/configmaps/kube-root-ca.crt")


def queues(plan: Plan) -> None:
    """Those of the options; Volcano makes `root` and `default` itself."""
    for name, spec in plan.options.queues.items():
        default = {"parent": "root", "weight": 1, "reclaimable": True} if name != "default" else {}
        made = _object("scheduling.volcano.sh/v1beta1", "Queue", name)
        api.apply(plan, f"{QUEUES}/{name}", {**made, "spec": {**default, **spec}})
    for name in ("root", "default", *plan.options.queues):
        state = api.get(plan, f"{QUEUES}/{name}").get("status", {}).get("state")
        if state != "Open":  # its webhook would deny jobs
            raise api.NotYet(f"has the queue {name} {state or 'in no state'}")


def gpus(plan: Plan, node: str) -> None:
    """No device plug-in: the node is said to have them, and goes on saying so."""
    count = plan.options.gpus_per_node
    if not count:
        return
    path = f"/api/v1/nodes/{node}"
    escaped = GPU.replace("/", "~1")
    api.patch_status(
        plan,
        path,
        [
            {"op": "add", "path": f"/status/{kind}/{escaped}", "value": str(count)}
            for kind in ("capacity", "allocatable")
        ],
    )


def fake_nodes(plan: Plan) -> None:
    known = {
        n["metadata"]["name"] for n in api.items(plan, "/api/v1/nodes?labelSelector=type=kwok")
    }
    for number in range(1, plan.options.fake_nodes + 1):
        name = f"fake{number}"
        if name in known:
            continue
        room = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(plan.options.fake_gpus)}
        made = _object("v1", "Node", name)
        made["metadata"]["labels"] = {
            "type": "kwok",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        made["metadata"]["annotations"] = {"kwok.x-k8s.io/node": "fake"}
        made["status"] = {"capacity": room, "allocatable": room}
        api.call(plan, "POST", "/api/v1/nodes", json.dumps(made).encode(), "application/json")


def _webhook(plan: Plan, path: str) -> tuple[str, dict[str, Any]]:
    plural, _, action = path.strip("/").partition("/")
    group, version = GROUPS[plural]
    kind = f"{'Mutating' if action == 'mutate' else 'Validating'}WebhookConfiguration"
    made = _object(
        "admissionregistration.k8s.io/v1", kind, f"volcano-admission-service-{plural}-{action}"
    )
    authority = base64.b64encode(Path(plan.conf("ca.crt")).read_bytes()).decode()
    made["webhooks"] = [
        {
            "name": f"{action}{plural.removesuffix('s')}.volcano.sh",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": f"https://{plan.control}:{ADMISSION}{path}",
                "caBundle": authority,
            },
            "failurePolicy": "Fail",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 10,
            "namespaceSelector": {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "NotIn",
                        "values": ["volcano-system", "kube-system"],
                    }
                ]
            },
            "rules": [
                {
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "operations": VERBS.get(f"{plural}/{action}", ["CREATE"]),
                    "resources": [plural],
                }
            ],
        }
    ]
    return kind, made


def _object(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
