"""What a task's pod mounts: volumes of the job file, shared memory, or left as it is for the pod.

A volume keeps its old path on Kubernetes: under `kubernetes:` it is mounted there a second time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dromon.compat.volcano.amounts import size
from dromon.compat.volcano.naming import label
from dromon.compat.volcano.source import Source
from dromon.spec.names import NAME_LIMIT
from dromon.spec.path import Path

SHM = "/dev/shm"


@dataclass(slots=True)
class Mounted:
    """What one task mounts."""

    shm: str | None = None
    volumes: list[Mapping[str, Any]] = field(default_factory=list)  # for the pod, as they were
    mounts: list[Mapping[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Volumes:
    """Of the whole job: ours by name, and which source each name stands for."""

    source: Source
    ours: dict[str, dict[str, str]] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)  # mount path -> our name

    def task(self, spec: Mapping[str, Any], path: Path, container: int) -> Mounted:
        """Of one pod's spec, for its container of this number."""
        made = Mounted()
        shared = self._of_others(spec, path, container)
        given = self.source.items(spec, "volumes", path)
        known = {str(each.get("name")): (at, each) for at, each in enumerate(given)}
        used: set[str] = set()
        own: Path = (*path, "containers", container)
        main = spec["containers"][container]
        for mount in self.source.items(main, "volumeMounts", own):
            name = str(mount.get("name"))
            used.add(name)
            if name in known and name not in shared:
                at, volume = known[name]
                self._mount(made, volume, mount, (*path, "volumes", at))
            else:
                made.mounts.append(mount)
        for name, (_, volume) in known.items():
            if name not in used or name in shared:
                made.volumes.append(volume)
        return made

    def _of_others(self, spec: Mapping[str, Any], path: Path, container: int) -> set[str]:
        """Names of volumes that init and side containers mount, and must go on finding."""
        found: set[str] = set()
        for key in ("initContainers", "containers"):
            for at, other in enumerate(self.source.items(spec, key, path)):
                if (key, at) == ("containers", container):
                    continue
                mounts = self.source.items(other, "volumeMounts", (*path, key, at))
                found |= {str(mount.get("name")) for mount in mounts}
        return found

    def claims(self, path: Path) -> list[Mapping[str, Any]]:
        """Volcano's own `volumes:` of a job, mounted in every task."""
        mounts = []
        for at, each in enumerate(self.source.items(self.source.spec, "volumes", path)):
            here = (*path, "volumes", at)
            where, claim = str(each.get("mountPath") or ""), each.get("volumeClaimName")
            name = str(claim or where.strip("/") or "volume")
            if claim is None or each.get("volumeClaim"):
                text = "a claim of this size was made for each job"
                if claim is None:
                    self.source.note(here, f"{text}: here it is scratch space of the node")
                else:
                    self.source.note((*here, "volumeClaim"), f"{text}: make the claim {claim}")
            ours = self._add(name, f"pvc:{claim}" if claim else "node", "mount")
            if where:
                mounts.append(self._again(ours, where))
        return mounts

    def _mount(
        self, made: Mounted, volume: Mapping[str, Any], mount: Mapping[str, Any], path: Path
    ) -> None:
        where = str(mount.get("mountPath") or "")
        scratch = volume.get("emptyDir")
        in_memory = isinstance(scratch, dict) and scratch.get("medium") == "Memory"
        if where == SHM and in_memory:
            limit = scratch.get("sizeLimit") if isinstance(scratch, dict) else None
            try:
                made.shm = size(limit) if limit is not None else None
            except ValueError as error:
                raise self.source.wrong((*path, "emptyDir", "sizeLimit"), str(error)) from None
            return
        found = self._ours(volume, mount, path)
        plain = set(mount) <= {"name", "mountPath", "readOnly", "subPath"}
        if found is None or in_memory or not plain:
            if volume not in made.volumes:
                made.volumes.append(volume)
            made.mounts.append(mount)
            return
        read_only = bool(mount.get("readOnly")) and found != "node"
        name = self._add(str(volume.get("name")), found, "copy" if read_only else "mount")
        if where:
            made.mounts.append(self._again(name, where, mount))

    def _ours(self, volume: Mapping[str, Any], mount: Mapping[str, Any], path: Path) -> str | None:
        """The source as a job file names it; None where it has no name for it."""
        below = str(mount.get("subPath") or "").strip("/")
        below = f"/{below}" if below else ""
        claim, nfs, host = (
            volume.get(key) if isinstance(volume.get(key), dict) else None
            for key in ("persistentVolumeClaim", "nfs", "hostPath")
        )
        if claim and claim.get("claimName"):
            return f"pvc:{claim['claimName']}{below}"
        if nfs and nfs.get("server") and nfs.get("path"):
            return f"nfs://{nfs['server']}{str(nfs['path']).rstrip('/')}{below}"
        if host and str(host.get("path", "")).startswith("/"):
            self.source.note(path, "a path of the nodes: the context must allow it (host_path)")
            return f"{str(host['path']).rstrip('/') or '/'}{below}"
        if "emptyDir" in volume and not below:
            return "node"
        return None

    def _add(self, name: str, source: str, access: str) -> str:
        wanted = {"source": source, "access": access}
        ours = label(name, NAME_LIMIT, "volume")
        at = 1
        while self.ours.get(ours, wanted) != wanted:
            at += 1
            ours = f"{label(name, NAME_LIMIT - 3, 'volume')}-{at}"
        self.ours[ours] = wanted
        return ours

    def _again(self, name: str, where: str, mount: Mapping[str, Any] | None = None) -> Any:
        """Mounts our volume at its old path too."""
        self.where.setdefault(where.rstrip("/") or "/", name)
        made: dict[str, Any] = {"name": f"volume-{name}", "mountPath": where}
        if mount is not None and mount.get("readOnly"):
            made["readOnly"] = True
        if mount is not None and mount.get("subPath") and self.ours[name]["source"][:4] == "pvc:":
            made["subPath"] = mount["subPath"]  # in the others' it is a part of the source
        return made
