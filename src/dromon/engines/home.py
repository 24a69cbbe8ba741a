"""Where the local engine keeps things, and whether it can. Paths and checks of them only.

$DROMON_HOME, else $XDG_STATE_HOME/dromon, else ~/.local/state/dromon
  journal.db            SQLite: jobs and their events
  jobs/<id>/            records (agent.record)
  blobs/ index/         content-addressed store, snapshot indexes
  secrets/<id>.json     0600, only between submit and the job's end
  daemon.pid daemon.log
sockets                 in $XDG_RUNTIME_DIR or the state directory itself
environments            $DROMON_CACHE, else $XDG_CACHE_HOME/dromon, else ~/.cache/dromon
"""

import os

from dromon.errors import StateDirectoryUnusable

# SQLite's WAL needs shared memory between its users, which these do not give.
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs",
     "glusterfs", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "ncpfs", "coda"}
)  # fmt: skip


class Home:
    """The directories of one user's local engine."""

    def __init__(self, root: str | None = None) -> None:
        self.root = os.path.abspath(root or default_root())

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    @property
    def journal(self) -> str:
        return self.path("journal.db")

    @property
    def blobs(self) -> str:
        return self.path("blobs")

    @property
    def cache(self) -> str:
        if configured := os.environ.get("DROMON_CACHE"):
            return os.path.abspath(configured)
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return os.path.join(base, "dromon")

    @property
    def ours(self) -> tuple[str, str]:
        """What lies there is no user's code, wherever they may be."""
        return self.root, self.cache

    def record(self, job: str) -> str:
        return self.path("jobs", job)

    def secrets(self, job: str) -> str:
        return self.path("secrets", job + ".json")

    @property
    def runtime(self) -> str:
        """Where sockets lie. A Unix socket's path has room for some 100 bytes, so a deep state
        directory gets a short stand-in that only its owner can enter."""
        if len(self.root) <= 80:
            return self.root
        import hashlib  # costs a command more than all else in this file, and is rarely needed

        digest = hashlib.sha256(self.root.encode()).hexdigest()[:16]
        base = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
        return os.path.join(base, f"dromon-{os.getuid()}-{digest}")

    @property
    def socket(self) -> str:
        return os.path.join(self.runtime, "daemon.sock")

    @property
    def agents_socket(self) -> str:
        return os.path.join(self.runtime, "agents.sock")

    def make(self) -> None:
        """Create the directories, private to this user; say what is wrong when that fails."""
        try:
            for path in (self.root, self.path("jobs"), self.path("secrets"), self.runtime):
                os.makedirs(path, mode=0o700, exist_ok=True)
            owner = os.stat(self.runtime)
            if owner.st_uid != os.getuid():
                raise StateDirectoryUnusable(f"{self.runtime} belongs to another user")
            for path in (self.root, self.path("secrets"), self.runtime):
                os.chmod(path, 0o700)
            # Of its own name: many commands at once may look for the daemon and start it.
            probe = self.path(f".writable-{os.urandom(6).hex()}")
            with open(probe, "w") as file:
                file.write("1")
            os.unlink(probe)
        except OSError as error:
            raise StateDirectoryUnusable(
                f"cannot use the state directory {self.root}: {error.strerror}"
            ) from None
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            kind = filesystem_of(self.root, file.read())
        if kind in NETWORK_FILESYSTEMS:
            raise StateDirectoryUnusable(
                f"the state directory {self.root} lies on a network filesystem ({kind}), "
                "where the journal (SQLite in WAL mode) would not be safe"
            )


def write_private(path: str, text: str) -> None:
    """A file that only its owner can read, from the first byte on."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)


def default_root() -> str:
    if configured := os.environ.get("DROMON_HOME"):
        return configured
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "dromon")


def filesystem_of(path: str, mountinfo: str) -> str:
    """The type of the filesystem `path` lies on, by the text of /proc/self/mountinfo."""
    path = os.path.realpath(path)
    best, kind = "", ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].encode().decode("unicode_escape")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind
