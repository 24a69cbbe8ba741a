"""Images of containers, written as archives without any engine: layers of files, a configuration.

~/.cache/dromon/testbeds/images-DIGEST   python.tar, its only layer.tar, pause.tar
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dromon.errors import EngineError
from testbeds import cache
from testbeds.kubernetes import programs
from testbeds.kubernetes.plan import IMAGE, PAUSE

Tell = Callable[[str], None]

PACKAGES = ("bash", "python3", "libstdc++6")
# What those ask for only to be installed, or what needs no file of it here.
UNWANTED = ("base-files", "dpkg", "tar", "perl", "libperl", "libgdbm", "gawk", "mawk", "mime-",
            "original-awk", "mailcap", "media-types", "debianutils", "install-info", "debconf",
            "cdebconf", "readline-common", "gcc-", "libmd0", "libacl1", "libattr1", "libgmp10",
            "libmpfr6", "libsigsegv2", "libselinux1", "libpcre2-8-0", "libzstd1")  # fmt: skip
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info",
            "usr/share/lintian", "usr/share/menu", "usr/lib/valgrind")  # fmt: skip
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n",
    "etc/group": "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
FOLDERS = {"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700, "home/user": 0o755, "run": 0o755,
           "proc": 0o555, "sys": 0o555, "dev": 0o755, "mnt": 0o755, "opt": 0o755}  # fmt: skip
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
LAYER = "application/vnd.oci.image.layer.v1.tar"


class ImageFailed(EngineError):
    """An image could not be made."""


@dataclass(frozen=True)
class Layer:
    """A tar file that is laid over those before it."""

    path: Path
    digest: str

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def python(tell: Tell) -> Layer:
    """Debian's Python with bash; busybox is everything else."""
    return layer(_made(tell) / "layer.tar")


def archives(tell: Tell) -> list[Path]:
    """The images that every node has."""
    made = _made(tell)
    return [made / "pause.tar", made / "python.tar"]


def _made(tell: Tell) -> Path:
    tools = programs.get(tell)

    def make(scratch: Path) -> Path:
        tell("making the Python image, once")
        root, made = scratch / "root", scratch / "made"
        made.mkdir()
        packages = [p for p in programs.closure(list(PACKAGES)) if not p.startswith(UNWANTED)]
        programs.extract(packages, root, tell)
        shutil.copy2(f"{tools.bin}/busybox", root / "usr/bin/busybox")
        _furnish(root)
        _write_layer(made / "layer.tar", root)
        write(made / "python.tar", IMAGE, [layer(made / "layer.tar")], ["/bin/bash"])
        (scratch / "pause").mkdir()
        shutil.copy2(tools.kubernetes / "pause", scratch / "pause" / "pause")
        write(made / "pause.tar", PAUSE, [pack(scratch / "pause", scratch)], ["/pause"])
        return made

    sources = (Path(__file__), programs.SOURCE / "pause" / "main.go")
    name = programs.digest(*(path.read_text() for path in sources), programs.release())
    return cache.made(f"images-{name}", make)


def layer(path: Path) -> Layer:
    kept = Path(f"{path}.sha256")
    if kept.exists():
        return Layer(path, kept.read_text())
    with open(path, "rb") as file:
        return Layer(path, hashlib.file_digest(file, "sha256").hexdigest())


def pack(folder: Path, scratch: Path, at: str = "/") -> Layer:
    """The files of a directory as a layer; they appear under `at`."""
    path = scratch / f"{folder.name or 'root'}.tar"
    _write_layer(path, folder, at)
    return layer(path)


def write(path: Path, name: str, layers: list[Layer], command: list[str]) -> None:
    """An image of these layers, as `ctr images import` reads it."""
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": command, "Env": [f"PATH={PATH}"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one.digest}" for one in layers]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _described(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [
                {"mediaType": LAYER, "digest": f"sha256:{one.digest}", "size": one.size}
                for one in layers
            ],
        }
    )
    entry = _described(manifest, "application/vnd.oci.image.manifest.v1+json")
    entry["annotations"] = {"io.containerd.image.name": name}
    with tarfile.open(path, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
        for blob in (config, manifest):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        for digest, one in {one.digest: one for one in layers}.items():
            info = tarfile.TarInfo(f"blobs/sha256/{digest}")
            info.size = one.size
            with open(one.path, "rb") as content:
                tar.addfile(info, content)


def _described(blob: bytes, kind: str) -> dict[str, Any]:
    digest = hashlib.sha256(blob).hexdigest()
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(blob)}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def _write_layer(path: Path, root: Path, at: str = "/") -> None:
    def owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        return info

    inside = at.strip("/")
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for entry in sorted(os.listdir(root)):
            tar.add(root / entry, f"{inside}/{entry}".lstrip("/"), filter=owned_by_root)
    with open(path, "rb") as file:
        Path(f"{path}.sha256").write_text(hashlib.file_digest(file, "sha256").hexdigest())


def _furnish(root: Path) -> None:
    for name in LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    for name, mode in FOLDERS.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(mode)
    os.chown(root / "home/user", 1000, 1000)
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    applets = subprocess.run(
        [root / "usr/bin/busybox", "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    for applet in applets:
        if not any((root / where / applet).exists() for where in ("usr/bin", "usr/sbin")):
            (root / "usr/bin" / applet).symlink_to("busybox")
    # As an installation would; otherwise every start of Python compiles what it imports.
    done = subprocess.run(
        ["chroot", root, "/bin/sh", "-c", "python3 -m compileall -q /usr/lib/python3*"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-400:]
        raise ImageFailed(f"The Python of the image does not run: {said}")
