"""Two jobs side by side."""

from dromon.observe.difference import difference, lines


def test_only_what_differs_is_listed_by_its_path():
    a = {"config": {"lr": 0.1, "layers": [1, 2]}, "name": "x"}
    b = {"config": {"lr": 0.2, "layers": [1, 2], "drop": 0.5}, "name": "x"}
    assert difference(a, b) == [
        {"path": "config.lr", "a": 0.1, "b": 0.2},
        {"path": "config.drop", "a": None, "b": 0.5},
    ]


def test_the_same_job_differs_in_nothing():
    assert difference({"a": {"b": 1}}, {"a": {"b": 1}}) == []


def test_lines_of_one_lock_only_are_listed():
    found = lines("six==1.16\ntorch==2.1", "six==1.17\ntorch==2.1")
    assert [(d["a"], d["b"]) for d in found] == [("six==1.16", None), (None, "six==1.17")]
