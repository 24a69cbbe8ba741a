"""What a run's member sees, and what becomes of what it prints."""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

# ---- what the member sees -----------------------------------------------------------------------


def test_member_sees_its_variables_its_directory_and_no_input(stage):
    Path(stage.record.config).write_text("{}")
    source = (
        "import json, os, sys\n"
        "print(json.dumps([dict(os.environ), os.getcwd(), sys.stdin.read(), "
        "os.getpid() == os.getsid(0), sorted(os.listdir('/proc/self/fd'))]))\n"
    )
    plan = stage.python(source, run=1, attempt=4, grace=7.5, env={"MINE": "1"})
    assert stage.play(plan)["code"] == 0
    variables, directory, typed, leads, fds = json.loads(stage.log()[0][1])
    assert directory == variables["PWD"] == str(stage.work)
    assert typed == ""
    assert leads
    assert fds == ["0", "1", "2", "3"]  # the fourth lists them
    assert variables["MINE"] == "1"
    assert variables["PYTHONUNBUFFERED"] == "1"
    assert variables["DROMON_MEMBER"] == f"job-{os.getpid()}/worker-0/1"
    ours = {k[7:]: v for k, v in variables.items() if k.startswith("DROMON_")}
    del ours["MEMBER"]
    assert ours == {
        "JOB_ID": f"job-{os.getpid()}", "ROLE": "worker", "INDEX": "0", "RANK": "0",
        "WORLD_SIZE": "1", "ATTEMPT": "4", "RUN": "1", "GRACE": "7.5",
        "CONFIG": stage.record.config, "PROCESS": "0", "PROCESSES": "1",
        "CHECKPOINT_DIR": stage.record.checkpoints, "MEMBER_DIR": str(stage.directory()),
    }  # fmt: skip


def test_ignored_signals_do_not_reach_the_member(stage):
    source = (
        "import signal\n"
        "status = open('/proc/self/status').read()\n"
        "print(*(l.split()[1] for l in status.splitlines() if l[:6] in ('SigIgn', 'SigBlk')))\n"
    )
    stage.play(stage.plan([sys.executable, "-S", "-c", source]))
    python_itself = (1 << (signal.SIGPIPE - 1)) | (1 << (signal.SIGXFSZ - 1))
    blocked, ignored = (int(bits, 16) for bits in stage.log()[0][1].decode().split())
    threads = 3 << 31  # the C library's own two, which posix_spawn leaves ignored
    assert (blocked, ignored & ~threads) == (0, python_itself)


def test_secrets_reach_the_member_but_not_its_log(stage):
    secrets = stage.work / "secrets.json"
    secrets.write_text(json.dumps({"TOKEN": "canary-1234"}))
    source = (
        "import os, sys, time\n"
        "t = os.environ['TOKEN']\n"
        "print(len(t), t)\n"
        "sys.stdout.write(t[:5]); sys.stdout.flush(); time.sleep(0.15); print(t[5:])\n"
        "raise ValueError(t)\n"
    )
    exit = stage.play(stage.python(source, secrets=str(secrets)))
    assert (b"11 ***") in [text for _, text in stage.log()]
    assert exit["message"] == "ValueError: ***"
    for path in stage.directory().iterdir():
        assert b"canary-1234" not in path.read_bytes(), path


def test_kept_descriptors_are_open_in_the_member_and_closed_afterwards(stage, tmp_path):
    source, target = os.pipe()
    coordinator = stage.coordinator()
    stage.launch(
        stage.python("import os, time\nprint('up', flush=True)\ntime.sleep(0.2)"), [target]
    )
    os.close(target)
    coordinator.wait_for("started")
    fds = os.listdir(f"/proc/{coordinator.said('started')[0]['pid']}/fd")
    assert len(fds) >= 4
    assert os.read(source, 1) == b""  # the end comes only when nobody holds it any more
    assert stage.exit()["code"] == 0
    os.close(source)


def test_framework_gives_variables_files_and_the_command(stage):
    stage.coordinator(framework="mpi")
    (stage.work / "mpirun").write_text(
        "#!/bin/sh\necho $0 $*; cat $OMPI_MCA_orte_default_hostfile\n"
    )
    (stage.work / "mpirun").chmod(0o755)
    path = f"{stage.work}:{os.environ['PATH']}"
    exit = stage.play(stage.plan(["train"], framework="mpi", env={"PATH": path}))
    assert exit["code"] == 0
    assert [text for _, text in stage.log()] == [
        f"{stage.work}/mpirun -n 1 train".encode(), b"worker-0 slots=1",
    ]  # fmt: skip
    programs = Path(stage.record.world(1))
    assert os.access(programs / "rsh", os.X_OK)
    assert not list(programs.glob("*.[0-9]*"))


def test_plain_words_and_shell_words_give_the_same(stage):
    assert stage.play(stage.plan("printf a-%s b"))["code"] == 0
    assert stage.play(stage.plan(f"{sys.executable} -c pass", run=2))["code"] == 0
    assert stage.log(1) == [("out", b"a-b")]


