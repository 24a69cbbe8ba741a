"""Environments on real nodes: unpacked once by the NodeManager, run without a Python of theirs."""

import getpass
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yarnjobs as jobs
from testbeds.yarn import ready
from testbeds.yarn.bed import Bed

from dromon.engines.yarn.engine import YarnEngine
from dromon.errors import EnvironmentFailed
from dromon.packaging.archive import Archive, environment_archive

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PROGRAM = """
import json, multiprocessing, os, ssl, sqlite3, subprocess, sys
import numpy
own = "import json, sys; print(json.dumps(sys.prefix))"
home = os.stat(sys.prefix)
def mapped():
    with open("/proc/self/maps") as file:
        return sorted({line.split()[-1] for line in file if ".so" in line})
print(json.dumps({
    "prefix": sys.prefix, "executable": sys.executable, "real": os.path.realpath(sys.prefix),
    "sum": int(numpy.arange(7).sum()), "numpy": numpy.__file__,
    "child": json.loads(subprocess.check_output([sys.executable, "-c", own])),
    "inode": [home.st_dev, home.st_ino], "pwd": os.getcwd(), "path": os.environ.get("PATH"),
    "host": os.environ["NM_HOST"] + ":" + os.environ["NM_PORT"],
    "cached": numpy.__spec__.cached, "has_bytecode": os.path.exists(numpy.__spec__.cached),
    "libraries": mapped(),
}))
"""

# A program of somebody's own environment, as pip installs it, and the command that starts it.
GREETING = """
import json, os, sys
from dromon.hadoop import addresses, credentials, token
from dromon.hadoop.messages.namenode import NAME_NODE
from dromon.hadoop.transport import RpcClient, RpcFailed

def main():
    folders = os.environ["PATH"].split(":")
    found = [os.path.join(f, n) for f in folders for n in os.listdir(f) if n.startswith("python")]
    with open(os.environ["HADOOP_TOKEN_FILE_LOCATION"], "rb") as file:
        given = credentials.load(file.read())
    (own,) = given.of_kind(token.HDFS_DELEGATION)
    # Only its renewer may: whoever is told so was let in by the token, and for its owner.
    try:
        node = RpcClient(NAME_NODE, [addresses.parse(own.service, 0)], own, what="NameNode")
        node.call("renewDelegationToken", {"token": own.to_message()})
    except RpcFailed as refusal:
        words = refusal.text
    print(json.dumps({
        "prefix": sys.prefix, "executable": sys.executable, "pythons": found, "pwd": os.getcwd(),
        "kinds": sorted(each.kind for each in given.tokens.values()),
        "words": words, "argument": sys.argv[1], "rank": os.environ["DROMON_RANK"],
    }), flush=True)
"""
START = """#!{python}
import sys
from greeting import main
sys.exit(main())
"""


def manager(bed: Bed, path: str) -> str:
    user = getpass.getuser()
    return f"{bed.plan.web('resourcemanager')}/ws/v1/cluster/{path}?user.name={user}"


def post(url: str, body: dict[str, Any] | None) -> dict[str, Any]:
    data = json.dumps(body or {}).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def upload(bed: Bed, file: str, path: str) -> dict[str, Any]:
    """Puts a file into HDFS and says how a node finds it."""
    base = f"{bed.plan.web('namenode')}/webhdfs/v1{path}?user.name={getpass.getuser()}&op="
    create = urllib.request.Request(
        base + "CREATE&overwrite=true&noredirect=true&permission=644", method="PUT"
    )
    with urllib.request.urlopen(create, timeout=60) as answer:
        where = json.loads(answer.read())["Location"]
    data = Path(file).read_bytes()
    with urllib.request.urlopen(urllib.request.Request(where, data=data, method="PUT")):
        pass
    status = ready.get(base + "GETFILESTATUS")["FileStatus"]
    return {
        "resource": f"hdfs://{bed.plan.address('namenode', 'rpc')}{path}",
        "type": "ARCHIVE",
        "visibility": "PRIVATE",
        "size": status["length"],
        "timestamp": status["modificationTime"],
    }


