"""Api and Watch with a real API server: what the fake of the unit tests claims is true."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import jobs
import pytest
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import IMAGE

from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.kubeconfig import find
from dromon.engines.kubernetes.refusals import (
    AlreadyExists,
    Conflict,
    Invalid,
    NoSuchKind,
    NotAllowed,
    NotFound,
    NotStarted,
    NoVolcano,
    PodSilent,
)
from dromon.engines.kubernetes.volcano import CONFIG_MAP, JOB, POD, SECRET, Kind
from dromon.engines.kubernetes.watch import ADDED, DELETED, MODIFIED, Change, Following, Watch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def made(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"kind": "test"}}, **more}


def pod(name: str, script: str, **more: Any) -> dict[str, Any]:
    container = {
        "name": "main", "image": IMAGE, "command": ["python3", "-u", "-c", script],
        "imagePullPolicy": "IfNotPresent",
    }  # fmt: skip
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return made(name, spec={**spec, **more})


def phase(api: Api, space: str, name: str) -> str:
    found = api.read(POD, space, name)
    return str(found["status"]["phase"]) if found else ""


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + jobs.PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# --- objects


def test_objects_are_made_read_changed_applied_and_deleted(api: Api, space: str):
    first = api.create(CONFIG_MAP, space, made("a", data={"x": "1"}))
    with pytest.raises(AlreadyExists, match="configmaps a exists already"):
        api.create(CONFIG_MAP, space, made("a"))
    assert api.patch(CONFIG_MAP, space, "a", {"data": {"y": "2"}})["data"] == {"x": "1", "y": "2"}
    steps = [{"op": "remove", "path": "/data/x"}]
    assert api.patch(CONFIG_MAP, space, "a", steps, how="json")["data"] == {"y": "2"}
    owner = [{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"}]
    strategic = {"metadata": {"ownerReferences": owner}}
    patched = api.patch(CONFIG_MAP, space, "a", strategic, how="strategic", dry_run=True)
    assert patched["metadata"]["ownerReferences"] == owner
    applied = api.apply(CONFIG_MAP, space, made("a", data={"z": "3"}))
    assert applied["data"] == {"y": "2", "z": "3"}
    assert api.apply(CONFIG_MAP, space, made("a", data={}))["data"] == {"y": "2"}
    with pytest.raises(Conflict):
        api.delete(CONFIG_MAP, space, "a", uid="00000000-0000-0000-0000-000000000000")
    assert api.delete(CONFIG_MAP, space, "a", uid=first["metadata"]["uid"])
    assert not api.delete(CONFIG_MAP, space, "a")
    assert api.read(CONFIG_MAP, space, "a") is None
    assert api.connections == 1


def test_a_dry_run_leaves_nothing_and_refuses_all_the_same(api: Api, space: str):
    api.create(CONFIG_MAP, space, made("a"), dry_run=True)
    api.apply(CONFIG_MAP, space, made("b"), dry_run=True)
    assert api.read(CONFIG_MAP, space, "a") is api.read(CONFIG_MAP, space, "b") is None
    with pytest.raises(Invalid):
        api.create(CONFIG_MAP, space, made("NO"), dry_run=True)


def test_lists_come_in_pages_by_label_and_by_field(api: Api, space: str):
    for number in range(12):
        labels = {"odd": str(number % 2)}
        item = {"metadata": {"name": f"c{number:02}", "labels": labels}, "data": {"x": "y" * 1000}}
        api.create(CONFIG_MAP, space, item)
    before = api.verbs.get("list", 0)
    found = api.list(CONFIG_MAP, space, limit=5, labels="odd")
    assert [item["metadata"]["name"] for item in found] == [f"c{n:02}" for n in range(12)]
    assert api.verbs["list"] - before == 3
    assert not any("managedFields" in item["metadata"] for item in found)
    assert len(api.list(CONFIG_MAP, space, labels="odd=1")) == 6
    assert len(api.list(CONFIG_MAP, space, fields="metadata.name=c03")) == 1
    assert list(api.list_names(CONFIG_MAP, space, "odd=0")) == [f"c{n:02}" for n in range(0, 12, 2)]
    assert api.delete_all(CONFIG_MAP, space, "odd=1") == 6
    assert len(api.list(CONFIG_MAP, space, labels="odd")) == 6


# --- refusals


def test_who_may_not_do_what_is_said_with_the_rule_that_lacks(bed: Bed):
    with Api(find(bed.kubeconfig_of("bob"))) as bob:
        with pytest.raises(
            NotAllowed, match="bob may not list pods in namespace default"
        ) as caught:
            bob.list(POD, "default")
        assert '{apiGroups: [""], resources: [pods], verbs: [list]}' in caught.value.hint
        with pytest.raises(NotAllowed, match="bob may not create jobs in namespace default"):
            bob.create(JOB, "default", made("a"))
        with pytest.raises(NotAllowed, match="bob may not list queues in the whole cluster"):
            bob.list(volcano.QUEUE)
        with pytest.raises(NotAllowed, match="bob may not get pods/log in namespace default"):
            bob.logs("default", "a")
        with pytest.raises(NotAllowed, match="bob may not get pods/proxy in namespace default"):
            bob.proxy("default", "a", 80)
        with pytest.raises(NotAllowed, match="bob may not list pods"):
            next(Watch(bob, POD, "default").events())


def test_acting_as_somebody_else_is_acting_with_their_rights(bed: Bed):
    with Api(find(bed.kubeconfig, acting_as="alice")) as alice:
        assert isinstance(alice.list(POD, "default"), list)
        with pytest.raises(NotAllowed, match="alice may not list secrets in namespace kube-system"):
            alice.list(SECRET, "kube-system")


def test_what_is_wrong_is_named_by_its_field(api: Api, space: str):
    with pytest.raises(Invalid, match=r"spec.containers\[0\].image: Required value"):
        api.create(POD, space, made("a", spec={"containers": [{"name": "a", "image": ""}]}))
    with pytest.raises(Invalid, match=r"unknown field `spec\.taks`"):
        api.create(JOB, space, made("a", spec={"taks": []}))
    with pytest.raises(Invalid, match=r"spec.policies\[0\].event: Unsupported value"):
        api.create(JOB, space, made("a", spec={"policies": [{"event": "No", "action": "No"}]}))
    with pytest.raises(Invalid, match="more than 1048576 bytes"):
        api.create(CONFIG_MAP, space, made("a", data={"x": "y" * 1_100_000}))


def test_volcanos_webhook_denies_in_its_own_words(api: Api, space: str):
    template = {"spec": {"containers": [{"name": "a", "image": "x"}]}}
    tasks = [{"name": "w", "replicas": 1, "template": template}]
    spec = {"tasks": tasks, "minAvailable": 2, "schedulerName": "volcano", "queue": "nowhere"}
    with pytest.raises(Invalid, match=r"validatejob\.volcano\.sh denies it") as caught:
        api.create(JOB, space, made("a", spec=spec), dry_run=True)
    assert "minAvailable" in str(caught.value)
    assert '"nowhere" not found' in str(caught.value)


def test_what_is_not_there_is_told_apart(api: Api):
    assert api.read(POD, "default", "nobody") is None
    with pytest.raises(NotFound, match="there is no namespace nowhere"):
        api.create(CONFIG_MAP, "nowhere", made("a"))
    with pytest.raises(NoSuchKind):
        api.list(Kind("kueue.x-k8s.io", "v1beta1", "Workload", "workloads"))
    with pytest.raises(NoVolcano):
        api.list(Kind("absent.volcano.sh", "v1", "Job", "jobs"))


# --- watches


def shown(changes: Iterator[Change], count: int) -> list[tuple[str, str]]:
    return [(c.type, c.object["metadata"]["name"]) for c in islice(changes, count)]


def test_a_watch_tells_what_there_is_and_what_changes(api: Api, space: str):
    api.create(CONFIG_MAP, space, made("a"))
    with Watch(api, CONFIG_MAP, space, labels="kind=test") as watch:
        events = watch.events()
        assert shown(events, 1) == [(ADDED, "a")]
        api.patch(CONFIG_MAP, space, "a", {"data": {"x": "1"}})
        api.create(CONFIG_MAP, space, {"metadata": {"name": "other"}})
        api.create(CONFIG_MAP, space, made("b"))
        api.delete(CONFIG_MAP, space, "a")
        assert shown(events, 3) == [(MODIFIED, "a"), (ADDED, "b"), (DELETED, "a")]
        assert [name for _, name in watch.objects] == ["b"]
        # No longer matched: gone, as far as this watch goes.
        api.patch(CONFIG_MAP, space, "b", {"metadata": {"labels": {"kind": None}}})
        assert shown(events, 1) == [(DELETED, "b")]
        assert "managedFields" not in json.dumps(list(watch.objects.values()))


def test_what_is_too_long_ago_is_gone_and_a_watch_lists_again(api: Api, space: str):
    template = {"spec": {"containers": [{"name": "a", "image": IMAGE}], "restartPolicy": "Never"}}
    tasks = [{"name": "w", "replicas": 1, "template": template}]
    api.create(JOB, space, made("a", spec={"tasks": tasks, "minAvailable": 1, "queue": "default"}))
    path = f"{JOB.path(space)}?watch=true&resourceVersion=1"
    with api.stream("watch", path, JOB) as stream:
        assert json.loads(next(stream))["object"]["code"] == 410
    with Watch(api, JOB, space) as watch:
        watch._version = "1"  # as if it had been away for days
        assert shown(watch.events(), 1) == [(ADDED, "a")]
    api.delete(JOB, space, "a", background=False)


def test_a_watch_survives_the_api_server(bed: Bed, api: Api, space: str):
    seen: list[tuple[str, str]] = []
    with Watch(api, CONFIG_MAP, space, labels="kind=test") as watch:
        watch.load()
        thread = threading.Thread(
            target=lambda: seen.extend(
                (c.type, c.object["metadata"]["name"]) for c in watch.events()
            )
        )
        thread.start()
        api.create(CONFIG_MAP, space, made("before"))
        until(lambda: len(seen) == 1)
        bed.kill("apiserver")
        try:
            starting = threading.Thread(target=bed.start, args=("apiserver",))
            starting.start()
            # Asked while it is away: the answer is late, that is all.
            api.apply(CONFIG_MAP, space, made("meanwhile"))
        finally:
            starting.join()
        api.delete(CONFIG_MAP, space, "before")
        until(lambda: len(seen) == 3)
        watch.close()
        thread.join()
    assert seen == [(ADDED, "before"), (ADDED, "meanwhile"), (DELETED, "before")]


def test_several_kinds_in_one_loop(api: Api, space: str):
    maps, secrets = Watch(api, CONFIG_MAP, space, "kind"), Watch(api, SECRET, space, "kind")
    with Following(maps, secrets) as following:
        api.create(SECRET, space, made("s"))
        api.create(CONFIG_MAP, space, made("c"))
        found = [following.next(jobs.PATIENCE) for _ in range(2)]
        assert {(watch, change.type) for watch, change in filter(None, found)} == {
            (maps, ADDED),
            (secrets, ADDED),
        }
        assert following.next(0.2) is None


# --- pods


def test_what_a_pod_prints_is_heard_as_it_prints(api: Api, space: str):
    script = "import time\nfor n in range(4):\n print('line', n)\n time.sleep(0.7)"
    api.create(POD, space, pod("talks", script))
    api.create(POD, space, pod("waits", script, nodeSelector={"no": "such"}))
    until(lambda: phase(api, space, "talks") in ("Running", "Succeeded"))
    begun = time.time()
    assert b"".join(api.logs(space, "talks", "main", follow=True)) == b"".join(
        b"line %d\n" % n for n in range(4)
    )
    until(lambda: phase(api, space, "talks") == "Succeeded")
    assert b"".join(api.logs(space, "talks", tail=1)) == b"line 3\n"
    assert b"".join(api.logs(space, "talks", tail=0)) == b""
    assert b"".join(api.logs(space, "talks", since=begun + 3600)) == b""
    stamped = b"".join(api.logs(space, "talks", timestamps=True)).splitlines()
    assert stamped[0].endswith(b"Z line 0")
    # Scheduled nowhere, it has an empty log and no error.
    assert b"".join(api.logs(space, "waits")) == b""
    with pytest.raises(NotFound, match="there is no Pod nobody"):
        api.logs(space, "nobody")


def test_a_container_that_has_not_started_is_said_so(api: Api, space: str):
    item = pod("no-image", "pass")
    item["spec"]["containers"][0] |= {"image": "dromon.test/none:1", "imagePullPolicy": "Never"}
    api.create(POD, space, item)
    until(lambda: "containerStatuses" in (api.read(POD, space, "no-image") or {})["status"])
    with pytest.raises(NotStarted, match="waiting to start"):
        api.logs(space, "no-image", "main")


PAGE = """
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        text = " ".join([self.command, self.path, body.decode(), self.headers.get("X-Proof", "")])
        self.send_response(418 if "tea" in self.path else 200)
        self.send_header("X-Job", "j")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    do_GET = do_POST = answer
http.server.HTTPServer(("", 8471), Page).serve_forever()
"""


def test_a_page_of_a_pod_is_reached_through_the_api_server(api: Api, space: str):
    api.create(POD, space, pod("page", PAGE))
    until(lambda: phase(api, space, "page") == "Running")

    def answers() -> bool:
        try:
            return api.proxy(space, "page", 8471)[0] == 200
        except PodSilent:
            return False

    until(answers)
    status, headers, body = api.proxy(
        space, "page", 8471, "POST", "/stop?now=1", b"bye", {"X-Proof": "p"}
    )
    assert (status, headers["x-job"], body) == (200, "j", b"POST /stop?now=1 bye p")
    assert api.proxy(space, "page", 8471, path="/tea")[0] == 418
    with pytest.raises(PodSilent, match="does not answer"):
        api.proxy(space, "page", 8472)
    with pytest.raises(NotFound):
        api.proxy(space, "nobody", 8471)
