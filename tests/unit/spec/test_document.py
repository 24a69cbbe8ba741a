import pytest

from dromon.errors import JobFileError
from dromon.spec.document import SIZE_LIMIT, read, resolved


def refusal(text: str | bytes) -> str:
    with pytest.raises(JobFileError) as caught:
        read(text, "job.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("true", True), ("False", False),
        ("yes", "yes"), ("on", "on"), ("12", 12), ("-3", -3), ("017", 17), ("0o17", 15),
        ("0x1F", 31), ("1e-4", 1e-4), ("3.10", 3.1), (".5", 0.5), ("1_000", "1_000"),
        ("2020-01-01", "2020-01-01"), ("1:30", "1:30"), ("16GiB", "16GiB"),
        ("-.inf", -float("inf")),
    ],
)  # fmt: skip
def test_plain_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    found = resolved(text)
    assert found == value
    assert type(found) is type(value)


def test_every_node_has_its_place() -> None:
    document = read("roles:\n  worker:\n    env: {A: x}\n    list:\n    - 1\n    - two\n", "f")
    assert document.position(("roles", "worker")) == (3, 5)
    assert document.position(("roles", "worker"), at_key=True) == (2, 3)
    assert document.position(("roles", "worker", "env", "A")) == (3, 14)
    assert document.position(("roles", "worker", "env", "A"), at_key=True) == (3, 11)
    assert document.position(("roles", "worker", "list", 1)) == (6, 7)


def test_a_missing_key_has_the_place_of_its_parents_key() -> None:
    document = read("a: 1\nroles:\n  worker:\n    x: 1\n", "f")
    assert document.position(("roles", "worker", "command")) == (3, 3)
    assert document.position(("gone", "away")) == (1, 1)


def test_quoted_and_tagged_scalars_stay_text() -> None:
    assert read("{a: '1', b: \"true\", c: !!str 3.10, d: ! 5}", "f").data == {
        "a": "1", "b": "true", "c": "3.10", "d": 5,
    }  # fmt: skip


def test_keys_are_texts_whatever_they_look_like() -> None:
    assert read("{1: a, true: b, 3.10: c}", "f").data == {"1": "a", "true": "b", "3.10": "c"}


def test_duplicate_keys_are_told_and_the_first_one_stays() -> None:
    document = read("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", "f")
    assert document.data == {"a": 1, "b": {"c": 1}}
    assert [str(problem) for problem in document.problems] == [
        "f:4:3: b.c: is there twice; the first is on line 3; keep one",
        "f:5:1: a: is there twice; the first is on line 1; keep one",
    ]


def test_aliases_and_merge_keys_give_the_same_values() -> None:
    document = read(
        "base: &b {cpus: 1, memory: x}\na:\n  <<: *b\n  cpus: 4\nb: *b\nc: {<<: [*b, {d: 1}]}\n",
        "f",
    )
    assert document.data["a"] == {"cpus": 4, "memory": "x"}
    assert document.data["b"] == {"cpus": 1, "memory": "x"}
    assert document.data["c"] == {"cpus": 1, "memory": "x", "d": 1}
    assert document.position(("a", "memory")) == (1, 28)


def test_a_merge_of_no_mapping_is_told() -> None:
    problems = read("a: {<<: 3}", "f").problems
    assert [str(p) for p in problems] == ["f:1:5: a.<<: expected a mapping to take keys from"]


def test_a_yaml_bomb_is_refused_without_being_written_out() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefghijk", "bcdefghijkl", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    assert "more than 50,000 values once its aliases" in refusal("\n".join(lines))


def test_a_bomb_of_long_texts_is_refused() -> None:
    text = f"a: &a {'x' * 500_000}\nb: [{', '.join(['*a'] * 50)}]\n"
    assert "more than 50,000 values" in refusal(text)


def test_a_bomb_of_merges_is_refused() -> None:
    lines = ["m0: &m0 {a: 1, b: 2}"]
    for level in range(1, 20):
        lines.append(f"m{level}: &m{level} {{x: *m{level - 1}, y: *m{level - 1}}}")
    assert "more than 50,000 values" in refusal("\n".join(lines))


def test_an_alias_of_itself_is_refused() -> None:
    assert refusal("a: &a [1, *a]") == "job.yaml:1:11: a[1]: *a holds itself"
    assert refusal("a: *b") == "job.yaml:1:4: a: *b is not defined before this line"


@pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "- " * 5000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert "nested more than 64 deep" in refusal(text)


def test_aliases_cannot_nest_deeper_than_the_limit() -> None:
    lines = ["a0: &a0 [1]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 100)]
    assert "nested more than 64 deep" in refusal("\n".join(lines))


def test_a_file_over_the_limit_is_refused_unread() -> None:
    said = refusal(b"a: \xff" + b"x" * (100 * SIZE_LIMIT))
    assert said.startswith("job.yaml: is too big: a job file has at most 1 MiB")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\x7fELF\x02\x00\x01\xff", "job.yaml: is binary, not a job file"),
        (b"a: b\x00", "job.yaml: is binary, not a job file"),
        (b"a: 1\nb: \xe9t\xe9", "job.yaml:2:4: byte 0xe9 is not UTF-8; save it as UTF-8"),
        ("a: 1".encode("utf-16"), "job.yaml:1:1: is UTF-16 text; save it as UTF-8"),
        ("a:\n  b: \x07", "job.yaml:2:6: character U+0007 is not allowed here"),
        ("a:\n\tb: 1", "job.yaml:2:1: a tab indents this line; use spaces"),
        ("a: 'x\nb: 1", "job.yaml:1:4: this quote is never closed"),
        ("a: @b", "job.yaml:1:4: '@' cannot start a value; quote it"),
        ("a: 1\n---\nb: 2", "job.yaml:2:1: a second document starts here; one job per file"),
        ("? [a]\n: b", "job.yaml:1:3: a key is a single text, not a list or a mapping"),
        ("a: !!python/name:os.system x",
         "job.yaml:1:4: a: the tag !!python/name:os.system means nothing here; leave it out"),
    ],
)  # fmt: skip
def test_what_is_no_yaml_is_refused_with_its_place(text: str | bytes, said: str) -> None:
    assert refusal(text) == said


def test_a_tag_without_end_is_refused() -> None:
    assert refusal("a:\n  - !" + "x" * 900_000) == (
        "job.yaml:2:5: a tag of more than 4,096 characters; leave it out"
    )


def test_a_colon_in_a_command_gets_advice() -> None:
    assert "quote text that holds a colon" in refusal("command: echo a: b")


def test_a_byte_order_mark_is_skipped() -> None:
    assert read(b"\xef\xbb\xbfa: 1", "f").data == {"a": 1}
    assert read("\ufeffa: 1", "f").position(("a",), at_key=True) == (1, 1)
