"""What a pod leaves fits into what Kubernetes keeps."""

import json

from hypothesis import given
from hypothesis import strategies as st

from dromon.engines.kubernetes.pod.lastwords import LONGEST, compose, parse

EXIT = {"code": 3, "signal": None, "cause": "user_error", "message": "m", "last_lines": ["a", "b"]}


def standing(members=2, **more):
    each = {"run": 1, "rank": 0, "state": "done", "host": "h", "node": "n"}
    return {
        "id": "job-aaaaaa", "state": "failed", "attempt": 1, "retries_used": 0, "started": 1.0,
        "ended": 2.0, "verdict": {"cause": "user_error", "message": "m", "last_lines": []},
        "members": [{"member": f"worker-{n}", **each} for n in range(members)],
        "runs": [[f"worker-{n}", 1] for n in range(members)], "outputs": [], **more,
    }  # fmt: skip


def test_all_of_it_where_there_is_room():
    said = parse(compose("worker-0", {1: EXIT, 2: {**EXIT, "code": 4}}, standing()))
    assert said["run"] == 2
    assert said["exit"]["code"] == 4
    assert said["exit"]["last_lines"] == ["a", "b"]
    assert [m["member"] for m in said["members"]] == ["worker-0", "worker-1"]


def test_a_gang_that_is_too_large_is_left_out_before_the_verdict_is():
    said = parse(compose("worker-0", {1: EXIT}, standing(members=500)))
    assert "members" not in said
    assert said["verdict"]["message"] == "m"
    assert said["exit"]["last_lines"] == ["a", "b"]


@given(st.lists(st.text(max_size=3000), max_size=20), st.text(max_size=9000), st.integers(0, 300))
def test_it_always_fits_and_always_says_who(lines, message, members):
    exit = {**EXIT, "last_lines": lines, "message": message}
    verdict = {"cause": "user_error", "message": message, "last_lines": lines}
    text = compose("worker-0", {1: exit}, standing(members, verdict=verdict))
    assert len(text.encode()) <= LONGEST
    assert parse(text)["member"] == "worker-0"


def test_what_is_not_ours_is_nothing():
    assert parse("killed") is None
    assert parse(json.dumps([1])) is None
