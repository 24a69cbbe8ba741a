import json
import os
import subprocess
import sys

from dromon.agent import claim


def test_claim_names_a_living_process(tmp_path):
    assert claim.take(str(tmp_path))
    made = claim.read(str(tmp_path))
    assert made is not None
    assert made.pid == os.getpid()
    assert made.is_alive
    assert os.listdir(tmp_path) == ["claim"]


def test_claim_is_given_once(tmp_path):
    assert claim.take(str(tmp_path))
    assert not claim.take(str(tmp_path))
    assert os.listdir(tmp_path) == ["claim"]


def test_claim_of_a_dead_process_is_dead(tmp_path):
    code = "import sys; from dromon.agent import claim; assert claim.take(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    made = claim.read(str(tmp_path))
    assert made is not None
    assert not made.is_alive


def test_same_pid_after_a_reboot_or_by_another_process_is_dead(tmp_path):
    claim.take(str(tmp_path))
    made = claim.read(str(tmp_path))
    assert made is not None
    assert not made._replace(boot_id="another").is_alive
    assert not made._replace(start_ticks=made.start_ticks - 1).is_alive


def test_all_claims_of_a_process_are_one_file(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert claim.take(str(tmp_path / name))
    assert (tmp_path / "one" / "claim").samefile(tmp_path / "two" / "claim")
    assert os.listdir(tmp_path / "two") == ["claim"]


def test_a_process_whose_first_claim_was_removed_makes_another(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert claim.take(str(tmp_path / name))
        os.unlink(tmp_path / name / "claim")
        assert claim.take(str(tmp_path / name))
        made = claim.read(str(tmp_path / name))
        assert made is not None
        assert made.is_alive


def test_a_forked_process_does_not_claim_in_its_parents_name(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert claim.take(str(tmp_path / "one"))
    pid = os.fork()
    if pid == 0:
        os._exit(0 if claim.take(str(tmp_path / "two")) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    made = claim.read(str(tmp_path / "two"))
    assert made is not None
    assert made.pid == pid


def test_no_claim_or_nonsense_is_none(tmp_path):
    assert claim.read(str(tmp_path)) is None
    for text in ("", "{", "[]", json.dumps({"pid": "x"})):
        (tmp_path / "claim").write_text(text)
        assert claim.read(str(tmp_path)) is None