def run(bed: Bed, archive: dict[str, Any], target: Path) -> dict[str, Any]:
    """An application whose only container runs PROGRAM with an empty PATH; what it printed."""
    id = post(manager(bed, "apps/new-application"), None)["application-id"]
    program = target.with_suffix(".py")
    program.write_text(PROGRAM)
    command = f"PATH=; export PATH; ./environment/bin/python {program} >{target} 2>{target}.err"
    post(
        manager(bed, "apps"),
        {
            "application-id": id,
            "application-name": "environment",
            "application-type": "TEST",
            "max-app-attempts": 1,
            "resource": {"memory": 512, "vCores": 1},
            "am-container-spec": {
                "commands": {"command": command},
                "local-resources": {"entry": [{"key": "environment", "value": archive}]},
            },
        },
    )

    def ended() -> bool:
        app = ready.get(f"{bed.plan.web('resourcemanager')}/ws/v1/cluster/apps/{id}")["app"]
        return app["state"] in ("FAILED", "FINISHED", "KILLED")

    # It never registers as a master, so YARN calls it failed; what it printed is what counts.
    assert eventually(ended)
    errors = Path(f"{target}.err")
    said = errors.read_text() if errors.exists() else "it did not start"
    if not target.exists() or not target.read_text():
        app = ready.get(f"{bed.plan.web('resourcemanager')}/ws/v1/cluster/apps/{id}")["app"]
        pytest.fail(f"{said}\n{app['diagnostics']}")
    found: dict[str, Any] = json.loads(target.read_text())
    return found


def eventually(claim: Callable[[], bool], seconds: float = jobs.PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.3)
    return True


@pytest.fixture(scope="module")
def numpy(tmp_path_factory: pytest.TempPathFactory, registry: Callable[[str], None]) -> Archive:
    work = str(tmp_path_factory.mktemp("work"))
    asked = {
        "kind": "uv", "request": {"packages": ["numpy"]}, "base": work,
        "python_hint": sys.executable,
    }  # fmt: skip
    try:
        return environment_archive(asked, str(tmp_path_factory.mktemp("cache")))
    except EnvironmentFailed as failure:
        registry(failure.message)
        raise


def test_a_node_without_python_runs_the_environment_and_unpacks_it_once(
    bed: Bed, numpy: Archive, tmp_path: Path
) -> None:
    archive = upload(bed, numpy.path, f"/tmp/{numpy.digest}.tar.gz")
    runs: dict[str, list[dict[str, Any]]] = {}
    # There are two nodes, so among three runs one node is met twice.
    for number in range(3):
        found = run(bed, archive, tmp_path / f"run{number}")
        assert found["path"] == ""
        assert found["sum"] == 21
        assert found["prefix"] == found["child"] == f"{found['pwd']}/environment"
        assert found["executable"].startswith(f"{found['prefix']}/bin/")
        assert found["numpy"].startswith(found["prefix"])
        assert found["has_bytecode"]
        outside = {
            Path(library).name.split(".so")[0]
            for library in found["libraries"]
            if not library.startswith(found["real"])
        }
        # The C library and the compilers' own are what packages of binaries expect of a node.
        assert outside <= {
            "libc", "libm", "libdl", "libpthread", "librt", "libutil", "ld-linux-x86-64",
            "libstdc++", "libgcc_s", "libresolv",
        }  # fmt: skip
        runs.setdefault(found["host"], []).append(found)
    again = next(found for found in runs.values() if len(found) > 1)
    assert len({tuple(found["inode"]) for found in again}) == 1
    assert len({found["real"] for found in again}) == 1
    assert len({found["pwd"] for found in again}) == len(again)


# ---- jobs ---------------------------------------------------------------------------------------


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dromon-", dir="/tmp") as path:
        yield Path(path)


