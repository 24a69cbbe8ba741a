"""Watches against a server that cuts, forgets and comes back."""

import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from apiserver import HANG_UP, Answer, ApiServer, status, until

from dromon.engines.kubernetes.access import Access, Identity, Server
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.refusals import NotAllowed, NoVolcano, Unreachable
from dromon.engines.kubernetes.volcano import JOB, POD
from dromon.engines.kubernetes.watch import ADDED, DELETED, MODIFIED, Following, Watch

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


@pytest.fixture
def api(plain_server: ApiServer) -> Iterator[Api]:
    reached = Server(plain_server.url, "http", "127.0.0.1", plain_server.port, "")
    with Api(Access(reached, Identity(), source="config"), timeout=5, patience=5) as api:
        yield api


@pytest.fixture
def watch(api: Api) -> Iterator[Callable[..., Watch]]:
    made: list[Watch] = []

    def make(kind: Any = POD, namespace: str = "default", **more: Any) -> Watch:
        made.append(Watch(api, kind, namespace, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def pod(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more.pop("metadata", {})}, **more}


def shown(changes: Any) -> list[tuple[str, str]]:
    return [(change.type, change.object["metadata"]["name"]) for change in changes]


def watches(server: ApiServer) -> int:
    return sum("watch" in request.query for request in server.requests)


def test_first_all_there_is_then_what_changes(plain_server: ApiServer, watch: Any):
    plain_server.put(PODS, pod("a"))
    plain_server.put(PODS, pod("b"))
    one = watch()
    events = one.events()
    assert shown(islice(events, 2)) == [(ADDED, "a"), (ADDED, "b")]
    plain_server.put(PODS, pod("a", status={"phase": "Running"}))
    plain_server.put(PODS, pod("c"))
    plain_server.delete("pods", "b")
    assert shown(islice(events, 3)) == [(MODIFIED, "a"), (ADDED, "c"), (DELETED, "b")]
    assert sorted(one.objects) == [("default", "a"), ("default", "c")]
    assert one.objects["default", "a"]["status"] == {"phase": "Running"}


def test_what_was_loaded_is_not_told_again(plain_server: ApiServer, watch: Any):
    plain_server.put(PODS, pod("a"))
    one = watch()
    one.load()
    assert list(one.objects) == [("default", "a")]
    plain_server.put(PODS, pod("b"))
    assert shown(islice(one.events(), 1)) == [(ADDED, "b")]
    assert sum("limit" in request.query for request in plain_server.requests) == 1


def test_a_watch_that_is_cut_goes_on_without_loss(plain_server: ApiServer, watch: Any):
    plain_server.put(PODS, pod("p0"))
    one = watch()
    events = one.events()
    found = shown(islice(events, 1))
    for number in range(1, 6):
        plain_server.cut()
        plain_server.put(PODS, pod(f"p{number}"))
        found += shown(islice(events, 1))
    assert found == [(ADDED, f"p{n}") for n in range(6)]
    assert sum("limit" in request.query for request in plain_server.requests) == 1


def test_what_happened_while_the_server_forgot_is_told_as_a_difference(
    plain_server: ApiServer, watch: Any
):
    for name in ("stays", "changes", "goes"):
        plain_server.put(PODS, pod(name))
    one = watch()
    events = one.events()
    assert len(shown(islice(events, 3))) == 3
    for says_in_the_stream in (True, False):
        if says_in_the_stream:
            next_change: list[Any] = []
            thread = threading.Thread(target=lambda seen=next_change: seen.append(next(events)))
            before = watches(plain_server)
            thread.start()
            until(lambda n=before: watches(plain_server) > n)
        with plain_server._changed:
            plain_server.delete("pods", "goes")
            plain_server.put(PODS, pod("changes", status={"phase": "Failed"}))
            plain_server.put(PODS, pod("comes"))
            plain_server.compact()
        if says_in_the_stream:
            thread.join()
            told = shown([*next_change, *islice(events, 2)])
        else:
            plain_server.cut()
            told = shown(islice(events, 3))
        assert told == [(DELETED, "goes"), (MODIFIED, "changes"), (ADDED, "comes")]
        assert sorted(name for _, name in one.objects) == ["changes", "comes", "stays"]
        plain_server.delete("pods", "comes")
        plain_server.put(PODS, pod("goes"))
        assert shown(islice(events, 2)) == [(DELETED, "comes"), (ADDED, "goes")]


def test_bookmarks_move_on_and_are_nobodys_business(plain_server: ApiServer, watch: Any):
    plain_server.bookmarks = 0.05
    plain_server.put(PODS, pod("a"))
    one = watch(labels="job=x")
    seen: list[str] = []
    thread = threading.Thread(
        target=lambda: seen.extend(c.object["metadata"]["name"] for c in one.events())
    )
    thread.start()
    plain_server.put(PODS, pod("b"))
    version = plain_server._version
    until(lambda: one._version == str(version))
    plain_server.compact()
    plain_server.cut()
    until(lambda: watches(plain_server) > 1)
    plain_server.put(PODS, pod("mine", metadata={"labels": {"job": "x"}}))
    until(lambda: seen == ["mine"])
    one.close()
    thread.join()
    assert sum("limit" in request.query for request in plain_server.requests) == 1


def test_objects_are_trimmed_as_they_come(plain_server: ApiServer, watch: Any):
    def keep(item: dict[str, Any]) -> dict[str, Any]:
        assert "managedFields" not in item["metadata"]
        return {"metadata": {"name": item["metadata"]["name"]}, "phase": item["status"]["phase"]}

    plain_server.put(PODS, pod("a", status={"phase": "Pending"}))
    one = watch(keep=keep)
    events = one.events()
    assert next(events).object == {"metadata": {"name": "a"}, "phase": "Pending"}
    plain_server.put(PODS, pod("a", status={"phase": "Running"}))
    assert next(events).object["phase"] == "Running"
    assert one.objects == {("default", "a"): {"metadata": {"name": "a"}, "phase": "Running"}}
    plain_server.compact()
    plain_server.cut()
    plain_server.put(PODS, pod("a", status={"phase": "Failed"}))
    change = next(events)
    assert (change.type, change.object["phase"]) == (MODIFIED, "Failed")


def test_keys_of_many_objects_are_the_same_strings(plain_server: ApiServer, watch: Any):
    one = watch(limit=1)
    for name in ("a", "b"):
        plain_server.put(PODS, pod(name, **{"some-long-key": {"x-y": [{"z z": 1}]}}))
    one.load()
    first, second = ([*item][-1] for item in one.objects.values())
    assert first == "some-long-key"
    assert first is second


def test_a_list_of_many_pages_is_one_state(plain_server: ApiServer, watch: Any):
    for number in range(25):
        plain_server.put(PODS, pod(f"p{number:02}"))
    one = watch(limit=10, namespace="")
    one.load()
    assert len(one.objects) == 25
    assert len(plain_server.requests) == 3


def test_closing_ends_it_wherever_it_waits(plain_server: ApiServer, watch: Any):
    one = watch()
    thread = threading.Thread(target=lambda: list(one.events()))
    thread.start()
    until(lambda: watches(plain_server) == 1)
    one.close()
    thread.join()
    assert list(one.events()) == []


def test_a_server_in_trouble_is_waited_for(plain_server: ApiServer, watch: Any):
    one = watch()
    one.load()
    plain_server.say(
        status(503, "ServiceUnavailable", "starting"),
        HANG_UP,
        Answer(200, '{"type": "ADD'),
        Answer(200, "nonsense\n"),
        Answer(200, '{"type": "ERROR", "object": {"code": 500, "message": "no"}}\n'),
    )
    plain_server.put(PODS, pod("a"))
    assert shown(islice(one.events(), 1)) == [(ADDED, "a")]


def test_what_cannot_be_cured_comes_out(plain_server: ApiServer, watch: Any):
    one = watch()
    plain_server.say(
        status(403, "Forbidden", 'User "bob" cannot list resource "pods" in API group ""')
    )
    with pytest.raises(NotAllowed, match="bob may not list pods in the whole cluster"):
        next(one.events())
    plain_server.groups.discard("batch.volcano.sh")
    with pytest.raises(NoVolcano):
        watch(JOB).load()


def test_a_server_that_stays_away_is_said_so(plain_server: ApiServer):
    reached = Server(plain_server.url, "http", "127.0.0.1", plain_server.port, "")
    with Api(Access(reached, Identity(), source="config"), timeout=5, patience=0.2) as api:
        one = Watch(api, POD, "default")
        one.load()
        plain_server.say(*[status(503, "ServiceUnavailable", "no")] * 50)
        with pytest.raises(Unreachable):
            next(one.events())


def test_several_kinds_are_followed_in_one_loop(plain_server: ApiServer, watch: Any):
    pods, jobs = watch(), watch(JOB)
    plain_server.put(PODS, pod("p"))
    with Following(pods, jobs) as following:
        assert following.next() == (pods, (ADDED, pods.objects["default", "p"]))
        assert following.next(timeout=0.05) is None
        plain_server.put(JOBS, pod("j"))
        found = following.next()
        assert found is not None
        assert (found[0], found[1].type) == (jobs, ADDED)
        until(lambda: watches(plain_server) >= 2)


def test_the_error_of_one_of_several_comes_out(plain_server: ApiServer, watch: Any):
    plain_server.groups.discard("batch.volcano.sh")
    with Following(watch(), watch(JOB)) as following, pytest.raises(NoVolcano):
        following.next()


def test_watches_are_no_requests(plain_server: ApiServer, api: Api, watch: Any):
    plain_server.put(PODS, pod("a"))
    events = watch().events()
    next(events)
    plain_server.put(PODS, pod("b"))
    next(events)
    assert api.verbs == {"list": 1, "watch": 1}
    assert api.requests == 1
