"""The parts of the test bed that need no cluster: what it plans, writes and refuses."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from testbeds import cache
from testbeds.kubernetes import commands, images, plan, users
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import Options
from testbeds.kubernetes.programs import Programs

from dromon.errors import UsageError

ROOT = Path(__file__).parents[3]
TOOLS = Programs(Path("/made/kubernetes"), Path("/made/containers"))


def planned(**options: object) -> plan.Plan:
    return plan.make("/bed", Options(**options), lambda block: True)  # type: ignore[arg-type]


def command(*words: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "testbeds.kubernetes", "--dir", str(directory), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_directory_gets_the_same_network_unless_it_is_taken() -> None:
    made = planned()
    assert planned() == made
    other = plan.make("/bed", Options(), lambda block: block != made.block)
    assert other.block != made.block
    assert other.network != made.network
    assert other.name != made.name


def test_a_plan_comes_back_from_its_json() -> None:
    made = planned(expiry=7, fake_nodes=3, queues={"a": {"weight": 2}})
    assert plan.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_components_are_those_of_the_options() -> None:
    assert "kwok" not in planned().components
    assert "kwok" in planned(fake_nodes=1).components
    plain = planned(volcano=False, nodes=3).components
    assert not any(name.startswith("volcano") for name in plain)
    assert plain[-6:] == ["containerd1", "containerd2", "containerd3", "node1", "node2", "node3"]


def test_every_component_has_a_command_of_its_own() -> None:
    made = planned(fake_nodes=1)
    every = {name: commands.command(made, TOOLS, name) for name in made.components}
    assert len({tuple(words) for words in every.values()}) == len(every)
    assert every["apiserver"][:2] == ["/made/kubernetes/cluster", "apiserver"]
    assert every["containerd2"][0] == "/made/containers/bin/containerd"


def test_pods_of_two_nodes_have_addresses_apart_and_within_the_bed() -> None:
    made = planned()
    written = commands.files(made, TOOLS, "overlayfs")
    subnets = [
        json.loads(written[f"cni{n}/pods.conflist"])["plugins"][0]["ipam"]["ranges"][0][0]["subnet"]
        for n in made.numbers
    ]
    assert len(set(subnets)) == len(made.nodes)
    assert all(subnet.startswith(f"10.{made.block}.") for subnet in subnets)


def test_a_short_expiry_makes_nodes_report_more_often() -> None:
    made = planned(expiry=8, fake_nodes=1)
    written = commands.files(made, TOOLS, "overlayfs")
    assert json.loads(written["node1.json"])["nodeLeaseDurationSeconds"] == 8
    assert "--node-monitor-grace-period=8s" in commands.command(made, TOOLS, "controller-manager")
    assert "--node-lease-duration-seconds=8" in commands.command(made, TOOLS, "kwok")


def test_only_alice_is_bound_and_bob_comes_by_token() -> None:
    bound = [made for made in users.objects().values() if "subjects" in made]
    assert {subject["name"] for made in bound for subject in made["subjects"]} == {"alice"}
    files = {name: json.loads(text) for name, text in users.kubeconfigs(planned()).items()}
    assert list(files["bob.kubeconfig"]["users"][0]["user"]) == ["token"]
    assert "client-certificate" in files["kubeconfig"]["users"][0]["user"]


def test_an_image_names_its_layers_by_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("text")
    layer = images.pack(tmp_path / "folder", tmp_path, at="/opt/ours")
    with tarfile.open(layer.path) as tar:
        assert tar.getnames() == ["opt/ours/file"]
        assert tar.getmember("opt/ours/file").uid == 0
    images.write(tmp_path / "image.tar", "dromon.test/x:1", [layer, layer], ["/bin/sh"])
    with tarfile.open(tmp_path / "image.tar") as tar:
        content = {
            member.name: file.read()
            for member in tar.getmembers()
            if (file := tar.extractfile(member)) is not None
        }
    blobs = {k.rpartition("/")[2]: v for k, v in content.items() if k.startswith("blobs/")}
    assert all(hashlib.sha256(blob).hexdigest() == digest for digest, blob in blobs.items())
    (entry,) = json.loads(content["index.json"])["manifests"]
    manifest = json.loads(blobs[entry["digest"].removeprefix("sha256:")])
    assert [one["digest"] for one in manifest["layers"]] == [f"sha256:{layer.digest}"] * 2
    assert layer.digest in blobs


def test_an_entry_of_the_cache_is_made_once_and_not_by_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DROMON_CACHE", str(tmp_path))
    made = []

    def make(scratch: Path) -> Path:
        made.append(scratch)
        (scratch / "entry").mkdir()
        (scratch / "entry" / "file").write_text("whole")
        return scratch / "entry"

    def fail(scratch: Path) -> Path:
        (scratch / "entry").mkdir()
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        cache.made("thing", fail)
    assert not (cache.folder() / "thing").exists()
    threads = [threading.Thread(target=cache.made, args=("thing", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert (cache.folder() / "thing" / "file").read_text() == "whole"
    assert [e for e in os.listdir(cache.folder()) if e.startswith(".making")] == []


@pytest.mark.parametrize("directory", ["/tmp/with space", "/var/lib/bed", "/tmp/a:b"])
def test_directories_that_components_cannot_live_in_are_refused(directory: str) -> None:
    with pytest.raises(UsageError):
        Bed(directory)


def test_without_a_bed_commands_say_so_and_down_is_content(tmp_path: Path) -> None:
    for words in (["status"], ["logs", "etcd"], ["kill", "etcd"], ["start", "etcd"]):
        done = command(*words, directory=tmp_path / "none")
        assert done.returncode == UsageError.exit_code, done.stderr
        assert "There is no test bed" in done.stderr
        assert "Traceback" not in done.stderr
    assert command("down", directory=tmp_path / "none").returncode == 0


def test_a_directory_with_other_files_is_left_alone(
    tmp_path: Path, lacking: Callable[[str], NoReturn]
) -> None:
    if os.geteuid():
        lacking("a bed is root's")
    (tmp_path / "mine").write_text("mine")
    done = command("up", directory=tmp_path)
    assert done.returncode == UsageError.exit_code
    assert "neither empty nor a test bed" in done.stderr
    assert os.listdir(tmp_path) == ["mine"]


def test_impossible_numbers_are_refused(tmp_path: Path) -> None:
    for words in (["--nodes", "0"], ["--nodes", "10"], ["--expiry", "0"]):
        done = command("up", *words, directory=tmp_path / "bed")
        assert done.returncode == UsageError.exit_code, done.stderr
        assert "Traceback" not in done.stderr
