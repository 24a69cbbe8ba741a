"""How far a build has come."""

from dromon.engines.local.progress import bar


def test_each_of_uvs_words_has_its_step():
    said = (
        "starting", "resolving", "Making an environment with Python 3.11.7",
        "Downloading torch (800MiB)", "Installed 5 packages in 84ms", "Compiling bytecode",
    )  # fmt: skip
    assert [bar(text) for text in said] == [
        "[·····]", "[#····]", "[##···]", "[###··]", "[####·]", "[#####]",
    ]  # fmt: skip


def test_words_nobody_knows_are_no_progress():
    assert bar("something new") == "[·····]"
