"""Root's own part of a shared machine: begins members as their user, and puts up the fences.

It starts the arbiter, which is another account's, and then does two things: whoever connects to
its socket gets a launcher that runs as who the kernel says they are; and it carries out the
arbiter's orders, which are numbers (`orders`). It reads not one byte of what users send.

    python -m dromon.engines.local.shared.warden --place FOLDER --state FOLDER --account NAME
"""

import argparse
import json
import logging
import os
import pwd
import selectors
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from typing import NoReturn

import dromon
from dromon.engines.local.shared import orders, place
from dromon.engines.local.shared.fences import Fence, Gates, device_files, own_group
from dromon.errors import DromonError, UsageError

log = logging.getLogger("dromon.warden")
LAUNCHER_FD = 3
MOST = 8  # launchers of one user
LOOK = 0.5  # seconds between two looks at the gates
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Warden:
    def __init__(self, listener: socket.socket, arbiter: socket.socket, gates: Gates) -> None:
        self._listener = listener
        self._arbiter = arbiter
        self.fence = Fence()
        self.gates = gates
        self._launchers: dict[int, int] = {}  # process -> user
        self._is_over = False

    def serve(self) -> None:
        """Until the arbiter has gone."""
        selector = selectors.DefaultSelector()
        selector.register(self._listener, selectors.EVENT_READ, self._begin)
        selector.register(self._arbiter, selectors.EVENT_READ, self._obey)
        looked = time.monotonic()
        while not self._is_over:
            found = [key.data for key, _ in selector.select(LOOK)]
            if time.monotonic() - looked >= LOOK:
                looked = time.monotonic()
                found.append(self.gates.look)
            for act in found:
                try:
                    act()
                except OSError as error:
                    log.error("%s", error)

    # ---- launchers ------------------------------------------------------------------------------

    def _begin(self) -> None:
        sock, _ = self._listener.accept()
        with sock:
            raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            _, uid, gid = struct.unpack("3i", raw)
            self._reap()
            if list(self._launchers.values()).count(uid) >= MOST:
                log.warning("user %d has %d launchers already", uid, MOST)
                return
            cgroup = self.fence.of(uid)
            pid = os.fork()
            if pid == 0:
                self._become(sock, uid, gid, cgroup)
            self._launchers[pid] = uid

    def _reap(self) -> None:
        for pid in list(self._launchers):
            try:
                gone = os.waitpid(pid, os.WNOHANG)[0]
            except ChildProcessError:
                gone = pid
            if gone:
                del self._launchers[pid]

    def _become(self, sock: socket.socket, uid: int, gid: int, cgroup: str) -> NoReturn:
        """That user's launcher; there is no way back from it."""
        try:
            self.fence.join(uid)
            env = drop(uid, gid)
            sock.sendall(f"{self.fence.version} {cgroup or '-'}\n".encode())
            os.setsid()
            os.chdir("/")
            os.umask(0o022)
            os.dup2(sock.fileno(), LAUNCHER_FD)
            os.closerange(LAUNCHER_FD + 1, 1 << 16)
            command = [sys.executable, "-m", "dromon.agent.launcher", str(LAUNCHER_FD)]
            os.execve(sys.executable, command, env)
        except BaseException as error:
            log.error("no launcher for user %d: %r", uid, error)
        finally:
            os._exit(1)

    # ---- orders ---------------------------------------------------------------------------------

    def _obey(self) -> None:
        data = self._arbiter.recv(orders.FORM.size, socket.MSG_WAITALL)
        if len(data) < orders.FORM.size:
            self._is_over = True
            return
        order = orders.Order(*orders.FORM.unpack(data))
        try:
            self._carry_out(order)
            self._arbiter.send(orders.DONE)
        except OSError as error:
            log.error("%s: %s", order, error)
            self._arbiter.send(orders.FAILED)

    def _carry_out(self, order: orders.Order) -> None:
        if order.kind == orders.LIMIT:
            memory = None if order.first == orders.NO_LIMIT else order.first
            self.fence.limit(order.uid, memory, order.second)
        elif order.kind == orders.GIVE:
            self.gates.give(order.first, order.uid)
        elif order.kind == orders.TAKE:
            self.gates.take(order.first)


