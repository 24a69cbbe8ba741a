import signal

import pytest

from dromon.agent import exitrecord
from dromon.lifecycle.verdict import Exit

TRACEBACK = [
    "Epoch 1",
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in <module>',
    "    main()",
    "    ^^^^^^",
    '  File "train.py", line 2, in main',
    '    raise custom.BadShape("3 != 4")',
    "custom.BadShape: 3 != 4",
    "cleaning up",
    "[rank0]: bye",
]
CHAINED = [
    "Traceback (most recent call last):",
    '  File "a.py", line 1, in <module>',
    "KeyError: 'x'",
    "",
    "During handling of the above exception, another exception occurred:",
    "",
    "Traceback (most recent call last):",
    '  File "a.py", line 3, in <module>',
    '    raise RuntimeError("no x")',
    "RuntimeError: no x",
]
OUT = "out_of_memory"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (TRACEBACK, "custom.BadShape: 3 != 4"),
        (TRACEBACK[5:], "custom.BadShape: 3 != 4"),
        (CHAINED, "RuntimeError: no x"),
        (
            ['  File "a.py", line 1', "    x = = 1", "        ^", "SyntaxError: bad"],
            "SyntaxError: bad",
        ),
        (["  indented", "word: text"], ""),
        (["KeyboardInterrupt"], ""),
        ([], ""),
    ],
)
def test_last_exception_is_found_among_other_lines(lines, found):
    assert exitrecord.exception_line(lines) == found


@pytest.mark.parametrize(
    ("code", "number", "lines", "said"),
    [
        (0, None, ["MemoryError"], ("success", "")),
        (3, None, [], ("user_error", "exited with code 3")),
        (None, 11, [], ("user_error", "killed by SIGSEGV")),
        (None, 64, [], ("user_error", "killed by SIGRTMAX")),
        (None, 45, [], ("user_error", "killed by signal 45")),
        (1, None, ["x", "CUDA out of memory. Tr"], (OUT, "CUDA out of memory. Tr")),
        (None, 6, ["std::bad_alloc"], (OUT, "std::bad_alloc")),
        (1, None, ["CUDA out of memory, retrying", *CHAINED], ("user_error", "RuntimeError: no x")),
        (1, None, [*CHAINED[:-1], "E: RESOURCE_EXHAUSTED"], (OUT, "E: RESOURCE_EXHAUSTED")),
    ],
)  # fmt: skip
def test_cause_and_message_follow_from_code_and_lines(code, number, lines, said):
    assert exitrecord.describe(code, number, lines) == said


def test_what_was_told_to_stop_has_stopped_unless_memory_ran_out():
    assert exitrecord.describe(None, signal.SIGTERM, [], told_to_stop=True)[0] == "stopped"
    assert exitrecord.describe(0, None, [], told_to_stop=True)[0] == "success"
    told = exitrecord.describe(None, signal.SIGKILL, [], told_to_stop=True, oom_killed=True)
    assert told[0] == "out_of_memory"


def test_record_comes_back_as_it_was_written(tmp_path):
    exit = Exit(
        code=3, cause="user_error", message="é\udc80", last_lines=("a", "b"), gpu={"x": 1.0}
    )
    path = str(tmp_path / "exit.json")
    exitrecord.write(path, exit, run=2, member="worker-0")
    assert exitrecord.read(path) == exit
    assert [p.name for p in tmp_path.iterdir()] == ["exit.json"]


def test_missing_or_broken_record_is_none(tmp_path):
    assert exitrecord.read(str(tmp_path / "exit.json")) is None
    for text in ("", "{", "[]", "3"):
        (tmp_path / "exit.json").write_text(text)
        assert exitrecord.read(str(tmp_path / "exit.json")) is None


def test_records_of_several_members_share_a_file(tmp_path):
    path = str(tmp_path / "exits")
    runs = [("a-1", 1), ("a-1", 11), ("a-11", 1), ("a-11", 11)]
    made = {(m, r): Exit(code=r, message=f"{m}\n{r}", gpu={}) for m, r in runs}
    for (member, run), exit in made.items():
        exitrecord.append(path, exit, member=member, run=run)
    for (member, run), exit in made.items():
        found = exitrecord.find(path, member, run)
        assert found is not None
        assert Exit.from_json(found) == exit
    assert exitrecord.find(path, "a-1", 2) is None
    assert exitrecord.find(str(tmp_path / "none"), "a-1", 1) is None


def test_what_a_full_disk_cut_off_hides_no_later_record(tmp_path):
    path = tmp_path / "exits"
    path.write_text('\na-0.1 {"code": 0')
    assert exitrecord.find(str(path), "a-0", 1) is None
    exitrecord.append(str(path), Exit(code=3), member="a-1", run=1)
    assert exitrecord.find(str(path), "a-0", 1) is None
    assert (exitrecord.find(str(path), "a-1", 1) or {})["code"] == 3
