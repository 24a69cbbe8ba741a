"""A systemd of the tests' own: in namespaces of its own, over a file system it cannot write to."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import LIMIT, eventually
from people import python_for_all

SYSTEMD = "/lib/systemd/systemd"
CGROUPS = Path("/sys/fs/cgroup")
GROUP = f"dromon-tests-{os.getpid()}"  # the cgroup that it takes for the topmost
NEW = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup")
DROMON, PACKAGES = "/run/dromon-tests/dromon", "/run/dromon-tests/packages"
# What it changes lies in memory and is gone with it, and it gets nothing to do but what it is told:
# the units that tidy up, mount and ask for a login are masked.
BOOT = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run
for each in dromon packages dev; do mkdir -p /run/dromon-tests/$each; done
mount --bind "$1" /run/dromon-tests/dromon
mount --bind "$2" /run/dromon-tests/packages
for part in etc var; do
    mkdir -p /run/dromon-tests/over/$part /run/dromon-tests/work/$part
    mount -t overlay -o lowerdir=/$part overlay /$part \
        -o upperdir=/run/dromon-tests/over/$part,workdir=/run/dromon-tests/work/$part
done
for each in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 tmpfs $each; done
for each in null zero full random urandom tty; do
    touch /run/dromon-tests/dev/$each
    mount --bind /dev/$each /run/dromon-tests/dev/$each
done
mount --rbind /run/dromon-tests/dev /dev
kind=$(stat -f -c %T /sys/fs/cgroup)
umount -R /sys/fs/cgroup
if [ "$kind" = cgroup2fs ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    mkdir /sys/fs/cgroup/systemd /sys/fs/cgroup/memory /sys/fs/cgroup/cpu
    mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
    for each in memory cpu; do mount -t cgroup -o $each cgroup /sys/fs/cgroup/$each; done
fi
mount -t proc proc /proc
mount -o remount,bind,ro /
rm -rf /etc/systemd/system /etc/tmpfiles.d
mkdir -p /etc/systemd/system
for each in systemd-tmpfiles-setup systemd-tmpfiles-setup-dev systemd-tmpfiles-clean \
        systemd-sysctl systemd-remount-fs systemd-modules-load systemd-binfmt systemd-sysusers \
        systemd-udevd systemd-udev-trigger console-getty; do
    ln -s /dev/null /etc/systemd/system/$each.service
done
if touch /dromon-tests 2>/dev/null; then echo "/ can be written to"; exit 1; fi
exec env -i container=tests PATH="$PATH" "$3" --system --unit=basic.target --log-level=warning
"""


class Booted:
    """One that runs, and what is typed there."""

    def __init__(self, init: int, python: str) -> None:
        self.init = init
        self.python = python

    def run(self, *words: str, user: str = "") -> tuple[int, str]:
        """As root, or as somebody else; how it ended and what it said."""
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        into = ["nsenter", "-t", str(self.init), "-p", "-m", "-u", "-i", "-C", "--"]
        home = f"/tmp/{user}"
        env = {
            "PATH": os.environ["PATH"], "HOME": home, "USER": user or "root",
            "PYTHONPATH": f"{DROMON}:{PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        # Into a file: what goes on after the command would keep a pipe open.
        with tempfile.TemporaryFile("w+") as out:
            done = subprocess.run(
                [*into, *become, "env", "-C", home, *words], env=env, timeout=LIMIT, check=False,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
            out.seek(0)
            return done.returncode, out.read()

    def __call__(self, *words: str, user: str = "") -> str:
        code, said = self.run(*words, user=user)
        assert code == 0, f"{' '.join(words)}: {code}\n{said}"
        return said

    def dromon(self, *words: str, user: str = "") -> str:
        return self(self.python, "-m", "dromon.cli", *words, user=user)


def _hindrance() -> str | None:
    if os.getuid() != 0:
        return "only root can boot a systemd"
    for each in (SYSTEMD, "unshare", "nsenter", "setpriv", "useradd"):
        if shutil.which(each) is None:
            return f"there is no {each}"
    if not all(os.access(group.parent, os.W_OK) for group in _groups()):
        return "no cgroup may be made to boot it in"
    done = subprocess.run(
        [*NEW, "sh", "-c", "mount -t tmpfs tmpfs /tmp"], capture_output=True, text=True, check=False
    )
    return f"no namespaces to boot it in: {done.stderr}" if done.returncode else None


def _groups() -> list[Path]:
    """In each hierarchy that it uses."""
    if (CGROUPS / "cgroup.procs").exists():
        return [CGROUPS / GROUP]
    return [CGROUPS / each / GROUP for each in ("systemd", "memory", "cpu")]


def _is_removed(group: Path) -> bool:
    try:
        for path, _, _ in os.walk(group, topdown=False):
            os.rmdir(path)
    except OSError:
        return False  # somebody is still on the way out of it
    return True


@pytest.fixture
def booted(tmp_path: Path) -> Iterator[Booted]:
    hindrance = _hindrance()
    if hindrance is not None:
        pytest.skip(hindrance)
    python = os.path.realpath(python_for_all()[0])
    # Root's service runs nothing that another user could change.
    ours = tmp_path / "dromon"
    shutil.copytree(Path(__file__).parents[2] / "src/dromon", ours / "dromon")
    subprocess.run(["chown", "-R", "root:root", str(ours)], check=True)
    subprocess.run(["chmod", "-R", "u=rwX,go=rX", str(ours)], check=True)
    packages = os.path.dirname(os.path.dirname(pytest.__file__))
    groups = _groups()
    for group in groups:
        group.mkdir(exist_ok=True)
    enter = "".join(f"echo $$ >{group}/cgroup.procs\n" for group in groups)
    log = tmp_path / "boot.log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            ["sh", "-c", f'{enter} exec "$@"', "sh", *NEW, "sh", "-c", BOOT, "boot", str(ours),
             packages, SYSTEMD],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        yield _when_up(process, python, log)
    finally:
        process.kill()  # and with it all that has begun there
        process.wait()
        for group in groups:
            eventually(lambda group=group: _is_removed(group), f"somebody stays in {group}")


def _when_up(process: "subprocess.Popen[bytes]", python: str, log: Path) -> Booted:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    init = 0

    def is_up() -> bool:
        nonlocal init
        if process.poll() is not None:  # there is something that it may not mount here
            (pytest.fail if "DROMON_REQUIRE_CLUSTERS" in os.environ else pytest.skip)(
                f"no systemd can be booted here: {log.read_text()}"
            )
        init = int((children.read_text().split() or ["0"])[0])
        if not init or Path(f"/proc/{init}/comm").read_text() != "systemd\n":
            return False
        return Booted(init, python).run("systemctl", "is-active", "basic.target")[0] == 0

    eventually(is_up, lambda: f"it does not come up: {log.read_text()}", wait=0.1)
    return Booted(init, python)
