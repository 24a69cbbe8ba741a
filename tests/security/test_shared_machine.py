"""One machine, an arbiter nobody needs root for, and several people: real users, what they type."""

import json
import os
import socket
import struct
import subprocess

from bench import eventually, is_alive
from people import Machine, User

from dromon import __version__
from dromon.agent.frames import pack

SMALL = ("--cpus", "0.1")
RESEARCH = "queue=research"


def everybody(user: User) -> dict[str, str]:
    found = json.loads(user("ps", "--all-users", "-o", "json").stdout)
    return {job["id"]: job["state"] for job in found}


def gpus(user: User) -> list[str]:
    [node] = json.loads(user("nodes", "-o", "json").stdout)
    return [gpu["holder"] or "" for gpu in node["gpus"]]


def test_two_users_wait_in_one_line_and_an_admin_may_stop_anything(machine: Machine):
    ann, bob, boss = machine.ann, machine.bob, machine.boss
    assert "decides for everybody" in machine.keeper("daemon", "share").stderr
    job = machine.ann.home / "work" / "open.yaml"
    job.write_text(
        f"name: open\nqueue: research\ncommand: echo for bob; sleep 600\n"
        f"resources: {{cpus: 0.1, gpus: 1}}\nacls: {{view: [{bob.name}]}}\n"
    )
    job.chmod(0o644)
    shared = ann.submit("open.yaml")
    closed = ann.submit("--gpus", "1", *SMALL, RESEARCH, "--", "bash", "-c", "echo mine; sleep 600")
    ann.until(closed, "running")
    mine = bob.submit("--gpus", "1", *SMALL, RESEARCH, "--", "sleep", "600")

    # Everybody sees everybody's jobs, and why their own waits.
    assert everybody(bob) == {
        f"{ann.name}/{shared}": "running", f"{ann.name}/{closed}": "running",
        f"{bob.name}/{mine}": "queued",
    }  # fmt: skip
    assert f"{ann.name}/{closed}" in bob("why", mine).stdout
    assert f"stop {ann.name}" not in bob("why", mine).stdout, "it is not his to stop"
    assert gpus(bob) == [f"{ann.name}/{shared}", f"{ann.name}/{closed}"]

    # What a job prints is its user's, and theirs with whom its file shares it.
    eventually(
        lambda: bob("logs", f"{ann.name}/{shared}").stdout == "for bob\n", "nothing was printed"
    )
    for who, what in ((bob, closed), (boss, shared), (boss, closed)):
        said = who("logs", f"{ann.name}/{what}", code=65).stderr
        assert "is not shared with" in said
    record = ann.home / ".local/state/dromon/jobs" / closed
    assert bob.run("ls", str(record)).returncode != 0

    # Who may use which queue and which class, the site file says.
    said = ann("run", "-d", "queue=private", "--", "true", code=65).stderr
    assert f"only {bob.name} may" in said
    said = bob("run", "-d", RESEARCH, "priority=urgent", "--", "true", code=65).stderr
    assert "may not use priority urgent" in said

    # Nobody stops another's job but an admin.
    said = bob("stop", f"{ann.name}/{closed}", code=65).stderr
    assert "not yours to stop" in said
    assert "no admin" in bob("queue", "set", "research", "weight=5", code=65).stderr
    boss("queue", "set", "research", "weight=5")
    boss("stop", f"{ann.name}/{closed}", "--grace", "0")
    ann.until(closed, "stopped")
    assert f"stopped by {boss.name}" in ann("ps", "-a").stdout
    bob.until(mine, "running")

    audit = json.loads(bob("daemon", "audit", "-o", "json").stdout)
    done = {(each["user"], each["action"], each["subject"]) for each in audit}
    assert (bob.name, "stop refused", f"{ann.name}/{closed}") in done
    assert (boss.name, "stop", f"{ann.name}/{closed}") in done
    assert (bob.name, "logs", f"{ann.name}/{shared}") in done
    assert (boss.name, "change", "queue research") in done


def test_what_runs_goes_on_without_the_arbiter_and_is_known_when_it_is_back(machine: Machine):
    ann, bob, keeper = machine.ann, machine.bob, machine.keeper
    keeper("daemon", "share")
    running = ann.submit("--gpus", "2", *SMALL, RESEARCH, "--", "sleep", "600")
    ann.until(running, "running")
    machine.kill_arbiter()
    waiting = bob.submit("--gpus", "1", *SMALL, RESEARCH, "--", "sleep", "600")
    said = bob("why", waiting).stdout
    assert "nothing new starts until it is back" in said
    assert "daemon restart --alone" in said
    assert ann.state(running) == "running"

    # It is told what runs, so it gives none of it to anybody else.
    keeper("daemon", "share")
    key = f"{ann.name}/{running}"
    expected = {key: "running", f"{bob.name}/{waiting}": "queued"}
    eventually(lambda: everybody(bob) == expected, lambda: str(everybody(bob)), wait=0.1)
    assert ann.state(running) == "running"
    ann("stop", running, "--grace", "0")
    bob.until(waiting, "running")