def test_files_of_a_cgroup_that_is_not_there_are_not_taken_for_the_program(stage):
    exit = stage.play(stage.plan(["true"], cgroups=(str(stage.work / "no-cgroup"),)))
    assert exit["cause"] == "internal"
    assert "cgroup" in exit["message"]


def test_member_joins_its_cgroup_before_it_starts(stage):
    cgroup = stage.work / "cgroup"
    cgroup.mkdir()
    (cgroup / "cgroup.procs").write_text("")
    (cgroup / "memory.events").write_text("oom_kill 0\n")
    exit = stage.play(
        stage.plan("cat cgroup/cgroup.procs; echo; kill -9 $$", cgroups=(str(cgroup),))
    )
    assert stage.log()[0] == ("out", b"0")
    assert exit["cause"] == "user_error"


def test_kernels_out_of_memory_kill_is_recognised_by_the_cgroup(stage):
    cgroup = stage.work / "cgroup"
    cgroup.mkdir()
    (cgroup / "cgroup.procs").write_text("")
    (cgroup / "memory.events").write_text("oom 0\noom_kill 0\n")
    command = "echo 'oom_kill 1' > cgroup/memory.events; kill -9 $$"
    exit = stage.play(stage.plan(command, cgroups=(str(cgroup),)))
    assert exit["cause"] == "out_of_memory"


# ---- output -------------------------------------------------------------------------------------


def test_two_hundred_megabytes_are_kept_to_the_last_byte(stage):
    source = (
        "import os\n"
        "block = b''.join(b'%07d %s\\n' % (n, b'x' * 71) for n in range(10000))\n"
        "for _ in range(250): os.write(1, block)\n"
    )
    exit = stage.play(stage.python(source))
    assert exit["code"] == 0
    assert exit["dropped_lines"] == 0
    assert os.path.getsize(stage.record.log("worker-0", 1)) == 200_000_000
    assert exit["last_lines"][-1].startswith("0009999 x")


def test_bytes_that_are_no_text_are_kept_as_they_are(stage):
    exit = stage.play(stage.python("import os; os.write(1, b'\\xff\\xfe\\n\\x00ok')"))
    assert stage.log() == [("out", b"\xff\xfe"), ("out", b"\x00ok")]
    assert exit["last_lines"][1] == "\x00ok"


def test_closed_output_does_not_disturb(stage):
    source = "import os, time\nos.close(1); os.close(2); time.sleep(0.1); os._exit(5)"
    assert stage.play(stage.python(source))["code"] == 5


def test_prompt_without_newline_is_in_the_log_while_the_member_runs(stage):
    stage.coordinator()
    source = "import sys, time\nsys.stdout.write('50%\\r'); sys.stdout.flush()\ntime.sleep(60)"
    stage.launch(stage.python(source))
    stage.wait_for_line(b"50%\r")


def test_many_small_lines_come_through_in_order(stage):
    source = "import os\nfor n in range(20000): os.write(1, b'%d\\n' % n)"
    stage.play(stage.python(source))
    assert [text for _, text in stage.log()] == [b"%d" % n for n in range(20000)]


def test_stranger_holding_the_pipe_does_not_hold_up_the_end(stage):
    path = str(stage.work / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    source = (
        "import array, socket\n"
        f"s = socket.socket(socket.AF_UNIX); s.connect({path!r})\n"
        "s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])\n"
    )
    stage.coordinator()
    stage.launch(stage.python(source))
    connection, _ = listener.accept()
    _, fds, _, _ = socket.recv_fds(connection, 1, 1)
    assert stage.exit()["code"] == 0
    os.close(fds[0])
    connection.close()
    listener.close()


def test_disk_that_stands_still_never_holds_up_the_member(stage):
    """The log is a pipe that nobody empties: the writer stalls with the first megabyte."""
    stage.directory().mkdir(parents=True)
    os.mkfifo(stage.directory() / "log")
    reader = os.open(stage.directory() / "log", os.O_RDONLY | os.O_NONBLOCK)
    source = (
        "import os\nblock = (b'x' * 79 + b'\\n') * 1000\n"
        "for _ in range(100): os.write(1, block)\n"
        "open('finished', 'w').close()\n"
    )
    stage.coordinator()
    stage.launch(stage.python(source, buffer=1_000_000))
    end = time.monotonic() + 30
    while not (stage.work / "finished").exists():  # all was printed though nothing was written
        assert time.monotonic() < end
        time.sleep(0.005)
    kept = 0
    os.set_blocking(reader, True)
    while data := os.read(reader, 1 << 20):
        kept += data.count(b"x\n")
    os.close(reader)
    exit = stage.exit()
    assert exit["code"] == 0
    assert exit["dropped_lines"] > 0
    assert kept + exit["dropped_lines"] == 100_000
    assert "lines of its output were dropped: the disk was too slow" in exit["message"]


def test_full_disk_never_ends_the_member(stage):
    """The log's place is taken by a directory: every write of it fails."""
    stage.directory().mkdir(parents=True)
    (stage.directory() / "log").mkdir()
    exit = stage.play(stage.plan("for i in 1 2 3; do echo $i; done; exit 0"))
    assert exit["code"] == 0
    assert exit["dropped_lines"] == 3
    assert "3 lines of its output were dropped: Is a directory" in exit["message"]