def drop(uid: int, gid: int) -> dict[str, str]:
    """Be that user from now on, with their groups and nothing of root's; their environment."""
    env = {"PATH": PATH, "LANG": os.environ.get("LANG", "C.UTF-8")}
    # The same Dromon as ours, however we were found.
    env["PYTHONPATH"] = os.path.dirname(os.path.dirname(dromon.__file__))
    try:
        found = pwd.getpwuid(uid)
        gid = found.pw_gid
        os.initgroups(found.pw_name, gid)
        env |= {"HOME": found.pw_dir, "USER": found.pw_name, "LOGNAME": found.pw_name}
    except KeyError:  # a number without a name, as in containers
        os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3:
        raise PermissionError("could not drop root's privileges")
    return env


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="dromon warden")
    parser.add_argument("--place", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--account", required=True)
    parser.add_argument("--fake-gpus", type=int, default=0)
    parser.add_argument("--ready", type=int, default=-1)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        return _run(options)
    except (DromonError, OSError) as error:
        said = error if isinstance(error, DromonError) else DromonError(str(error))
        json.dump(said.to_json(), sys.stderr)
        return said.exit_code


def _run(options: argparse.Namespace) -> int:
    try:
        account = pwd.getpwnam(options.account)
    except KeyError:
        raise UsageError(
            f"there is no account {options.account!r} for the arbiter to run under",
            hint=f"useradd --system {options.account}; `dromon daemon install` does it.",
        ) from None
    _own(options.place, 0, 0, 0o755, account.pw_uid)  # until our socket lies in it
    listener = _listen(os.path.join(options.place, place.LAUNCHER))
    _own(options.place, account.pw_uid, account.pw_gid, 0o755, 0)
    _own(options.state, account.pw_uid, account.pw_gid, 0o700, 0)
    ours, theirs = socket.socketpair()
    warden = Warden(listener, ours, _gates(account, options.fake_gpus))
    arbiter = _start_arbiter(options, account, theirs, {**warden.fence.words, **warden.gates.words})
    theirs.close()
    if options.ready >= 0:
        os.close(options.ready)  # the arbiter has it
    asked: list[int] = []

    def leave(number: int, _: object) -> None:
        asked.append(number)
        arbiter.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    warden.serve()
    code = arbiter.wait()
    warden.fence.clear()
    if code == 0 and not os.path.exists(os.path.join(options.place, place.SOCKET)):  # for good
        warden.gates.open()
        shutil.rmtree(options.place, ignore_errors=True)
        return 0
    # One that fell is a failure, and whoever watches over us begins anew.
    return 0 if asked else max(code, 0) or 1


def _gates(account: pwd.struct_passwd, fake: int) -> Gates:
    group = own_group(account)
    if group is None:
        log.warning("GPUs stay open: others share the group of %s", account.pw_name)
        return Gates({})
    return Gates(device_files(fake), group)


def _own(path: str, uid: int, gid: int, mode: int, before: int) -> None:
    """Whose that folder is from now on; nobody but root and `before` may have made it."""
    os.makedirs(path, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, uid, before):
        raise UsageError(f"{path} was made by somebody else", hint="Remove it, or use another.")
    os.chown(path, uid, gid)
    os.chmod(path, mode)


def _listen(path: str) -> socket.socket:
    partial = f"{path}.{os.getpid()}"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o111)
    sock.bind(partial)
    os.umask(before)
    os.rename(partial, path)
    sock.listen(128)
    return sock


def _start_arbiter(
    options: argparse.Namespace,
    account: pwd.struct_passwd,
    line: socket.socket,
    enforced: dict[str, str],
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "dromon.engines.local.shared.process"]
    command += ["--place", options.place, "--state", options.state]
    command += ["--fake-gpus", str(options.fake_gpus), "--orders", str(line.fileno())]
    command += ["--enforced", json.dumps(enforced)]
    fds = [line.fileno()]
    if options.ready >= 0:
        command += ["--ready", str(options.ready)]
        fds.append(options.ready)
    return subprocess.Popen(
        command, user=account.pw_uid, group=account.pw_gid,
        extra_groups=os.getgrouplist(account.pw_name, account.pw_gid), pass_fds=fds,
        env={**os.environ, "HOME": account.pw_dir}, cwd="/", stdin=subprocess.DEVNULL,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
