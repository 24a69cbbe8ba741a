"""The escape hatch: what a job file says of its pods is merged last, as Kubernetes merges."""

import pytest

from dromon.engines.kubernetes.merging import merged

POD = {
    "containers": [
        {
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "name": "main",
            "volumeMounts": [{"mountPath": "/a", "name": "v"}],
        }
    ],
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "gpu"}],
    "volumes": [{"emptyDir": {"medium": "Memory"}, "name": "v"}],
}


@pytest.mark.parametrize(
    ("above", "place", "found"),
    [
        ({"nodeSelector": {"disk": "x"}}, ["nodeSelector"], {"zone": "a", "disk": "x"}),
        ({"nodeSelector": None}, ["nodeSelector"], None),
        ({"nodeSelector": {"zone": None}}, ["nodeSelector"], {}),
        ({"hostNetwork": True}, ["hostNetwork"], True),
        ({"tolerations": [{"key": "spot"}]}, ["tolerations"], [{"key": "gpu"}, {"key": "spot"}]),
        ({"tolerations": [{"key": "gpu"}]}, ["tolerations"], [{"key": "gpu"}]),
        ({"containers": [{"name": "main", "image": "x"}]}, ["containers", 0, "image"], "x"),
        (
            {"containers": [{"name": "main", "env": [{"name": "B", "value": "3"}]}]},
            ["containers", 0, "env"],
            [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}],
        ),
        (
            {"containers": [{"name": "main", "env": [{"name": "B", "valueFrom": {"x": 1}}]}]},
            ["containers", 0, "env", 1],
            {"name": "B", "valueFrom": {"x": 1}},
        ),
        (
            {"containers": [{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]},
            ["containers", 0, "env"],
            [{"name": "B", "value": "2"}],
        ),
        (
            {"containers": [{"name": "main", "volumeMounts": [{"mountPath": "/a", "name": "w"}]}]},
            ["containers", 0, "volumeMounts"],
            [{"mountPath": "/a", "name": "w"}],
        ),
        ({"containers": [{"name": "side", "image": "y"}]}, ["containers", 1, "name"], "side"),
        (
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]},
            ["volumes", 0],
            {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}, "name": "v"},
        ),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
            ["volumes", 0],
            {"hostPath": {"path": "/x"}, "name": "v"},
        ),
        ({"dnsConfig": {"searches": None, "options": [1]}}, ["dnsConfig"], {"options": [1]}),
        ({"volumes": None}, ["volumes"], None),
    ],
)
def test_what_is_said_last_is_merged_by_name(above, place, found):
    value = merged(POD, above)
    for step in place[:-1]:
        value = value[step]
    last = place[-1]
    assert (value[last] if isinstance(last, int) else value.get(last)) == found


def test_lists_without_names_are_replaced():
    assert merged({"args": ["a", "b"]}, {"args": ["c"]}) == {"args": ["c"]}


def test_what_is_below_stays_as_it_was():
    before = repr(POD)
    merged(POD, {"containers": [{"name": "main", "image": "x"}], "nodeSelector": {"a": "b"}})
    assert repr(POD) == before
