"""ConfigMaps and Secrets that carry a job's runtime, request and code to its pods. Pure.

Without our client (`standalone`) nobody makes a Secret: the job's key is then what Volcano's `ssh`
plug-in makes for it, and values of secrets come from a Secret that the job names.
"""

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from dromon.engines.kubernetes import podspec, volcano
from dromon.engines.kubernetes.documents import settled
from dromon.engines.kubernetes.pod.places import CODE, ENVIRONMENT
from dromon.engines.kubernetes.workload import pod_specs
from dromon.errors import Refused

PART = 900_000  # bytes; the API server takes a MiB with everything around it
# `kubectl apply` repeats the object in an annotation, and those have 256 KiB in all.
APPLIED_PART = 180_000
MOST = 16 * PART
SSH = "/dromon/ssh"  # id_rsa in it


def light_map(namespace: str, name: str, light: bytes) -> dict[str, Any]:
    """Shared by all jobs of a version; nobody changes it."""
    return _light_map(namespace, name, {volcano.LIGHT_LABEL: name.rpartition("-")[2]}, light)


def request_map(id: str, request: Mapping[str, Any], limit: int = PART) -> dict[str, Any]:
    """What pods read: everything but the objects."""
    text = json.dumps({k: v for k, v in request.items() if k != "objects"},
                      ensure_ascii=False, indent=1) + "\n"  # fmt: skip
    size = len(text.encode())
    if size > limit:
        raise Refused(f"the job file with all its configuration has {size} bytes",
                      hint=f"At most {limit} can be; put large tables into the code.")  # fmt: skip
    made = _config_map(request["namespace"], id, _labels(id, request))
    return settled({**made, "data": {"request.json": text}})


def secret(
    id: str,
    request: Mapping[str, Any],
    key: str,
    supplied: Mapping[str, str],
    reach: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The job's key, the values of its secrets, and how its archives are reached in an object
    store. Never printed, never in `objects`."""
    values = {"key": key, "supplied.json": json.dumps(dict(supplied))}
    if reach is not None:
        values["blobs.json"] = json.dumps(dict(reach))
    return {
        "apiVersion": volcano.SECRET.api_version,
        "data": {name: _encoded(value.encode()) for name, value in values.items()},
        "kind": volcano.SECRET.name,
        "metadata": {
            "labels": _labels(id, request), "name": id, "namespace": request["namespace"],
        },
        "type": "Opaque",
    }  # fmt: skip


def code_maps(
    id: str, request: Mapping[str, Any], files: Mapping[str, bytes], part: int = PART
) -> list[dict[str, Any]]:
    """Files in parts: each is put together again from `NAME.000`, `NAME.001`, … in /dromon/code."""
    size = sum(map(len, files.values()))
    if size > MOST:
        raise Refused(
            f"the code is {size / 1e6:.1f} MB packed; through the API server go at most "
            f"{MOST / 1e6:.1f} MB",
            hint="Give the context a store, --set store=nfs://server/path (or pvc:CLAIM), or leave "
            "large files out by a .dromonignore.",
        )
    pieces = [
        (f"{name}.{number:03d}", content[start : start + part])
        for name, content in files.items()
        for number, start in enumerate(range(0, max(1, len(content)), part))
    ]
    made = []
    for number, (name, piece) in enumerate(pieces):
        map_name = podspec.part_name(id, number)
        one = _config_map(request["namespace"], map_name, _labels(id, request))
        made.append(settled({**one, "binaryData": {name: _encoded(piece)}, "immutable": True}))
    return made


def expected_parts(request: Mapping[str, Any]) -> int:
    """How many ConfigMaps the code will need, as far as is known before it is packed."""
    sizes = [a["size"] for a in (request["code"], request["payload"]) if a is not None]
    return sum(max(1, math.ceil(min(size, MOST) / PART)) for size in sizes)


def with_parts(objects: Sequence[Mapping[str, Any]], id: str, parts: int) -> list[dict[str, Any]]:
    """The same objects with `parts` ConfigMaps of code mounted, however many were expected."""
    made = [json.loads(json.dumps(one)) for one in objects]
    for one in made:
        for spec in pod_specs(one) if one["kind"] == "Job" else ():
            _mount_code(spec, id, parts)
    return [settled(one) for one in made]


def _mount_code(spec: dict[str, Any], id: str, parts: int) -> None:
    volumes = [volume for volume in spec["volumes"] if volume["name"] != "code"]
    if parts:
        volumes.append({"name": "code", **podspec.code_source(id, parts)})
    spec["volumes"] = volumes
    for container in spec["containers"]:
        if container["name"] == podspec.MAIN:
            mounts = [m for m in container["volumeMounts"] if m["name"] != "code"]
            if parts:
                mounts.append({"mountPath": podspec.CODE, "name": "code", "readOnly": True})
            container["volumeMounts"] = mounts


def standalone(
    request: Mapping[str, Any], light: bytes, code: bytes | None
) -> list[dict[str, Any]]:
    """All that `kubectl apply` needs to run the job without our client; no values of secrets.

    `light` without bytecode: with it, it would not fit (see APPLIED_PART).
    """
    id = request["objects"][0]["metadata"]["name"]
    if request["supplied"] and not request["secret"]:
        raise Refused(
            f"the manifest holds no values, and the job needs {', '.join(request['supplied'])}",
            hint="Make a Secret with these keys, and write kubernetes: {secret: ITS-NAME}.",
        )
    if request["payload"] is not None:
        raise Refused("a shipped function runs by our client only",
                      hint="Put it into a script, and run that.")  # fmt: skip
    if request["environment"]["kind"] != "image" and ENVIRONMENT not in request["artifacts"]:
        raise Refused("the environment is not in the store yet, and a manifest cannot put it there",
                      hint="Name an image that has it: environment: {image: …}.")  # fmt: skip
    name = f"{id}-light"  # its own: `kubectl delete` of one manifest takes nothing from others
    facts = {"user": request["facts"].get("user", "")}  # the rest differs from call to call
    request = {**request, "facts": facts, "inherited": {}, "light": name}
    maps = []
    if code is not None:
        packed = {"blob": f"{hashlib.sha256(code).hexdigest()}.tar.gz", "size": len(code)}
        request = {**request, "artifacts": {**request["artifacts"], CODE: packed}}
        maps = code_maps(id, request, {CODE: code}, APPLIED_PART)
    objects = with_parts(request["objects"], id, len(maps))
    for one in objects:
        for volume in (v for spec in pod_specs(one) for v in spec["volumes"]):
            if volume["name"] == "light":
                volume["configMap"]["name"] = name
        if "tasks" in one["spec"]:
            plugins = one["spec"].setdefault("plugins", {})
            plugins.setdefault("ssh", [f"--ssh-key-file-path={SSH}"])
    first = _light_map(request["namespace"], name, _labels(id, request), light)
    return [first, request_map(id, request, APPLIED_PART), *maps, *map(settled, objects)]


def _light_map(
    namespace: str, name: str, labels: Mapping[str, str], light: bytes
) -> dict[str, Any]:
    made = _config_map(namespace, name, labels)
    return settled({**made, "binaryData": {"light.pyz": _encoded(light)}, "immutable": True})


def _config_map(namespace: str, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": volcano.CONFIG_MAP.api_version,
        "kind": volcano.CONFIG_MAP.name,
        "metadata": {"labels": dict(labels), "name": name, "namespace": namespace},
    }


def _labels(id: str, request: Mapping[str, Any]) -> dict[str, str]:
    return {volcano.JOB_LABEL: id, volcano.NAME_LABEL: request["name"]}


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
