import pytest

from dromon.errors import JobFileError
from dromon.spec import Job, load_data, load_text

LONG = "roles:\n  worker: {command: x}\nconfig: {a: {b: 1}, c.d: 2, list: [1, {e: 2}]}\n"


def loaded(*overrides: str, text: str = LONG) -> Job:
    return load_text(text, "job.yaml", overrides)


def refusal(*overrides: str, text: str = LONG) -> str:
    with pytest.raises(JobFileError) as caught:
        loaded(*overrides, text=text)
    return str(caught.value)


@pytest.mark.parametrize("text", ["command: x", LONG])
@pytest.mark.parametrize("override", ["replicas=8", "roles.worker.replicas=8"])
def test_a_roles_key_works_on_either_form(text: str, override: str) -> None:
    assert loaded(override, text=text).roles["worker"].replicas == 8


def test_values_are_read_as_the_model_wants_them() -> None:
    job = loaded(
        "environment.python=3.10", "env.N=1", "env.TOKEN=null", "max_duration=8h", "priority=5",
        "preemptible=false", "resources.gpus=0.5", "secrets=[A, B]", "files.lib.a.py=src/a.py",
        "command=python a.py --x 'y: z'", "name=exp-1", "retries={max: 2, backoff: 5s}",
        "policies.exit_code:3=ignore", "volumes.ct.source=/data/ct",
    )  # fmt: skip
    assert job.environment is not None
    assert job.environment.python == "3.10"
    assert job.env == {"N": "1", "TOKEN": None}
    assert (job.max_duration, job.priority, job.preemptible) == (28800.0, 5, False)
    assert job.roles["worker"].resources.gpus == 0.5
    assert job.secrets == ["A", "B"]
    assert job.files == {"lib.a.py": "src/a.py"}
    assert job.roles["worker"].command == "python a.py --x 'y: z'"
    assert (job.name, job.retries.max, job.retries.backoff) == ("exp-1", 2, 5.0)
    assert job.policies == {"exit_code:3": "ignore"}
    assert job.volumes["ct"].source == "/data/ct"


def test_a_command_in_brackets_is_a_list() -> None:
    assert loaded("command=[python, a.py]").roles["worker"].command == ["python", "a.py"]


def test_config_takes_yaml_of_any_shape() -> None:
    job = loaded(
        "config.a.b=1e-4", "config.new.deep=[1, {x: y}]", 'config."p.q".r=true', "config.c.d=text",
        "config.list.1.e=3", "config.list.0=9", "config.empty=", "config.none=null",
    )  # fmt: skip
    assert job.config == {
        "a": {"b": 1e-4}, "new": {"deep": [1, {"x": "y"}]}, "p.q": {"r": True}, "c.d": "text",
        "list": [9, {"e": 3}], "empty": "", "none": None,
    }  # fmt: skip


def test_a_kind_of_gpu_replaces_a_number() -> None:
    job = loaded("resources.gpus.a100=2", text="command: x\nresources: {gpus: 1}")
    assert job.roles["worker"].resources.gpu_kinds == {"a100": 2.0}


def test_later_overrides_win_and_the_data_stays_as_it_was() -> None:
    data = {"command": "x", "config": {"a": {"b": 1}}}
    job = load_data(data, overrides=["config.a.b=2", "config.a.b=3"])
    assert job.config == {"a": {"b": 3}}
    assert data == {"command": "x", "config": {"a": {"b": 1}}}


def test_an_alias_is_overridden_in_one_place_only() -> None:
    job = loaded("config.a.x=2", text="command: y\nconfig: {a: &a {x: 1}, b: *a}")
    assert job.config == {"a": {"x": 2}, "b": {"x": 1}}


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("resorces.cpus=2", "command line: resorces: unknown key; did you mean resources?"),
        ("roles.worker.replcas=2",
         "command line: roles.worker.replcas: unknown key; did you mean replicas?"),
        ("roles.wroker.replicas=2", "command line: roles.wroker: no such role;"
         " did you mean worker?"),
        ("replicas=four",
         "command line: roles.worker.replicas: expected a whole number, got 'four'"),
        ("environment.packages=torch==2", "command line: environment.packages: expected a list,"
         " got 'torch==2'; write [torch==2]"),
        ("replicas", "command line: 'replicas' is not an override; write for example replicas=8"),
        ("=3", "command line: '=3' is not an override; write for example replicas=8"),
        ("a..b=3", "command line: 'a..b=3' is not an override; write for example replicas=8"),
        ("config.a=[1", "command line: config.a: is not YAML: expected ',' or ']', but got"
         " '<stream end>' while parsing a flow sequence"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_told_as_one(override: str, said: str) -> None:
    assert refusal(override) == said


def test_a_roles_key_needs_its_role_where_there_are_several() -> None:
    text = "roles: {a: {command: x}, b: {command: x}}"
    assert refusal("replicas=2", text=text) == (
        "command line: replicas: of which role?; write roles.a.replicas or roles.b.replicas"
    )