def test_daemons_find_an_arbiter_that_comes_and_do_without_one_that_leaves(machine: Machine):
    ann, keeper = machine.ann, machine.keeper
    before = ann.submit("--gpus", "1", *SMALL, RESEARCH, "--", "sleep", "600")
    ann.until(before, "running")
    assert "there is no arbiter" in ann("ps", "--all-users", code=64).stderr
    keeper("daemon", "share")
    key = f"{ann.name}/{before}"
    eventually(lambda: everybody(keeper) == {key: "running"}, "it is not told of what runs", 0.1)
    assert f"run by {keeper.name} decides" in ann("daemon", "status").stdout
    assert "only who shares" in ann("daemon", "unshare", code=64).stderr
    assert "root's to do" in ann("daemon", "install", code=64).stderr
    keeper("daemon", "unshare")
    eventually(lambda: "arbiter" not in ann("daemon", "status").stdout, "it waits on", 0.1)
    assert ann.state(before) == "running"


def test_a_gpu_somebody_uses_without_asking_is_shown_and_not_handed_out(machine: Machine):
    ann, bob = machine.ann, machine.bob
    process = subprocess.Popen(["sleep", "600"], user=bob.uid)
    try:
        (machine.folder / "processes.json").write_text(json.dumps({"FAKE-0": [process.pid]}))
        machine.keeper("daemon", "share")
        words = f"process {process.pid} (sleep) of {bob.name}, outside Dromon"
        assert gpus(ann) == [words, ""]
        waiting = ann.submit("--gpus", "2", *SMALL, RESEARCH, "--", "sleep", "600")
        assert words in ann("why", waiting).stdout
    finally:
        process.kill()
        process.wait()
    ann.until(waiting, "running")


# ---- those who mean ill -------------------------------------------------------------------------

SAY = """
import socket, sys
for words in sys.stdin:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(sys.argv[1])
        try:
            sock.sendall(bytes.fromhex(words))
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
        except OSError:
            pass
"""


def hello(user: User, home: str = "/h") -> bytes:
    return pack({
        "op": "hello", "version": __version__, "home": home, "door": "/x",
        "gpus": ["FAKE-0", "FAKE-1"],
    })  # fmt: skip


def job(id: str, **more: object) -> bytes:
    role = {"role": "worker", "replicas": 1, "min": 1, **more}
    told = {"id": id, "seq": 1, "time": 0.0, "ask": [role], "user": "root", "queue": "research"}
    return pack({"op": "job", "job": told})


def test_nobody_speaks_for_another_and_nonsense_hurts_nobody(machine: Machine):
    ann, bob = machine.ann, machine.bob
    machine.keeper("daemon", "share")
    id = ann.submit("--gpus", "1", *SMALL, RESEARCH, "--", "sleep", "600")
    ann.until(id, "running")
    arbiter, home = machine.arbiter(), str(ann.home / ".local/state/dromon")
    mine = hello(bob, home)
    told = pack({"op": "told"})
    attacks = [
        mine + told,  # with her daemon's name, and no jobs
        mine + pack({"op": "ended", "id": id}) + told,
        mine + pack({"op": "released", "id": f"../{ann.name}/{id}"}),
        mine + pack({"op": "ended", "id": f"x/../../{ann.name}/{id}"}),
        mine + job(f"../{ann.name}/{id}"),
        mine + job("many", replicas=10**9),
        mine + job("less", cpus=-5.0),
        mine + job("odd", cpus=1e999),
        mine + job("names", role=["x"]),
        pack({"op": "stop", "id": f"{ann.name}/{id}", "grace": 0}),
        pack({"op": "leave"}),
        pack({"op": "drain", "drain": True}),
        pack({"op": "__init__"}),
        pack({"op": ["x"]}),
        pack({"op": "hello"}),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 1 << 30),
        struct.pack(">I", 200_000) + b'{"a":' + b"[" * 199_995,
    ]
    said = "\n".join(attack.hex() for attack in attacks)
    done = bob.run(bob.python, "-c", SAY, str(machine.place / "arbiter.sock"), input=said)
    assert done.returncode == 0, done.stderr
    assert machine.arbiter() == arbiter
    assert is_alive(arbiter)
    assert ann.state(id) == "running"
    left = everybody(ann)
    assert left.pop(f"{ann.name}/{id}") == "running"
    assert all(key.startswith(f"{bob.name}/") for key in left), left


def test_many_connections_of_one_user_leave_room_for_the_others(machine: Machine):
    ann, bob = machine.ann, machine.bob
    machine.keeper("daemon", "share")
    hold = (
        "import socket, sys, time\n"
        "kept = []\n"
        "for n in range(300):\n"
        "    s = socket.socket(socket.AF_UNIX)\n"
        "    try:\n"
        "        s.connect(sys.argv[1]); s.sendall(b'\\0\\0'); kept.append(s)\n"
        "    except OSError:\n"
        "        pass\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [bob.python, "-c", hold, str(machine.place / "arbiter.sock")], user=bob.uid,
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            assert ann("run", *SMALL, RESEARCH, "--", "echo", "served").stdout == "served\n"
        finally:
            process.kill()


def test_a_place_that_others_can_change_is_not_believed(machine: Machine):
    """Whoever could put a socket there could decide for everybody."""
    machine.place.mkdir()
    machine.place.chmod(0o777)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(machine.place / "arbiter.sock"))
        sock.listen()
        (machine.place / "arbiter.sock").chmod(0o666)
        machine.ann("run", *SMALL, RESEARCH, "--", "true")
        assert "arbiter" not in machine.ann("daemon", "status").stdout
        machine.place.chmod(0o755)  # root's now, but who serves there is not root
        os.chown(machine.place, machine.bob.uid, -1)
        machine.ann("daemon", "stop")
        id = machine.ann.submit(*SMALL, RESEARCH, "--", "true")
        assert "is served by another user" in machine.ann("why", id).stdout
