"""Launches as they are compiled for a cluster; an API server in memory, with TLS and without."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from apiserver import ApiServer, Certificates, reach
from generated import launch_of

from dromon.engines.base import Launch
from dromon.engines.kubernetes.access import Access, Acting, Identity, Server
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.manifest import Target, compile_launch


@pytest.fixture
def target() -> Target:
    return Target(
        namespace="ml",
        image="base@sha256:" + "0" * 64,
        light="c" * 64,
        priority_classes={"low": 10, "high": 90},
        default_priority_class="low",
    )


@pytest.fixture
def make_launch() -> Callable[..., Launch]:
    return launch_of


@pytest.fixture
def make_request(make_launch: Callable[..., Launch], target: Target) -> Callable[..., Any]:
    """The compiled request of the job file with these keys; `on` another target."""

    def make(*, on: Target | None = None, **keys: Any) -> dict[str, Any]:
        return dict(compile_launch(make_launch(**keys), on or target).request)

    return make


@pytest.fixture
def make_pod(make_request: Callable[..., Any]) -> Callable[..., Any]:
    """The pod of its first role."""

    def make(**keys: Any) -> dict[str, Any]:
        tasks = make_request(**keys)["objects"][0]["spec"]["tasks"]
        return dict(tasks[0]["template"]["spec"])

    return make


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def server(certificates: Certificates) -> Iterator[ApiServer]:
    found = ApiServer(certificates)
    yield found
    found.stop()


@pytest.fixture
def plain_server() -> Iterator[ApiServer]:
    found = ApiServer()
    yield found
    found.stop()


@pytest.fixture
def make_api(plain_server: ApiServer) -> Iterator[Callable[..., Api]]:
    made: list[Api] = []

    def make(
        identity: Identity | None = None,
        patience: float = 5.0,
        reached: Server | None = None,
        acting: Acting = Acting(),  # noqa: B008
        timeout: float = 5.0,
    ) -> Api:
        access = Access(
            reached or reach(plain_server), identity or Identity(said="config: users[u].user"),
            acting=acting, source="config", context="here",
        )  # fmt: skip
        made.append(Api(access, patience=patience, timeout=timeout))
        return made[-1]

    yield make
    for api in made:
        api.close()
