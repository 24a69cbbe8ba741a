"""A cluster as its API server would show it: objects by kind, and who may not look at what."""

from collections import defaultdict
from datetime import UTC, datetime

from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.refusals import NotAllowed
from dromon.engines.kubernetes.situation import LIVING, gather

START = 1_800_000_000.0  # when the job of a test was made


def stamp(after=0.0):
    return datetime.fromtimestamp(START + after, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _labels(given):
    return given["metadata"].get("labels") or {}


class Cluster:
    """`job` is the one a test is about; it is in queue `team` unless the test says otherwise."""

    now = START + 300
    stamp = staticmethod(stamp)

    def __init__(self):
        self.objects = defaultdict(list)
        self.forbidden = set()  # (plural, "" or a namespace)
        self.queue("root")
        self.queue("team", parent="root")
        self.objects[volcano.PRIORITY_CLASS] = [
            {"metadata": {"name": name}, "value": value}
            for name, value in (("low", 10), ("normal", 50), ("high", 90))
        ]

    # --- as an API server

    def list(self, kind, namespace="", labels="", fields=""):
        if (kind.plural, namespace) in self.forbidden:
            raise NotAllowed(f"al may not list {kind.plural}")
        every = self.objects[kind]
        every = [o for o in every if not namespace or o["metadata"].get("namespace") == namespace]
        if labels:
            every = [o for o in every if dict([labels.split("=")]).items() <= _labels(o).items()]
        if fields == LIVING:
            every = [o for o in every if o["status"]["phase"] not in ("Succeeded", "Failed")]
        return every

    def read(self, kind, namespace, name):
        found = [o for o in self.list(kind, namespace) if o["metadata"]["name"] == name]
        return found[0] if found else None

    def look(self, name="train-aaaaaa"):
        return gather(self, "ml", name)

    # --- what is there

    def queue(self, name, state="Open", parent="", guarantee=None, **spec):
        if guarantee:
            spec["guarantee"] = {"resource": guarantee}
        self.objects[volcano.QUEUE].append(
            {"metadata": {"name": name}, "spec": {"weight": 1, "parent": parent, **spec},
             "status": {"state": state, "allocated": {}}}
        )  # fmt: skip

    def node(
        self, name, gpus=8, cpu="32", memory="128Gi", labels=(), taints=(), ready=True, **spec
    ):
        amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
        if gpus:
            amounts["nvidia.com/gpu"] = str(gpus)
        self.objects[volcano.NODE].append(
            {"metadata": {"name": name, "labels": dict(labels)},
             "spec": {"taints": list(taints), **spec},
             "status": {"allocatable": amounts, "conditions": [
                 {"type": "Ready", "status": "True" if ready else "Unknown",
                  "lastTransitionTime": stamp(100)}]}}
        )  # fmt: skip

    def job(
        self, name="train-aaaaaa", gpus=4, replicas=2, least=None, phase="Pending", queue="team",
        priority="normal", after=0.0, namespace="ml", cpu="1", spec=None, **more,
    ):  # fmt: skip
        """One task `worker`, as Dromon writes it."""
        asks = {"cpu": cpu, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        template = {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "py:1", "resources": {"requests": asks}}],
                **(spec or {}),
            }
        }
        least = replicas if least is None else least
        given = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}",
                         "creationTimestamp": stamp(after), **more},
            "spec": {"queue": queue, "minAvailable": least, "priorityClassName": priority,
                     "schedulerName": "volcano",
                     "tasks": [{"name": "worker", "replicas": replicas, "minAvailable": least,
                                "template": template}]},
            "status": {"version": 1, "state": {"phase": phase, "lastTransitionTime": stamp(after)}},
        }  # fmt: skip
        self.objects[volcano.JOB].append(given)
        return given

    def pod(self, job, index=0, node="", phase=None, state=None, deleted=None, version=1, **status):
        spec = {**job["spec"]["tasks"][0]["template"]["spec"], "schedulerName": "volcano"}
        if node:
            spec["nodeName"] = node
        phase = phase or ("Running" if node else "Pending")
        if phase == "Running" and state is None:
            state = {"running": {"startedAt": stamp(20)}}
        meta, name = job["metadata"], f"{job['metadata']['name']}-worker-{index}"
        given = {
            "metadata": {
                "name": name, "namespace": meta["namespace"], "uid": f"uid-{name}",
                "creationTimestamp": stamp(10),
                "ownerReferences": [{"kind": "Job", "name": meta["name"], "uid": meta["uid"]}],
                "labels": {"volcano.sh/job-name": meta["name"], "volcano.sh/task-spec": "worker",
                           "volcano.sh/task-index": str(index)},
                "annotations": {"volcano.sh/job-version": str(version)},
            },
            "spec": spec,
            "status": {"phase": phase, **status},
        }  # fmt: skip
        if state is not None:
            given["status"]["containerStatuses"] = [{"name": "main", "state": state}]
        if deleted is not None:
            given["metadata"]["deletionTimestamp"] = stamp(deleted)
        self.objects[volcano.POD].append(given)
        return given

    def runs(self, name, *nodes, **more):
        """A whole other job, with a pod on each of these nodes."""
        job = self.job(name, replicas=len(nodes), phase="Running", **more)
        for index, node in enumerate(nodes):
            self.pod(job, index, node)
        return job

    def group(self, job, phase="Inqueue", said="", after=0.0):
        condition = {"type": "Unschedulable", "status": "True", "message": said,
                     "reason": "NotEnoughResources", "lastTransitionTime": stamp(30)}  # fmt: skip
        meta = job["metadata"]
        self.objects[volcano.POD_GROUP].append(
            {"metadata": {"name": f"{meta['name']}-{meta['uid']}", "namespace": meta["namespace"],
                          "creationTimestamp": stamp(after),
                          "ownerReferences": [{"uid": meta["uid"]}]},
             "spec": {"minMember": job["spec"]["minAvailable"], "queue": job["spec"]["queue"]},
             "status": {"phase": phase, "conditions": [condition] if said else []}}
        )  # fmt: skip

    def event(self, of, reason, message, after=50.0, kind="Pod", warning=True):
        self.objects[volcano.EVENT].append(
            {"metadata": {"name": f"e{len(self.objects[volcano.EVENT])}", "namespace": "ml"},
             "involvedObject": {"kind": kind, "name": of, "namespace": "ml"},
             "reason": reason, "message": message, "type": "Warning" if warning else "Normal",
             "lastTimestamp": stamp(after)}
        )  # fmt: skip

    def quota(self, name, hard, used):
        self.objects[volcano.QUOTA].append(
            {"metadata": {"name": name, "namespace": "ml"}, "spec": {"hard": hard},
             "status": {"hard": hard, "used": used}}
        )  # fmt: skip

    def claim(self, name, phase):
        self.objects[volcano.CLAIM].append(
            {"metadata": {"name": name, "namespace": "ml"}, "spec": {}, "status": {"phase": phase}}
        )
