"""Whatever comes in, what comes out is a job or JobFileError."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dromon.errors import JobFileError
from dromon.spec import load_data, load_text, resolve
from dromon.spec.keys import SHORT_KEYS
from dromon.spec.model import Environment, Job, Resources, Retries, Role, Volume

PIECES = [
    "command: ", "roles:", "worker", "\n", "\n  ", "\n    ", "- ", ": ", "{", "}", "[", "]", ", ",
    "&a ", "*a", "<<: ", "!!str ", "!x ", "'", '"', "|\n", ">-\n", "#", "---\n", "...\n",
    "%YAML 1.2\n",
    "? ", "\t", "~", "true", "3.10", "${config.", "${volumes.a}", "${job.id}", "$${", "config: ",
    "a", "b", "1", "16GiB", "\u2028", "\ufeff", "\\", "@", "`", "é", "resources: ", "env: ", "\r",
]  # fmt: skip
MODELS = (Job, Role, Resources, Environment, Retries, Volume)
KEYS = sorted(
    {key for model in MODELS for key in model.model_fields} | SHORT_KEYS | {"worker", "x"}
)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.binary(max_size=3)
    | st.sampled_from(["torch", "mxnet", "16GiB", "9" * 400, "2h", "node"])
    | st.sampled_from(["${config.x}", "${volumes.x}"])
    | st.just(10**400)
)  # fmt: skip
keys = st.sampled_from(KEYS) | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)


def tried(load: Any, *arguments: Any) -> None:
    try:
        job = load(*arguments)
    except JobFileError as error:
        problems = error.problems
    else:
        resolve(job, id="a-1", name="a")
        assert load_data(job.to_data()) == job
        return
    assert problems
    for problem in problems:
        assert "\n" not in str(problem)
        str(problem).encode()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@example("{a: *a}")
@example("[&a a: *a]")
@example("? ")
@example("!!int x")
@example("%TAG ! tag:x,2000:\n---\n!a b")
def test_texts_made_of_yaml(text: str) -> None:
    tried(load_text, text, "f")


@settings(max_examples=150, deadline=None)
@given(st.text() | st.binary())
def test_any_text_and_any_bytes(text: str | bytes) -> None:
    tried(load_text, text, "f")


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(keys, values, max_size=6))
@example({"[key]": None})
@example({"command": "x", "policies": {"[key]": 1}, "env": {"[key]": 1}, "files": {"[key]": 1}})
def test_any_data(data: dict[str, Any]) -> None:
    tried(load_data, data)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.text(max_size=12) | st.builds("{}={}".format, keys, st.text(max_size=8)), max_size=3
    )
)
def test_any_overrides(overrides: list[str]) -> None:
    tried(load_data, {"command": "x", "config": {"a": [1]}}, "request", overrides)


def test_data_nested_without_end() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    tried(load_data, {"command": "x", "config": {"a": deep}})
    tried(load_data, {"command": deep, "env": deep, "roles": deep})
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    tried(load_data, {"command": "x", "config": loop})
    tried(load_data, {"command": "x", "roles": loop})
    while deep:  # taken apart by hand: the interpreter would recurse
        deep = deep.pop()
