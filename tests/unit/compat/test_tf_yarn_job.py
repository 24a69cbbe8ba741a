"""A call of `run_on_yarn`, in every form it had, as the job that Dromon gets."""

import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from dromon import spec
from dromon.compat import cores
from dromon.compat.tf_yarn import (
    Experiment,
    NodeLabel,
    TaskFlavor,
    TaskSpec,
    ps_strategy_topology,
    standalone_client_mode,
)
from dromon.compat.tf_yarn.client import bound
from dromon.compat.tf_yarn.translate import job
from dromon.errors import Refused
from dromon.packaging import payload

CHIEF = {"chief": TaskSpec(memory=1024, vcores=2)}
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def experiment_fn() -> Experiment:
    return Experiment(None, None, None)


def made(tmp_path: Path, *args, on="yarn", **kwargs):
    (tmp_path / "stage").mkdir(exist_ok=True)
    asked = job(bound(args, kwargs), on, str(tmp_path / "stage"))
    spec.load_data(asked, "request", [])  # whatever comes out is a job
    return asked


# ---- forms of the call --------------------------------------------------------------------------


def test_first_form_names_the_function_first(tmp_path):
    asked = made(
        tmp_path, experiment_fn, CHIEF, python=HERE, pip_packages=["tensorflow==2.15.1", "six"],
        env={"A": "${config.b}"}, queue="research", name_nodes=["hdfs://one"],
    )  # fmt: skip
    assert asked["environment"] == {"python": HERE, "packages": ["tensorflow==2.15.1", "six"]}
    assert asked["env"] == {"A": "$${config.b}", "LIBHDFS_OPTS": "-Xms64m -Xmx512m"}
    assert (asked["queue"], asked["hdfs"]) == ("research", ["hdfs://one"])
    assert asked["roles"] == {
        "chief": {
            "replicas": 1,
            "command": ["python", "_tf_yarn/start.py"],
            "resources": {"cpus": 2, "memory": "1024MiB"},
        }
    }


@pytest.mark.parametrize("keywords", [False, True])
def test_middle_form_names_the_environment_first(tmp_path, keywords):
    archive = tmp_path / "env.pex"
    archive.write_bytes(b"")
    if keywords:
        asked = made(tmp_path, str(archive), experiment_fn=experiment_fn, task_specs=CHIEF)
    else:
        asked = made(tmp_path, str(archive), experiment_fn, CHIEF)
    assert asked["files"] == {"_tf_yarn-pyenv-cpu": str(archive)}  # a node has no such path
    assert asked["roles"]["chief"]["command"][2:] == [
        "--pyenv", "_tf_yarn-pyenv-cpu", "${volumes.pyenv-room}",
    ]  # fmt: skip
    assert "environment" not in asked


def test_archive_of_this_machine_is_not_copied_on_it(tmp_path):
    (tmp_path / "env.pex").write_bytes(b"")
    asked = made(tmp_path, str(tmp_path / "env.pex"), experiment_fn, CHIEF, on="local")
    assert asked["volumes"]["pyenv-cpu"] == {"source": str(tmp_path / "env.pex")}
    assert "${volumes.pyenv-cpu}" in asked["roles"]["chief"]["command"]


def test_last_form_takes_the_python_that_calls(tmp_path):
    asked = made(
        tmp_path, experiment_fn, CHIEF, pyenv_zip_path=None, file_systems=["hdfs://two"],
        nb_retries=2, name="MyRun", pre_script_hook="source ${HOME}/env.sh",
    )  # fmt: skip
    assert "environment" not in asked
    assert asked["retries"]["max"] == 2
    assert asked["name"] == "my-run"
    assert asked["hdfs"] == ["hdfs://two"]
    assert asked["roles"]["chief"]["command"] == (
        "source $${HOME}/env.sh\nexec python _tf_yarn/start.py"
    )


def test_archive_for_each_label(tmp_path):
    (tmp_path / "cpu.zip").write_bytes(b"")
    asked = made(
        tmp_path, experiment_fn,
        {"chief": TaskSpec(1024, 1, label=NodeLabel.GPU), "evaluator": TaskSpec(1024, 1)},
        pyenv_zip_path={
            NodeLabel.CPU: str(tmp_path / "cpu.zip"), NodeLabel.GPU: "hdfs:///envs/gpu.zip",
        },
    )  # fmt: skip
    assert asked["volumes"]["pyenv-gpu"] == {"source": "hdfs:///envs/gpu.zip"}
    assert "${volumes.pyenv-gpu}" in asked["roles"]["chief"]["command"]
    assert "_tf_yarn-pyenv-cpu" in asked["roles"]["evaluator"]["command"]


def test_tensorflow_is_added_to_packages_that_do_not_name_it(tmp_path):
    with pytest.raises(Refused, match="pip_packages= names no TensorFlow"):
        made(tmp_path, experiment_fn, CHIEF, pip_packages=["six"])


# ---- tasks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task",
    [
        TaskSpec(2048, 1, 3, TaskFlavor.GPU),
        TaskSpec("2 GiB", 1, 3, NodeLabel.GPU, -1),
        TaskSpec(2048, 1, instances=3, flavor=TaskFlavor.GPU),
        TaskSpec("2048 MiB", 1, 3, 1, NodeLabel.GPU),
    ],
)
def test_task_for_gpu_nodes_in_each_form(tmp_path, task):
    asked = made(tmp_path, experiment_fn, {**CHIEF, "worker": task})["roles"]["worker"]
    assert (asked["replicas"], asked["resources"]["memory"]) == (3, "2048MiB")
    assert asked["node_label"] == "gpu"