def said(engine: YarnEngine, ref: str) -> list[Any]:
    status = jobs.ended(engine, ref)
    assert status.state == "succeeded", jobs.told(engine, ref)
    return [json.loads(text) for text in jobs.texts(engine, ref)]


def test_master_and_members_bring_their_python_commands_and_tokens(
    bare: Bed, home: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "own", with_pip=False)
    python = tmp_path / "own" / "bin" / "python"
    packages = next((tmp_path / "own" / "lib").glob("python*/site-packages"))
    (packages / "greeting.py").write_text(GREETING)
    (tmp_path / "own" / "bin" / "greet").write_text(START.format(python=python))
    (tmp_path / "own" / "bin" / "greet").chmod(0o755)
    (packages / "greeting-1.dist-info").mkdir()
    (packages / "greeting-1.dist-info" / "METADATA").write_text("Name: greeting\nVersion: 1\n")
    record = "greeting.py,,\n../../../bin/greet,,\ngreeting-1.dist-info/METADATA,,\n"
    (packages / "greeting-1.dist-info" / "RECORD").write_text(record)
    engine = jobs.engine(bare, home)
    asked = jobs.request(replicas=2, command=["greet", "twice"])
    asked["data"]["yarn"].pop("python")
    found = said(engine, jobs.start(engine, {**asked, "python": str(python)}))
    shutil.rmtree(tmp_path / "own")
    assert sorted(each["rank"] for each in found) == ["0", "1"]
    for each in found:
        assert each["prefix"].endswith("/environment")
        assert each["executable"].startswith(f"{each['prefix']}/bin/")
        assert each["pythons"]
        assert all(python.startswith(f"{each['prefix']}/bin/") for python in each["pythons"])
        # The master's own token is not for members.
        assert each["kinds"] == ["HDFS_DELEGATION_TOKEN"]
        assert f"{getpass.getuser()} tries to renew a token" in each["words"]
        assert each["argument"] == "twice"
    engine.close()


def oldest_python() -> str:
    own = "import sys; print(sys.executable)"
    for python in ("python3.9", "/usr/bin/python3"):
        try:
            return subprocess.check_output([python, "-c", own], text=True).strip()
        except (OSError, subprocess.CalledProcessError):
            continue
    return sys.executable


def test_python_of_the_nodes_serves_master_and_members(bed: Bed, home: Path) -> None:
    """The oldest there is; it need not be the client's."""
    old = oldest_python()
    engine = jobs.engine(bed, home)
    script = """
        import dromon
        say(json.dumps({"version": sys.version_info[:2], "path": sys.executable,
                        "rank": dromon.context().rank}))
    """
    asked = jobs.request(script, replicas=2, yarn={"python": old})
    asked["data"]["command"][:2] = ["python"]
    uploaded = engine.staging.uploaded
    found = said(engine, jobs.start(engine, asked))
    assert sorted(each["rank"] for each in found) == [0, 1]
    assert {each["path"] for each in found} == {old}
    assert engine.staging.uploaded - uploaded < 2**21  # no interpreter is among it
    engine.close()


def test_tokens_of_every_listed_name_node_reach_the_members(
    bed: Bed, bare: Bed, home: Path
) -> None:
    """The cluster's own name node issues none here, the other one does."""
    script = """
        sys.path.insert(0, os.environ["PYTHONPATH"])
        from dromon.hadoop import credentials
        with open(os.environ["HADOOP_TOKEN_FILE_LOCATION"], "rb") as file:
            given = credentials.load(file.read())
        say(json.dumps([each.service for each in given.tokens.values()]))
    """
    engine = jobs.engine(bed, home)
    there = bare.plan.address("namenode", "rpc")
    found = said(engine, jobs.run(engine, script, replicas=2, hdfs=[f"hdfs://{there}"]))
    assert found == [[there], [there]]
    engine.close()
