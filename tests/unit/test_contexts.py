"""Contexts: what names mean, what the file may say, and what is remembered of jobs sent away."""

import json
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from dromon import contexts
from dromon.contexts.file import Context, ContextError, Contexts, make, place, resolve
from dromon.contexts.recent import LIMIT, Known, Recent
from dromon.errors import AmbiguousJob


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DROMON_CONFIG", str(tmp_path / "config"))
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "DROMON_ON"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "config" / "contexts.json"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A directory as HADOOP_CONF_DIR would name it."""
    path = tmp_path / "conf"
    path.mkdir()
    (path / "yarn-site.xml").write_text("<configuration/>")
    return path


def put(*names: str, default: str = "") -> None:
    for name in names:
        Contexts.read().put(make(name, "yarn", f"{name}:8032"), name == default)


# ---- names --------------------------------------------------------------------------------------


def test_local_is_this_machine_whatever_the_file_says():
    assert resolve("local").kind == "local"


def test_a_name_is_the_context_of_the_file():
    put("prod", "dev")
    assert resolve("dev") == Context("dev", "yarn", "dev:8032")


def test_yarn_is_the_only_yarn_context():
    put("prod")
    assert resolve("yarn").name == "prod"


def test_yarn_among_several_is_the_one_in_use_or_a_question():
    put("prod", "dev")
    with pytest.raises(ContextError, match="several contexts of yarn: prod, dev"):
        resolve("yarn")
    Contexts.read().use("dev")
    assert resolve("yarn").name == "dev"


@pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_yarn_without_contexts_is_what_the_environment_names(variable, conf, monkeypatch):
    monkeypatch.setenv(variable, str(conf))
    assert resolve("yarn") == Context("yarn", "yarn", str(conf))


def test_a_conf_directory_that_is_not_there_is_said_with_its_variable(monkeypatch):
    monkeypatch.setenv("HADOOP_CONF_DIR", "/nowhere/conf")
    with pytest.raises(ContextError, match="HADOOP_CONF_DIR: there is no directory /nowhere/conf"):
        resolve("yarn")


def test_no_cluster_at_all_teaches_how_to_name_one():
    with pytest.raises(ContextError, match="no YARN cluster is known here") as caught:
        resolve("yarn")
    assert "dromon context add" in caught.value.hint
    assert "HADOOP_CONF_DIR" in caught.value.hint


def test_a_misspelt_name_gets_the_nearest_one():
    put("production")
    with pytest.raises(ContextError, match="no context 'prodction'; did you mean production"):
        resolve("prodction")


def test_kubernetes_alone_is_what_the_kubeconfig_points_at():
    assert resolve("kubernetes") == Context("kubernetes", "kubernetes", "current")


def test_a_context_of_kubernetes_names_one_of_the_kubeconfig_or_another_file(tmp_path):
    assert make("k", "kubernetes", "prod-eu", {"image": "python:3"}).where == "prod-eu"
    file = tmp_path / "config"
    file.write_text("{}")
    assert make("k", "kubernetes", f"{file}#dev").where == f"{file}#dev"
    with pytest.raises(ContextError, match="no kubeconfig"):
        make("k", "kubernetes", f"{tmp_path}/none#dev")


def test_each_kind_has_settings_of_its_own():
    with pytest.raises(ContextError, match="no setting 'image'"):
        make("y", "yarn", "rm:8032", {"image": "python:3"})
    with pytest.raises(ContextError, match="no setting 'shared'"):
        make("k", "kubernetes", "", {"shared": "/x"})


@pytest.mark.parametrize("name", ["local", "yarn", "", "Prod", "a b", "../x", "-x"])
def test_some_names_are_none(name):
    with pytest.raises(ContextError, match="context"):
        make(name, "yarn", "rm:8032")


# ---- places and settings ------------------------------------------------------------------------


def test_a_directory_becomes_absolute_and_an_address_stays(conf, monkeypatch):
    monkeypatch.chdir(conf.parent)
    assert make("a", "yarn", "conf").where == str(conf)
    assert make("a", "yarn", "./conf").where == str(conf)
    assert make("a", "yarn", "rm:8032").where == "rm:8032"
    assert make("a", "yarn", "http://rm:8088/").where == "http://rm:8088"


def test_a_directory_without_a_site_is_refused(tmp_path):
    with pytest.raises(ContextError, match=r"no \*-site.xml"):
        make("a", "yarn", str(tmp_path))


def test_settings_are_ours_and_keys_with_dots_are_hadoops():
    made = make("a", "yarn", "rm", {"queue": "research", "dfs.replication": "1"})
    assert made.queue == "research"
    assert made.properties == {"dfs.replication": "1"}
    with pytest.raises(ContextError, match="no setting 'qeue'; did you mean queue"):
        make("a", "yarn", "rm", {"qeue": "research"})


# ---- the file -----------------------------------------------------------------------------------


def test_what_is_written_is_read_again_by_its_owner_alone(config):
    made = make("prod", "yarn", "rm:8032", {"queue": "q", "a.b": "c"})
    Contexts.read().put(made, True)
    again = Contexts.read()
    assert again.by_name == {"prod": made}
    assert again.default == "prod"
    assert contexts.in_use() == "prod"
    assert stat.S_IMODE(os.stat(config).st_mode) == 0o600
    assert os.listdir(config.parent) == ["contexts.json"]


def test_removing_the_context_in_use_leaves_none_in_use():
    put("prod", default="prod")
    Contexts.read().remove("prod")
    assert Contexts.read().by_name == {}
    assert contexts.in_use() == ""
    with pytest.raises(ContextError, match="no context 'prod'"):
        Contexts.read().remove("prod")


def test_local_can_be_used_again():
    put("prod", default="prod")
    Contexts.read().use("local")
    assert contexts.in_use() == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n "contexts": {,}\n}', ":2:15: not JSON"),
        ("[]", ":1:1: expected {…}"),
        ('{\n  "contxts": {}}', ":2:3: contxts: unknown key; did you mean contexts?"),
        ('{"contexts": []}', ":1:2: contexts: expected {…}"),
        ('{"contexts": {\n "a": {"kind": "yarn", "where": "x",\n  "qeue": "q"}}}',
         ":3:3: contexts.a.qeue: unknown key; did you mean queue?"),
        ('{"contexts": {\n "a": {"kind": "mesos", "where": "x"}}}',
         ":2:8: contexts.a.kind: expected yarn"),
        ('{"contexts": {\n "a": {"kind": "yarn"}}}', ":2:2: contexts.a: where is missing"),
        ('{"contexts": {"a": {"kind": "yarn", "where": 7}}}', "contexts.a.where: expected text"),
        ('{"contexts": {"a": {"kind": "yarn", "where": "x", "properties": {"a.b": 1}}}}',
         "contexts.a.properties.a.b: expected text"),
        ('{"default": "gone"}', ":1:2: default: there is no context 'gone'"),
        ("[" * 100000, ": it nests too deep"),
        ("", ":1:1: not JSON"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_told_with_its_place(config, text, said):
    config.parent.mkdir()
    config.write_text(text)
    config.chmod(0o600)
    with pytest.raises(ContextError) as caught:
        Contexts.read()
    assert said in caught.value.message
    assert caught.value.message.startswith(str(config))
    assert caught.value.hint


def test_a_file_that_is_no_text_or_cannot_be_read_is_no_traceback(config):
    config.parent.mkdir()
    config.write_bytes(b"\xff\xfe")
    with pytest.raises(ContextError, match="not a text file"):
        Contexts.read()
    config.unlink()
    config.mkdir()
    with pytest.raises(ContextError, match="cannot read"):
        Contexts.read()


def test_a_file_that_others_can_write_is_not_believed(config):
    put("prod")
    config.chmod(0o662)
    with pytest.raises(ContextError, match="others can write it"):
        Contexts.read()


def test_a_directory_that_cannot_be_written_is_said(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DROMON_CONFIG", str(tmp_path / "file"))
    with pytest.raises(ContextError, match="cannot write"):
        put("prod")


@pytest.mark.parametrize("where", ["", "http://", "https:///", "rm 8032", "ftp://rm"])
def test_what_is_no_address_is_not_asked(where):
    with pytest.raises(ContextError, match=r"no address|not the address"):
        place(where)


def test_the_directory_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.delenv("DROMON_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert contexts.path() == str(tmp_path / "dromon" / "contexts.json")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert contexts.path() == str(tmp_path / ".config" / "dromon" / "contexts.json")


# ---- what is remembered -------------------------------------------------------------------------


@pytest.fixture
def recent(tmp_path) -> Recent:
    return Recent(str(tmp_path / "state" / "recent.jsonl"))


def known(name: str, end: str, context: str = "prod", **more) -> Known:
    return Known(f"{name}-{end}", context, name, more.pop("time", time.time()), **more)


def test_a_job_is_found_by_id_application_name_and_first_letters(recent):
    assert not recent.exists()
    assert recent.find("net") is None
    first = known("net", "aaaaaa", application="application_1_0001")
    second = known("net", "bbbbbb")
    other = known("other", "cccccc")
    for each in (first, second, other):
        assert recent.add(each)
    assert recent.find("net-aaaaaa") == first
    assert recent.find("application_1_0001") == first
    assert recent.find("net") == second  # the newest of that name
    assert recent.find("oth") == other
    assert recent.find("x") is None
    assert recent.find("") is None
    with pytest.raises(AmbiguousJob, match="net-aaaaaa, net-bbbbbb"):
        recent.find("net-")
    assert recent.by_id("net") is None
    assert stat.S_IMODE(os.stat(recent.path).st_mode) == 0o600


def test_a_context_that_no_file_names_is_remembered_itself(recent):
    recent.add(known("net", "aaaaaa", "yarn", kind="yarn", where="/etc/hadoop/conf"))
    found = recent.find("net")
    assert found is not None
    assert found.unnamed == Context("yarn", "yarn", "/etc/hadoop/conf")


def test_broken_lines_are_passed_over(recent):
    recent.add(known("net", "aaaaaa"))
    with open(recent.path, "a") as file:
        file.write('{"id": "x"}\n[1]\nnonsense\n{"id": 7, "context": "a", "name": "", "time": 0}\n')
        file.write(json.dumps({**known("new", "bbbbbb")._asdict(), "later": 1}) + "\n")
        file.write('{"id": "half-cccccc", "conte')
    assert [each.id for each in recent.entries()] == ["net-aaaaaa"]


def test_a_job_noted_twice_is_one(recent):
    recent.add(known("net", "aaaaaa"))
    recent.add(known("two", "bbbbbb"))
    recent.add(known("net", "aaaaaa"))
    assert [each.id for each in recent.entries()] == ["two-bbbbbb", "net-aaaaaa"]


def test_forgotten_jobs_are_gone_and_the_others_stay(recent):
    for end in ("aaaaaa", "bbbbbb", "cccccc"):
        recent.add(known("net", end))
    recent.forget({"net-bbbbbb", "unknown"})
    assert [each.id for each in recent.entries()] == ["net-aaaaaa", "net-cccccc"]


def test_only_contexts_used_lately_count(recent):
    recent.add(known("a", "aaaaaa", "old", time=time.time() - 1000))
    recent.add(known("b", "bbbbbb", "new"))
    assert set(recent.contexts(500)) == {"new"}
    assert set(recent.contexts(5000)) == {"old", "new"}


def test_the_file_does_not_grow_for_ever(recent):
    for number in range(LIMIT // 100):
        recent.add(known("n" * 30, f"{number:06}"))
    assert os.path.getsize(recent.path) <= LIMIT
    assert recent.entries()[-1].id.endswith(f"{LIMIT // 100 - 1:06}")


def test_many_writers_lose_nothing(recent):
    def write(who: int) -> None:
        for number in range(50):
            recent.add(known(f"w{who}", f"{number:06}"))

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recent.entries()) == 200


def test_what_cannot_be_noted_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert not Recent(str(tmp_path / "file" / "recent.jsonl")).add(known("a", "aaaaaa"))
