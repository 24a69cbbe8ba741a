"""YAML that `kubectl` reads as it was meant, the same bytes for the same objects."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from dromon.engines.kubernetes.documents import to_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
LINES = st.lists(TEXTS, min_size=2, max_size=4).map("\n".join)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), TEXTS, LINES,
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


def read(text, version):
    yaml = YAML(typ="safe", pure=True)
    yaml.version = version
    return list(yaml.load_all(io.StringIO(text)))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), min_size=1, max_size=2))
def test_whatever_is_written_reads_back_the_same(objects):
    text = to_yaml(objects)
    assert read(text, (1, 2)) == objects
    assert read(text, (1, 1)) == objects


@pytest.mark.parametrize(
    "text",
    ["on", "Off", "YES", "n", "null", "~", "0o17", "017", "0x1f", "1e3", ".5", "1_000", "12:30:45",
     "2026-01-01", "=", "<<", "- a", "? a", "a: b", "a #b", "#", "&a", "*a", "!a", "|", "%a", "@a",
     "`a", '"', "'", " a", "a ", "", "\t", "{}", "[]", "nan", ".inf"],
)  # fmt: skip
def test_texts_that_look_like_something_else_are_quoted(text):
    written = to_yaml([{"a": text}]).splitlines()[1]
    assert written.startswith('a: "')
    assert written.endswith('"')


def test_the_order_of_keys_is_theirs_and_of_lists_is_ours():
    made = to_yaml([{"b": [{"d": 1, "c": [2, 1]}, []], "a": {}}, {"z": "two\nlines\n"}])
    assert made == ("---\na: {}\nb:\n- c:\n  - 2\n  - 1\n  d: 1\n- []\n---\nz: |\n  two\n  lines\n")
