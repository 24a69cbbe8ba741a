"""The programs of a bed, each made once: Kubernetes and Volcano by Go, containers' by Debian.

~/.cache/dromon/testbeds/kubernetes-VERSION-DIGEST   cluster (one program for all), pause, crds/
~/.cache/dromon/testbeds/containers-DIGEST           bin/ (containerd, runc, busybox …), cni/, lib/
~/.cache/dromon/testbeds/manifests-VERSIONS          jobs as their own projects publish them
"""

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dromon.errors import EngineError
from testbeds import cache
from testbeds.kubernetes.plan import KUBERNETES, VOLCANO

Tell = Callable[[str], None]

SOURCE = Path(__file__).parent / "go"
TELLING = 15.0  # seconds between two words about a long build
PACKAGES = ("busybox-static", "containerd", "containernetworking-plugins", "libseccomp2", "runc")
PUBLISHED = {"volcano.sh/volcano": "example", "k8s.io/kubernetes": "test/fixtures/doc-yaml"}
TOOLS = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}


class GoMissing(EngineError):
    """Go is needed once, to build Kubernetes."""

    hint = "Install Go 1.25 or newer, or copy the cache directory from a machine that has it."


class BuildFailed(EngineError):
    """Kubernetes could not be built."""

    hint = "Check the network: its sources come from the Go module proxy."


class PackagesUnavailable(EngineError):
    """Debian's packages could not be had."""

    hint = "The test bed takes containerd and its like from Debian or Ubuntu, by `apt-get`."


@dataclass(frozen=True)
class Programs:
    kubernetes: Path
    containers: Path

    @property
    def cluster(self) -> str:
        return str(self.kubernetes / "cluster")

    @property
    def bin(self) -> str:
        return str(self.containers / "bin")


def get(tell: Tell) -> Programs:
    _need_tools(tell)
    return Programs(
        cache.made(f"kubernetes-{KUBERNETES}-{_folder_digest(SOURCE)}", lambda s: _build(s, tell)),
        cache.made(f"containers-{digest(*PACKAGES, release())}", lambda s: _unpack(s, tell)),
    )


def manifests() -> Path:
    """Examples of jobs from the sources of Volcano and Kubernetes; no copy of them is ours."""
    return cache.made(f"manifests-{KUBERNETES}-{VOLCANO}", _manifests)


# ---- Go -----------------------------------------------------------------------------------------


def find_go() -> str:
    places = [shutil.which("go"), "/usr/local/go/bin/go", "/usr/lib/go/bin/go"]
    for program in places:
        if program and os.access(program, os.X_OK):
            return program
    raise GoMissing("The test bed builds Kubernetes from source and needs Go: there is none.")


def _build(scratch: Path, tell: Tell) -> Path:
    made = scratch / "made"
    (made / "crds").mkdir(parents=True)
    go = find_go()
    tell(f"building Kubernetes {KUBERNETES} and Volcano {VOLCANO}, once: 6 minutes on 2 cores")
    begin = told = time.monotonic()
    major, minor, _ = KUBERNETES.split(".")
    version = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    rooms = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    words = [f"-X {room}.{key}={value}" for room in rooms for key, value in version.items()]
    build = [go, "build", "-trimpath", "-tags", "grpcnotrace"]
    # This fetches the sources, too.
    total = len(_go([go, "list", "-deps", "-tags", "grpcnotrace", "."]).splitlines())
    command = [*build, "-v", "-ldflags", " ".join(["-s -w", *words]), "-o", f"{made}/cluster", "."]
    tell(f"fetched their sources in {time.monotonic() - begin:.0f} s")
    for done, _ in enumerate(_lines(command), 1):
        if time.monotonic() - told > TELLING:
            told = time.monotonic()
            tell(f"compiled {done} of {total} packages in {told - begin:.0f} s")
    _go([*build, "-ldflags", "-s -w", "-o", f"{made}/pause", "./pause"])
    volcano = _go([go, "list", "-m", "-f", "{{.Dir}}", "volcano.sh/volcano"]).strip()
    # Without those of job flows, Volcano's jobs get no status.
    for group in ("volcano", "jobflow"):
        for file in Path(volcano, "config", "crd", group, "bases").glob("*.yaml"):
            shutil.copyfile(file, made / "crds" / file.name)
    return made


