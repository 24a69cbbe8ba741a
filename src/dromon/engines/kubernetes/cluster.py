"""Which cluster, as whom, and what of it compiling must know: a context of ours, made concrete."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dromon.contexts.file import CURRENT
from dromon.engines.kubernetes import kubeconfig, volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.refusals import NoSuchKind, NotAllowed, NotFound, NoVolcano
from dromon.engines.kubernetes.target import GPU, GPU_KINDS, PYTHON, Target
from dromon.errors import UsageError

if TYPE_CHECKING:
    from dromon.contexts.file import Context
    from dromon.engines.kubernetes.access import Access


def access(context: Context) -> Access:
    """`where`: a context of the kubeconfig, "current", or PATH, or PATH#CONTEXT."""
    path, _, name = context.where.partition("#")
    if os.sep not in path:
        path, name = "", path
    return kubeconfig.find(path, "" if name == CURRENT else name, acting_as=context.user)


def target(
    context: Context,
    api: Api,
    namespace: str,
    light: str,
    labels: Iterable[Mapping[str, str]],
) -> Target:
    """Asks for what the cluster alone knows; what may not be asked stays unknown. `labels`: of its
    nodes."""
    gpu_kinds = context.properties.get("gpu.label", GPU_KINDS)
    classes = {one["metadata"]["name"]: one for one in _may(api, volcano.PRIORITY_CLASS)}
    queues, has_volcano = _queues(api)
    default = next((name for name, one in classes.items() if one.get("globalDefault")), "")
    return Target(
        namespace=namespace,
        image=context.image,
        image_pull_policy=context.pull,
        python=context.python or PYTHON,
        store=store_of(context),
        blobs=blobs_of(context),
        priority_classes={name: int(one["value"]) for name, one in classes.items()},
        default_priority_class=default,
        queues=queues,
        gpu_resource=context.properties.get("gpu.resource", GPU),
        gpu_kinds=gpu_kinds,
        gpu_products=tuple(sorted({each[gpu_kinds] for each in labels if gpu_kinds in each})),
        node_labels=_labels(context),
        host_path_allowed=context.properties.get("host.paths", "") == "yes",
        run_as=_run_as(context),
        volcano=has_volcano,
        light=light,
    )


def priorities(api: Api) -> dict[str, int]:
    """The values of priority classes; that of jobs without one is under ""."""
    classes = _may(api, volcano.PRIORITY_CLASS)
    found = {str(one["metadata"]["name"]): int(one["value"]) for one in classes}
    default = next((one["value"] for one in classes if one.get("globalDefault")), 0)
    return {"": int(default), **found}


def _may(api: Api, kind: volcano.Kind) -> list[dict[str, Any]]:
    try:
        return api.list(kind)
    except NotAllowed:
        return []


def _queues(api: Api) -> tuple[tuple[str, ...], bool]:
    try:
        found = api.list(volcano.QUEUE)
    except (NoVolcano, NoSuchKind, NotFound):
        return (), False
    except NotAllowed:
        return (), True
    return tuple(sorted(queue["metadata"]["name"] for queue in found)), True


def store_of(context: Context) -> dict[str, Any] | None:
    """The volume that pods mount, this user's part of it, and where this machine sees it."""
    where = context.store
    if not where:
        return None
    user = getpass.getuser()
    local = context.mounted
    if where.startswith("nfs://"):
        parts = urlsplit(where)
        volume: dict[str, Any] = {"nfs": {"server": parts.netloc, "path": parts.path or "/"}}
        sub = user
    elif where.startswith("pvc:"):
        claim, _, inside = where[len("pvc:") :].partition("/")
        volume = {"persistentVolumeClaim": {"claimName": claim}}
        sub = f"{inside.strip('/')}/{user}".strip("/")
    elif where.startswith("/"):
        volume = {"hostPath": {"path": where.rstrip("/") or "/", "type": "Directory"}}
        local = local or where
        sub = user
    else:
        raise UsageError(
            f"context {context.name}: store {where!r} is nothing that pods can mount",
            hint="nfs://server/path, pvc:CLAIM or pvc:CLAIM/path, or a path that all nodes have.",
        )
    return {"volume": volume, "sub_path": sub, "local": local}


def blobs_of(context: Context) -> str:
    """The bucket and prefix of this user's code and environments, or ""."""
    if not context.blobs:
        return ""
    if not context.blobs.startswith("s3://") or not context.blobs[len("s3://") :].strip("/"):
        raise UsageError(
            f"context {context.name}: blobs {context.blobs!r} is no place of an object store",
            hint="As in --set blobs=s3://bucket/prefix",
        )
    return f"{context.blobs.rstrip('/')}/{getpass.getuser()}"


def seen_at(store: Mapping[str, Any] | None) -> str:
    """This user's part of the store on this machine, or ""."""
    if not store or not store["local"]:
        return ""
    return os.path.join(str(store["local"]), str(store["sub_path"]))


def _labels(context: Context) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for key, value in context.properties.items():
        if key.startswith("label."):
            name, equals, wanted = value.partition("=")
            if not equals:
                raise UsageError(f"context {context.name}: {key}={value} is no selector",
                                 hint=f"As in --set {key}=pool=gpu")  # fmt: skip
            found[key.removeprefix("label.")] = {name: wanted}
    return found


def _run_as(context: Context) -> dict[str, int] | None:
    """Where this machine sees the store, its files are to be ours."""
    if context.run_as:
        uid, _, gid = context.run_as.partition(":")
        try:
            return {"uid": int(uid), "gid": int(gid or uid)}
        except ValueError:
            raise UsageError(f"context {context.name}: run_as {context.run_as!r} is no UID[:GID]",
                             hint="As in --set run_as=1000:1000") from None  # fmt: skip
    if context.store and os.getuid() and seen_at(store_of(context)):
        return {"uid": os.getuid(), "gid": os.getgid()}
    return None
