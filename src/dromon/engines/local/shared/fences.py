"""What keeps users apart on a machine whose arbiter root has started: cgroups and device files.

Each user has one cgroup, and all their members are in it. It may use as much memory as the arbiter
has given them in all, and when processors are short, they are divided as it has given them. How a
user divides that among their own members is theirs: the cgroup is their own to divide further.

The gate of a GPU is its device file. It is root's; its group is the arbiter's own, which looks who
is on which GPU; and an entry in its access control list is for the user who has the GPU. It is not
given to that user as their own: NVIDIA's libraries give the file back to everybody wherever they
may, that is in the hands of its owner and of root. What a program of root's has opened so is closed
again by the next look, twice a second; `words` says where the driver is not told to leave its files
alone. Runs as root.
"""

import errno
import grp
import logging
import os
import pwd
import re
import struct

from dromon.engines.local.shared.orders import EVERYBODY

log = logging.getLogger("dromon.warden")
MOUNT = "/sys/fs/cgroup"
NAME = "dromon"
WANTED = "+memory +cpu"  # of version 2
ACL = "system.posix_acl_access"
PARAMETERS = "/proc/driver/nvidia/params"
FAKE_DEVICES = "DROMON_FAKE_DEVICES"  # a folder whose files stand for those of pretended GPUs


