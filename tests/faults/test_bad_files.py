"""Files nobody should be given: each is answered by one message, a hint and a code; no traceback,
no job, and the daemon goes on."""

import os
from pathlib import Path

import pytest
from bench import CLI, Bench

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


def refusal(bench: Bench, *words: str, code: int) -> str:
    """What was said; it is told in the same words by `check`, and nothing was accepted."""
    said = bench("run", *words, code=code).stderr
    assert "hint: " in said, said
    assert bench("ps", "-a", "-o", "json").stdout.strip() == "[]"
    return said


def test_a_yaml_bomb_is_refused(bench: Bench):
    bench.write("job.yaml", f"{BOMB}command: echo ${{config}}\nconfig: *a11\n")
    said = refusal(bench, "job.yaml", code=64)
    assert "job.yaml:" in said
    assert len(said) < 2000, "a bomb is not printed"
    bench("check", "job.yaml", code=64)


def test_a_file_of_100_mb_is_refused_unread(bench: Bench):
    with open(bench.write("job.yaml", "command: echo 1\n"), "r+b") as file:
        file.truncate(100 << 20)
    said = refusal(bench, "job.yaml", code=64)
    assert "job.yaml has 104,857,600 bytes; a job file has at most 1,048,576" in said
    bench("check", "job.yaml", code=64)


def test_a_binary_is_no_job_file(bench: Bench):
    for data in (b"\x7fELF\x02\x01\x01" + bytes(range(256)), b"a: \0\n", b"\xff"):
        bench.write("job.yaml", data)
        assert "job.yaml:" in refusal(bench, "job.yaml", code=64)
    bench("check", "job.yaml", code=64)


def test_unknown_keys_and_wrong_types_are_all_told_with_their_places(bench: Bench):
    bench.write(
        "job.yaml",
        "command: [1, {a: b}]\nresorces: {cpus: lots}\nreplicas: -2\nresources: {memory: 4 apples}"
        "\nmax_duration: tomorrow\nenvironment: {python: 3.10}\n",
    )
    said = refusal(bench, "job.yaml", code=64)
    for place, words in (
        ("job.yaml:2:1: resorces", "did you mean resources?"),
        ("job.yaml:3:", "replicas"),
        ("job.yaml:4:", "memory"),
        ("job.yaml:1:", "command"),
        ("job.yaml:5:", "max_duration"),
        ("job.yaml:6:", "python"),
    ):
        assert any(place in line and words in line for line in said.splitlines()), (place, said)


def test_a_missing_script_is_told_before_anything_waits(bench: Bench):
    bench.write("train.py", "print(1)\n")
    assert "Did you mean train.py?" in refusal(bench, "trian.py", code=64)
    bench.write("job.yaml", "command: python trian.py --lr 3\n")
    said = refusal(bench, "job.yaml", code=65)
    assert "there is no trian.py" in said
    assert "Did you mean train.py?" in said


def test_a_missing_package_is_the_jobs_verdict_in_uvs_words(bench: Bench, tmp_path: Path):
    """Without an index at hand: what uv says of an unknown package is the same."""
    (tmp_path / "wheels").mkdir()
    offline = {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(tmp_path / "wheels"), "UV_OFFLINE": "1"}
    bench.write("job.yaml", "environment: {packages: [no-such-package-xyz]}\ncommand: echo ran\n")
    env = {**offline, "DROMON_CACHE": str(tmp_path / "cache")}
    done = bench("run", "job.yaml", code=1, env=env)
    assert done.stdout == ""
    assert "no-such-package-xyz" in done.stderr
    [job] = [bench.status("@last")]
    assert (job["state"], job["verdict"]["cause"]) == ("failed", "environment")
    assert "no-such-package-xyz" in job["verdict"]["message"]
    assert "no-such-package-xyz" in bench("why", "@last").stdout


def test_a_symlink_out_of_the_workdir_is_refused_by_name(bench: Bench, tmp_path: Path):
    (tmp_path / "data").mkdir()
    (bench.folder / "ct").symlink_to(tmp_path / "data")
    said = refusal(bench, "--", "true", code=65)
    assert "ct" in said
    assert str(tmp_path / "data") in said


# ---- as somebody who is not root ----------------------------------------------------------------


@pytest.mark.parametrize("what", ["weights.bin", "closed"])
def test_what_cannot_be_read_is_refused_by_name(nobody, home: Path, what: str):
    home.chmod(0o755)
    work, state = home / "work", home / "state"
    (work / "closed").mkdir(parents=True)
    (work / "weights.bin").write_text("x")
    (work / what).chmod(0)
    state.mkdir()
    os.chown(state, 65534, 65534)
    more = {"DROMON_HOME": str(state), "DROMON_CACHE": str(state / "cache")}
    done = nobody(CLI, str(work), "run", "--", "echo", "ran", **more)
    assert done.returncode == 65, done.stderr
    assert f"{what} cannot be read" in done.stderr
    assert "hint: " in done.stderr
    assert ".dromonignore" in done.stderr
    (work / ".dromonignore").write_text(f"{what}\n")
    done = nobody(CLI, str(work), "run", "--", "echo", "ran", **more)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert nobody(CLI, "/", "daemon", "stop", **more).returncode == 0
