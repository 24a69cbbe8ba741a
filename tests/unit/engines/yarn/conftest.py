"""HDFS in memory, and requests as they are compiled for a cluster."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "hadoop"))

from fake_webhdfs import FakeWebHdfs

from dromon import spec
from dromon.engines.base import Launch
from dromon.engines.yarn.compile import Target, compile_launch
from dromon.hadoop.webhdfs import WebHdfs

UV = {"kind": "uv", "python": "3.11"}
RECORD = "/user/al/.dromon/jobs/train-aaaaaa"


@pytest.fixture
def name_node() -> Iterator[FakeWebHdfs]:
    with FakeWebHdfs() as fake:
        fake.tree.make(RECORD, None, "700", "al")
        yield fake


@pytest.fixture
def hdfs(name_node: FakeWebHdfs) -> Iterator[WebHdfs]:
    hdfs = WebHdfs([name_node.url], "al", patience=5)
    yield hdfs
    hdfs.close()


@pytest.fixture
def target() -> Target:
    return Target(
        user="al",
        root="/user/al/.dromon",
        webhdfs=("http://nn:9870",),
        scheduler=("rm:8030",),
        proxies=("rm",),
        highest_priority=10,
    )


@pytest.fixture
def make_launch() -> Callable[..., Launch]:
    def make(id: str = "train-aaaaaa", *, launch_keys: Any = None, **keys: Any) -> Launch:
        """A launch of the job file with these keys."""
        data = {"command": "true", **keys}
        job = spec.load_data({k: v for k, v in data.items() if v is not None}, "request", [])
        job = spec.resolve(job, id=id, name=id.rpartition("-")[0])
        given = {"code": None, "environment": UV, "facts": {"user": "al"}, **(launch_keys or {})}
        return Launch(id=id, job=job.to_data(), **given)

    return make


@pytest.fixture
def make_request(make_launch: Callable[..., Launch], target: Target) -> Callable[..., Any]:
    """The compiled request of the job file with these keys."""

    def make(**keys: Any) -> dict[str, Any]:
        return dict(compile_launch(make_launch(**keys), target).request)

    return make
