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


def test_released_claim_stays_taken_but_is_dead(tmp_path):
    claim.take(str(tmp_path))
    claim.release(str(tmp_path))
    made = claim.read(str(tmp_path))
    assert made is not None
    assert not made.is_alive
    assert not claim.take(str(tmp_path))


def test_no_claim_or_nonsense_is_none(tmp_path):
    assert claim.read(str(tmp_path)) is None
    for text in ("", "{", "[]", json.dumps({"pid": "x"})):
        (tmp_path / "claim").write_text(text)
        assert claim.read(str(tmp_path)) is None