def _manifests(scratch: Path) -> Path:
    made = scratch / "made"
    go = find_go()
    for module, folder in PUBLISHED.items():
        told = json.loads(_go([go, "mod", "download", "-json", module]))
        for file in Path(told["Dir"], folder).rglob("*.yaml"):
            copy = made / module / file.relative_to(told["Dir"])
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    return made


def _go(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=SOURCE, env=_go_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildFailed(f"`{' '.join(command[:3])}` failed: {done.stderr.strip()[-800:]}")
    return done.stdout


def _lines(command: list[str]) -> Iterator[str]:
    """What it says, line by line, as it says it."""
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=SOURCE, env=_go_environment(), stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            said.append(line)
            yield line
    if child.returncode:
        raise BuildFailed(f"`go build` failed: {''.join(said[-12:]).strip()}")


def _go_environment() -> dict[str, str]:
    # The compiler need not save memory: a few GB are enough for it as it is.
    ours = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOGC": "400"}
    return {**os.environ, **ours}


# ---- Debian -------------------------------------------------------------------------------------


def _unpack(scratch: Path, tell: Tell) -> Path:
    tell("fetching containerd and runc, once")
    root, made = scratch / "root", scratch / "made"
    extract(list(PACKAGES), root, tell)
    (made / "bin").mkdir(parents=True)
    for path in root.glob("usr/*bin/*"):
        if not path.is_symlink():  # runc is in both
            path.rename(made / "bin" / path.name)
    (root / "usr/lib/cni").rename(made / "cni")
    (made / "lib").mkdir()
    for path in root.glob("usr/lib/*/libseccomp.so*"):
        path.rename(made / "lib" / path.name)
    return made


def extract(packages: list[str], root: Path, tell: Tell) -> None:
    """Debian's packages into a directory; nothing of them is installed on this machine."""
    downloads = root.parent / "downloads"
    downloads.mkdir(exist_ok=True)
    command = ["apt-get", "download", "-q", *packages]
    done = _apt(command, downloads)
    if done.returncode:
        tell("asking Debian what there is")
        _apt(["apt-get", "update", "-q"], downloads)
        done = _apt(command, downloads)
    if done.returncode:
        raise PackagesUnavailable(f"{' '.join(packages)}: {done.stderr.strip()[-400:]}")
    # As on a Debian of today: everything is under /usr.
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for package in sorted(downloads.glob("*.deb")):
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE
        ) as reader:
            subprocess.run(
                ["tar", "-x", "--keep-directory-symlink", "-C", root],
                stdin=reader.stdout,
                check=True,
            )
        package.unlink()


def closure(packages: list[str]) -> list[str]:
    """These and all they depend on."""
    negations = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    command = ["apt-cache", "depends", "--recurse", *(f"--no-{n}" for n in negations), *packages]
    done = _apt(command, Path("/"))
    if done.returncode:
        raise PackagesUnavailable(f"{' '.join(packages)}: {done.stderr.strip()[-400:]}")
    return [line for line in done.stdout.splitlines() if line and line[0].isalnum()]


def _apt(command: list[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    if shutil.which(command[0]) is None:
        raise PackagesUnavailable(f"There is no `{command[0]}` on this machine.")
    # Its own user for downloads may not write where we do.
    sandbox = ["-o", "APT::Sandbox::User=root"]
    return subprocess.run(
        [command[0], *sandbox, *command[1:]], cwd=cwd, capture_output=True, text=True, check=False
    )


def _need_tools(tell: Tell) -> None:
    missing = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if missing:
        tell(f"installing {', '.join(sorted(missing))}")
        _apt(["apt-get", "update", "-q"], Path("/"))
        done = _apt(["apt-get", "install", "-qy", *sorted(missing)], Path("/"))
        if done.returncode:
            raise PackagesUnavailable(f"{', '.join(missing)}: {done.stderr.strip()[-400:]}")


def release() -> str:
    try:
        return Path("/etc/debian_version").read_text().strip()
    except OSError:
        return "no Debian"


def _folder_digest(source: Path) -> str:
    files = sorted(p for p in source.rglob("*") if p.is_file())
    return digest(*(f"{p.relative_to(source)}\n{p.read_text()}" for p in files))


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
