import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dromon.packaging.ignore import Rules, parse

NAMES = ["a", "b", "ab", "abc", "foo", "foo.py", "a.log", "x y", ".hidden", "[a]", "a*", "b-c"]
TREE = [
    "a", "foo.py", "a.log", "x y", ".hidden", "[a]", "a*", "b-c", "#c", "!n", "abc ",
    "foo/a", "foo/foo.py", "foo/bar/a", "foo/bar/a.log", "foo/b/ab", "b/foo/bar/abc",
    "ab/a", "ab/abc", "ab/b/a.log", "foobar/a", "b/x y", "b/.hidden", "b/b/b",
]  # fmt: skip


def git(where, *args, text=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    env["XDG_CONFIG_HOME"] = "/nonexistent"
    return subprocess.run(
        ["git", *args], cwd=where, env=env, input=text, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "-q")
    for path in TREE:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    return root


def ours(ignores):
    """Every file of TREE that would be left out, given {directory: text of its ignore file}."""
    out = set()
    for path in TREE:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            rules = Rules()
            for above in range(depth):
                base = "/".join(parts[:above])
                if base in ignores:
                    base_slash = base + "/" if base else ""
                    rules = rules.below(base_slash, ".gitignore", ignores[base], own=False)
            here = "/".join(parts[:depth])
            if rules.why_ignored(here, parts[depth - 1], depth < len(parts)):
                out.add(path)
                break
    return out


def gits(root, ignores):
    for base in ("", "foo", "b", "foo/bar"):
        file = root / base / ".gitignore"
        if base in ignores:
            file.write_text(ignores[base], newline="")
        elif file.exists():
            file.unlink()
    done = git(root, "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore")
    assert done.returncode == 0, done.stderr
    kept = set(done.stdout.split("\0"))
    return {p for p in TREE if p not in kept}


ATOM = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(
        ["*", "**", "***", "?", "/", "\\", "[ab]", "[!a]", "[a-c]", "[^b-z]", "[]a]", "[[:alpha:]]",
         "[[:bad:]]", "[", "]", "!", "#", " ", "-", "[a", "[\\]", "[a-]", "[z-a]", "\\*", "\\ ",
         "o", "ba", "/**/", "**/", "/**", "[[:alpha", "[[:]", "[a[:digit:]-z]", "\r", "bar"]
    ),
)  # fmt: skip
PATTERN = st.lists(ATOM, min_size=1, max_size=5).map("".join)
LINE = st.tuples(st.sampled_from(["", "", "!", "/"]), PATTERN, st.sampled_from(["", "", "/", " "]))
TEXT = st.lists(LINE.map("".join), min_size=1, max_size=4).map("\n".join)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    ignores=st.dictionaries(st.sampled_from(["", "foo", "b", "foo/bar"]), TEXT, min_size=1),
)
def test_generated_patterns_leave_out_what_git_leaves_out(repository, ignores):
    assert ours(ignores) == gits(repository, ignores)


@pytest.mark.parametrize(
    "text",
    [
        "a", "/a", "a/", "foo/", "/foo/bar", "foo/bar/", "**/bar", "foo/**", "foo/**/a", "**/a",
        "*.log\n!a.log", "foo/*\n!foo/bar", "*\n!*/\n!*.py", "foo**/a", "fo*/a", "\\#c", "\\!n",
        "#c", "!n", "abc\\ ", "abc ", "[a]", "\\[a\\]", "a\\*", "a*", "[!f]*", "x?y", "*/a",
        "*/*/a", "foo/b\\ar/a", "/*", "/**", "**", "/", "//", "!", "", "\ufefffoo",
        "a.log\r\nfoo.py\r\n",
        "foo\\", "[", "[]", "[!]a]", "a**b", "**foo", "/**/foo", "foo/**/**/a", "b/**/b", ".*",
    ],
)  # fmt: skip
def test_a_pattern_means_what_it_means_to_git(repository, text):
    assert ours({"": text}) == gits(repository, {"": text})


def test_the_deepest_file_decides_and_dromonignore_beats_git():
    rules = (
        Rules()
        .outer(".git/info/exclude", "", "*.bin")
        .below("", ".dromonignore", "!model.bin\nsecret", own=True)
        .below("sub/", "sub/.gitignore", "model.bin\n!secret", own=False)
    )
    assert rules.why_ignored("x.bin", "x.bin", False) == ".git/info/exclude: *.bin"
    assert rules.why_ignored("sub/model.bin", "model.bin", False) is None
    assert rules.why_ignored("sub/secret", "secret", False) == ".dromonignore: secret"


def test_rules_from_above_the_tree_see_the_path_from_where_they_stand():
    rules = Rules().outer("../.gitignore", "code/", "/code/data\n/other")
    assert rules.why_ignored("data", "data", True) == "../.gitignore: /code/data"
    assert rules.why_ignored("sub/data", "data", True) is None
    assert rules.why_ignored("other", "other", True) is None


def test_an_ignore_file_of_thousands_of_lines_is_taken():
    patterns = parse("\n".join(f"/dir{i}/*.x{i}" for i in range(3000)))
    assert patterns.verdict("dir7/a.x7", "a.x7", False)
    assert not patterns.verdict("dir7/a.x8", "a.x8", False)