def test_task_for_gpu_nodes_gets_a_gpu_on_this_machine(tmp_path):
    tasks = {"chief": TaskSpec(1024, 1, label=NodeLabel.GPU)}
    asked = made(tmp_path, experiment_fn, tasks, on="local")["roles"]["chief"]
    assert asked["resources"]["gpus"] == 1
    assert "node_label" not in asked


def test_label_of_any_name_and_gpus_by_number(tmp_path):
    tasks = {"chief": TaskSpec(1024, 1, label="a100", gpus=2)}
    asked = made(tmp_path, experiment_fn, tasks)["roles"]["chief"]
    assert (asked["node_label"], asked["resources"]["gpus"]) == ("a100", 2)


def test_ready_made_topology(tmp_path):
    tasks = ps_strategy_topology(nb_workers=3, nb_ps=2, memory=512, vcores=1)
    roles = made(tmp_path, experiment_fn, tasks)["roles"]
    counted = {role: asked["replicas"] for role, asked in roles.items()}
    assert counted == {"chief": 1, "evaluator": 1, "worker": 3, "ps": 2}


def test_vcores_of_a_cluster_are_shared_on_one_machine(tmp_path):
    tasks = ps_strategy_topology(nb_workers=4, nb_ps=2, memory=512, vcores=8)
    roles = made(tmp_path, experiment_fn, tasks, on="local")["roles"]
    assert cores.share(roles, 2)
    assert sum(r["replicas"] * r["resources"]["cpus"] for r in roles.values()) <= 2
    assert not cores.share(roles, 2)


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ({"worker": TaskSpec(1, 1)}, "exactly one 'chief'"),
        ({"chief": TaskSpec(1, 1, 2)}, "exactly one 'chief'"),
        ({**CHIEF, "evaluator": TaskSpec(1, 1, 2)}, "no more than one 'evaluator'"),
        ({**CHIEF, "master": TaskSpec(1, 1)}, "task_specs has master"),
    ],
)
def test_tasks_that_cannot_train_together_are_a_value_error(tmp_path, tasks, words):
    with pytest.raises(ValueError, match=words):
        made(tmp_path, experiment_fn, tasks)


def test_tensorboard_task_becomes_the_jobs_tensorboard(tmp_path):
    tasks = {**CHIEF, "tensorboard": TaskSpec(1024, 1, tb_model_dir="hdfs://nn/model")}
    asked = made(tmp_path, experiment_fn, tasks)
    assert asked["tensorboard"] == "hdfs://nn/model"
    assert list(asked["roles"]) == ["chief"]


# ---- files --------------------------------------------------------------------------------------


def test_module_in_files_travels_as_a_file_and_not_in_the_pickle(tmp_path, monkeypatch):
    (tmp_path / "wine.py").write_text("import threading\nLOCK = threading.Lock()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import wine

    def fn() -> object:
        return wine.LOCK  # a lock cannot be pickled

    with pytest.raises(Exception, match="cannot be shipped"):
        made(tmp_path, lambda lock=wine.LOCK: lock, CHIEF)
    (tmp_path / "again").mkdir()
    asked = made(tmp_path / "again", fn, CHIEF, files={"wine.py": wine.__file__})
    assert asked["files"] == {"wine.py": str(tmp_path / "wine.py")}
    shipped = (Path(asked["workdir"]) / "_tf_yarn" / "payload").read_bytes()
    assert payload.header(shipped)["sources"].keys().isdisjoint({"wine"})
    monkeypatch.delitem(sys.modules, "wine")


def test_archive_in_files_is_unpacked_under_its_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("pkg/__init__.py", "X = 1\n")
    asked = made(tmp_path, experiment_fn, CHIEF, files={"lib": str(tmp_path / "lib.zip")})
    assert "files" not in asked
    assert (Path(asked["workdir"]) / "lib" / "pkg" / "__init__.py").read_text() == "X = 1\n"


# ---- access -------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_object", [False, True])
def test_acls_of_skein(tmp_path, as_object):
    given = {
        "enable": True, "ui_users": ["*"], "view_users": ["ann"], "view_groups": ["team"],
        "modify_users": ["bob"], "modify_groups": [],
    }  # fmt: skip
    asked = made(
        tmp_path, experiment_fn, CHIEF, acls=SimpleNamespace(**given) if as_object else given
    )
    assert asked["acls"] == {"view": ["ann", "*", "team"], "modify": ["bob"]}


# ---- refused, in words --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("skein_client", object()),
        ("custom_task_module", "tf_yarn.tasks.gloo_allred_task"),
        ("path_to_log_hdfs", "hdfs:///logs"),
        ("cuda_runtime_hdfs_path", "hdfs:///cuda"),
        ("python", "3.6.6"),
        ("pyenv_zip_path", "nowhere.zip"),
        ("files", {"a": "hdfs:///a"}),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name_with_a_remedy(tmp_path, argument, value):
    with pytest.raises(Refused, match=argument) as refused:
        made(tmp_path, experiment_fn, CHIEF, **{argument: value})
    assert refused.value.hint


def test_tensorboard_without_a_directory_is_refused(tmp_path):
    with pytest.raises(Refused, match="tensorboard") as refused:
        made(tmp_path, experiment_fn, {**CHIEF, "tensorboard": TaskSpec(1024, 1)})
    assert "tb_model_dir" in refused.value.hint


def test_standalone_client_mode_is_refused():
    with (
        pytest.raises(Refused, match="standalone_client_mode"),
        standalone_client_mode("env.pex", task_specs=CHIEF),
    ):
        pass


def test_unknown_argument_is_a_type_error(tmp_path):
    with pytest.raises(TypeError, match="unexpected keyword argument 'que'"):
        made(tmp_path, experiment_fn, CHIEF, que="default")