class Fence:
    """The users' cgroups: version 2, or the controllers of version 1, or none at all."""

    def __init__(self, mount: str = MOUNT) -> None:
        self.version = 0
        self._bases: dict[str, str] = {}  # controller -> folder; of version 2: "" -> folder
        try:
            self._open(mount)
        except OSError as error:
            log.warning("no cgroups: %s", error)
            self.version, self._bases = 0, {}

    def _open(self, mount: str) -> None:
        with open("/proc/self/cgroup") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
        own = {name: path for _, names, path in lines for name in names.split(",")}
        if "memory" in own:
            for name in ("memory", "cpu"):
                base = os.path.join(mount, name, own.get(name, "/").lstrip("/"), NAME)
                os.makedirs(base, exist_ok=True)
                self._bases[name] = base
            self.version = 1
        elif "" in own:
            base = os.path.join(handing_on(os.path.join(mount, own[""].lstrip("/")), mount), NAME)
            os.makedirs(base, exist_ok=True)
            _write(base, "cgroup.subtree_control", WANTED)
            self._bases[""] = base
            self.version = 2

    def of(self, uid: int) -> str:
        """The user's own, made when first needed, and theirs to divide; "" where there is none."""
        if not self.version:
            return ""
        for name, base in self._bases.items():
            path = os.path.join(base, str(uid))
            if os.path.isdir(path):
                continue
            os.mkdir(path, 0o755)
            if name == "memory":
                _try(path, "memory.use_hierarchy", "1")
            if self.version == 2:
                _write(path, "cgroup.subtree_control", WANTED)
                os.mkdir(os.path.join(path, "agents"))
                for each in ("cgroup.procs", "cgroup.subtree_control", "agents/cgroup.procs"):
                    os.chown(os.path.join(path, each), uid, -1)
                os.chown(os.path.join(path, "agents"), uid, -1)
            os.chown(path, uid, -1)
        return os.path.join(self._bases["memory" if self.version == 1 else ""], str(uid))

    def join(self, uid: int) -> None:
        """This process, and all it starts."""
        self.of(uid)
        leaf = "agents" if self.version == 2 else ""
        for base in self._bases.values():
            _write(os.path.join(base, str(uid), leaf), "cgroup.procs", str(os.getpid()))

    def limit(self, uid: int, memory: int | None, millicores: int) -> None:
        path = self.of(uid)
        if self.version == 2:
            _write(path, "memory.max", "max" if memory is None else str(memory))
            _write(path, "cpu.weight", str(min(10_000, max(1, millicores // 10))))
        elif self.version == 1:
            _write(path, "memory.limit_in_bytes", "-1" if memory is None else str(memory))
            shares = str(max(2, millicores * 1024 // 1000))
            _write(os.path.join(self._bases["cpu"], str(uid)), "cpu.shares", shares)

    def clear(self) -> None:
        """Remove those in which nobody is any more."""
        for base in self._bases.values():
            for path, _, _ in os.walk(base, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    pass

    @property
    def words(self) -> dict[str, str]:
        if not self.version:
            return {}
        how = f"by the kernel (cgroup v{self.version}), for all members of a user together"
        return {
            "memory": how,
            "cpus": "divided by the kernel when they are short, as they were asked for",
        }


def handing_on(own: str, mount: str, wanted: str = WANTED) -> str:
    """Of version 2: the nearest group above us that hands these controllers on already, as a slice
    of systemd's does. In our own, members that outlive us would keep us out of it when we are
    begun again, for nobody may be in a group that hands its controllers on. Else our own if it can
    be made to, else the nearest above. In a container one's own group often has none."""
    names = {word.lstrip("+") for word in wanted.split()}
    own, mount, trouble = os.path.normpath(own), os.path.normpath(mount), ""
    above = [own]
    while above[-1].startswith(mount + os.sep):
        above.append(os.path.dirname(above[-1]))
    for at in above:
        if names <= _words(at, "cgroup.subtree_control"):
            return at
    for at in above:
        try:
            if names <= _words(at, "cgroup.controllers"):
                if at == own and at != mount:
                    # A group that hands its controllers on has no processes of its own.
                    os.makedirs(os.path.join(at, "arbiter"), exist_ok=True)
                    _write(os.path.join(at, "arbiter"), "cgroup.procs", str(os.getpid()))
                _write(at, "cgroup.subtree_control", wanted)
                return at
        except OSError as error:  # not ours to change, or others are in it
            trouble = trouble or f"; {at}: {error.strerror}"
    raise OSError(errno.ENOENT, f"no cgroup above this process hands on {wanted}{trouble}")


def _words(folder: str, name: str) -> set[str]:
    with open(os.path.join(folder, name)) as file:
        return set(file.read().split())


class Gates:
    """The device files of GPUs, by number. `group`: who may look at all of them, the arbiter."""

    def __init__(self, paths: dict[int, str], group: int = 0, parameters: str = PARAMETERS) -> None:
        self._paths = paths
        self._group = group
        self._is_undone = _driver_undoes(parameters)
        self._before = {n: os.stat(path) for n, path in paths.items()}
        # One that is closed to others was given by an earlier life: its user still has it.
        users = {n: whose(path) for n, path in paths.items()}
        self._users = {n: 0 if uid == EVERYBODY else uid for n, uid in users.items()}
        for number in paths:
            self._close(number)

    def give(self, number: int, uid: int) -> None:
        if number in self._paths:
            self._users[number] = uid
            self._close(number)

    def take(self, number: int) -> None:
        self.give(number, 0)

    def look(self) -> None:
        """Somebody may have opened them again."""
        for number, path in self._paths.items():
            found, uid = os.stat(path), self._users[number]
            is_open = bool(found.st_mode & 0o006)
            if is_open != (uid == EVERYBODY) or found.st_gid != self._group or whose(path) != uid:
                log.warning("%s was open to others, and is closed again", path)
                self._close(number)

    def _close(self, number: int) -> None:
        """First to all, so that nobody finds it open in between."""
        path, uid = self._paths[number], self._users[number]
        os.chmod(path, 0o600)
        _forget_acl(path)
        os.chown(path, 0, self._group)
        os.chmod(path, 0o666 if uid == EVERYBODY else 0o660)
        if uid not in (0, EVERYBODY):
            try:
                os.setxattr(path, ACL, _acl(uid))
            except OSError as error:
                if error.errno != errno.ENOTSUP:
                    raise
                os.chown(path, uid, self._group)  # no lists here: theirs as long as they have it

    def open(self) -> None:
        """As they were before; as the driver makes them, if an earlier life had closed them."""
        for number, path in self._paths.items():
            was = self._before[number]
            is_ours = not was.st_mode & 0o006
            _forget_acl(path)
            os.chown(path, 0, 0 if is_ours else was.st_gid)
            os.chmod(path, 0o666 if is_ours else was.st_mode & 0o7777)

    @property
    def words(self) -> dict[str, str]:
        if not self._paths:
            return {}
        how = "by the device file, which only the user who has the GPU may open"
        if self._is_undone:
            how += (
                "; a program of root's that uses NVIDIA's driver opens it to all for a moment "
                "(options nvidia NVreg_ModifyDeviceFiles=0 puts an end to that)"
            )
        return {"gpus": how}


def whose(path: str) -> int:
    """The user who may open this gate; root while nobody has it, everybody when it is open."""
    found = os.stat(path)
    if found.st_mode & 0o006:
        return EVERYBODY
    try:
        data = os.getxattr(path, ACL)
    except OSError:
        return found.st_uid
    entries = struct.iter_unpack("<HHI", data[4:])
    return next((id for tag, _, id in entries if tag == 2), found.st_uid)


def _acl(uid: int) -> bytes:
    """Root and the group may read and write, and so may this user; nobody else may anything."""
    nobody, may = 0xFFFFFFFF, 6
    rows = ((1, may, nobody), (2, may, uid), (4, may, nobody), (16, may, nobody), (32, 0, nobody))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def _forget_acl(path: str) -> None:
    try:
        os.removexattr(path, ACL)
    except OSError:  # it has none
        pass


def device_files(fake: int, folder: str = "/dev") -> dict[int, str]:
    """Number of a GPU -> its file: NVIDIA's, or those that stand for pretended ones."""
    pretended = os.environ.get(FAKE_DEVICES, "")
    if fake:
        found = {n: os.path.join(pretended, f"FAKE-{n}") for n in range(fake)}
        return {n: path for n, path in found.items() if pretended and os.path.exists(path)}
    numbers = (re.fullmatch(r"nvidia(\d+)", name) for name in os.listdir(folder))
    return {int(each[1]): os.path.join(folder, each[0]) for each in numbers if each}


def own_group(account: pwd.struct_passwd) -> int | None:
    """The account's group, if nobody else is in it."""
    members = set(grp.getgrgid(account.pw_gid).gr_mem)
    others = {each.pw_name for each in pwd.getpwall() if each.pw_gid == account.pw_gid}
    return account.pw_gid if members | others <= {account.pw_name} else None


def _driver_undoes(parameters: str) -> bool:
    try:
        with open(parameters) as file:
            return bool(re.search(r"^ModifyDeviceFiles:\s*1", file.read(), re.MULTILINE))
    except OSError:
        return False


def _write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)


def _try(folder: str, name: str, text: str) -> None:
    try:
        _write(folder, name, text)
    except OSError:
        pass
