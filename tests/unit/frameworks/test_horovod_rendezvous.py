"""Rank 0 of a Horovod job serves the key-value store in which ranks find each other."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from dromon import frameworks
from dromon.frameworks.world import Member, World

# What a rank does: say where it is, wait until all have said so, and take leave.
RANK = """
import os, sys, time, urllib.error, urllib.request
e = {k[8:]: v for k, v in os.environ.items() if k.startswith("HOROVOD_")}
base = f"http://{e['GLOO_RENDEZVOUS_ADDR']}:{e['GLOO_RENDEZVOUS_PORT']}/global/"
def ask(method, key, data=None):
    request = urllib.request.Request(base + key, data, method=method)
    while True:
        try:
            return urllib.request.urlopen(request).read().decode()
        except urllib.error.HTTPError as error:
            assert error.code == 404, error
        except urllib.error.URLError:
            pass  # not served yet
        time.sleep(0.02)
ask("PUT", e["RANK"], b"rank " + e["RANK"].encode())
said = [ask("GET", str(n)) for n in range(int(e["SIZE"]))]
ask("PUT", "seen" + e["RANK"], b"")
[ask("GET", f"seen{n}") for n in range(int(e["SIZE"]))] if e["RANK"] == "0" else None
ask("DELETE", e["RANK"]) if e["RANK"] == "0" else None
print(*said, sep=", ")
sys.exit(int(e["RANK"]) * 3)
"""


def test_ranks_meet_at_rank_zero_and_the_command_decides_the_exit(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = World(
        "hvd-abc234", 1, "horovod",
        (Member("worker", 0, 0, "127.0.0.1", (port,)), Member("worker", 1, 1, "127.0.0.1", (1,))),
    )  # fmt: skip
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    ranks = []
    for member in world.members:
        for name, content in frameworks.files(world, member).items():
            (tmp_path / name).write_text(content)
        words = frameworks.command(world, member, 0, ["python", "-c", RANK], str(tmp_path))
        env = {"PATH": path, **frameworks.environment(world, member)}
        ranks.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True))
    try:
        said = [rank.communicate(timeout=30)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert said == ["rank 0, rank 1\n"] * 2
    assert [rank.returncode for rank in ranks] == [0, 3]


def test_only_the_first_process_of_rank_zero_serves() -> None:
    members = tuple(Member("worker", n, n, "127.0.0.1", (1,), processes=2) for n in range(2))
    world = World("hvd-abc234", 1, "horovod", members)
    changed = [
        (m.rank, p)
        for m in members
        for p in range(2)
        if frameworks.command(world, m, p, "python train.py", "/dir") != "python train.py"
    ]
    assert changed == [(0, 0)]
    assert [set(frameworks.files(world, m)) for m in members] == [{"rendezvous"}, set()]
