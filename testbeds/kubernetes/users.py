"""Who may do what in a bed: its administrator, alice, and bob, who may do nothing."""

import json
from typing import Any

from testbeds.kubernetes.plan import Plan

CLIENTS = ("admin:system:masters", "alice")  # known by certificates
TOKENS = {"alice": "alice-comes-by-token", "bob": "bob-comes-by-token"}
READ = ["get", "list", "watch"]
EDIT = [*READ, "create", "update", "patch", "delete", "deletecollection"]


def kubeconfigs(plan: Plan) -> dict[str, str]:
    """Files of DIR, in JSON, which is YAML too."""
    certificate = {
        name: {
            "client-certificate": plan.conf(f"{name}.crt"),
            "client-key": plan.conf(f"{name}.key"),
        }
        for name in ("admin", "alice")
    }
    return {
        "kubeconfig": _kubeconfig(plan, "admin", certificate["admin"]),
        "alice.kubeconfig": _kubeconfig(plan, "alice", certificate["alice"]),
        "alice-token.kubeconfig": _kubeconfig(plan, "alice", {"token": TOKENS["alice"]}),
        "bob.kubeconfig": _kubeconfig(plan, "bob", {"token": TOKENS["bob"]}),
    }


def objects() -> dict[str, dict[str, Any]]:
    """What lets alice work in `default`: path -> object."""
    editing = [
        _rule([""], EDIT, "pods", "configmaps", "secrets", "services", "persistentvolumeclaims"),
        _rule([""], READ, "events", "pods/log", "pods/status", "resourcequotas", "limitranges"),
        _rule([""], [*READ, "create", "update", "patch", "delete"], "pods/proxy"),
        _rule([""], ["get", "create"], "pods/exec", "pods/eviction", "pods/portforward"),
        _rule(["batch"], EDIT, "jobs"),
        _rule(["batch.volcano.sh"], EDIT, "jobs"),
        _rule(["bus.volcano.sh"], ["create", *READ, "delete"], "commands"),
        _rule(["scheduling.volcano.sh"], READ, "podgroups"),
    ]
    reading = [
        _rule([""], READ, "nodes", "namespaces"),
        _rule(["scheduling.k8s.io"], READ, "priorityclasses"),
        _rule(["scheduling.volcano.sh"], READ, "queues"),
    ]
    group = "/apis/rbac.authorization.k8s.io/v1"
    inside = f"{group}/namespaces/default"
    return {
        f"{inside}/roles/users": _role("Role", "users", editing),
        f"{inside}/rolebindings/users": _binding("RoleBinding", "Role", "users"),
        f"{group}/clusterroles/users": _role("ClusterRole", "users", reading),
        f"{group}/clusterrolebindings/users": _binding(
            "ClusterRoleBinding", "ClusterRole", "users"
        ),
    }


def _kubeconfig(plan: Plan, user: str, credentials: dict[str, str]) -> str:
    cluster = {"server": plan.server, "certificate-authority": plan.conf("ca.crt")}
    context = {"cluster": "testbed", "user": user, "namespace": "default"}
    made = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "testbed", "context": context}],
        "current-context": "testbed",
    }
    return json.dumps(made, indent=2) + "\n"


def _rule(groups: list[str], verbs: list[str], *resources: str) -> dict[str, Any]:
    return {"apiGroups": groups, "resources": list(resources), "verbs": verbs}


def _role(kind: str, name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {**_object(kind, name), "rules": rules}


def _binding(kind: str, role: str, name: str) -> dict[str, Any]:
    api = "rbac.authorization.k8s.io"
    return {
        **_object(kind, name),
        "roleRef": {"apiGroup": api, "kind": role, "name": name},
        "subjects": [{"apiGroup": api, "kind": "User", "name": "alice"}],
    }


def _object(kind: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
    }
