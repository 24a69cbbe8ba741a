"""Amounts in Kubernetes' writing, as numbers and in words."""

import pytest

from dromon.engines.kubernetes import quantities as q


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", 0.5), ("2", 2.0), (3, 3.0), ("0.5", 0.5), ("1e3", 1000.0), ("1E3", 1000.0),
        ("1E", 1e18), ("1Gi", 2**30), ("1.5Gi", 1.5 * 2**30), ("128974848", 128974848.0),
        ("129M", 129e6), ("4Ki", 4096.0), ("100n", 1e-7), ("0", 0.0),
    ],
)  # fmt: skip
def test_a_quantity_is_a_number(text, value):
    assert q.number(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "Gi", "four", "1Qi", "m"])
def test_what_is_no_quantity_is_said(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        q.number(text)


@pytest.mark.parametrize("value", [0.5, 0.001, 2.0, 2.0**30, 3 * 2.0**20, 1000.0, 0.0])
def test_what_is_written_reads_the_same(value):
    assert q.number(q.quantity(value)) == value


def test_the_shortest_exact_writing_is_taken():
    assert [q.quantity(v) for v in (0.5, 2, 2**34, 1000)] == ["500m", "2", "16Gi", "1000"]


def test_a_tenth_three_times_fits_into_three_tenths():
    assert q.fits(q.total([{"cpu": 0.1}] * 3), {"cpu": 0.3})


def test_what_is_missing_is_told_by_kind():
    want = {"cpu": 4.0, "nvidia.com/gpu": 2.0}
    assert q.short(want, {"cpu": 4.0}) == {"nvidia.com/gpu": 2.0}
    assert q.short(want, {"cpu": 1.0}, absent=float("inf")) == {"cpu": 3.0}


def test_a_pod_asks_for_its_containers_together_or_its_largest_step_before_them():
    spec = {
        "initContainers": [
            {"name": "fetch", "resources": {"requests": {"cpu": "3", "memory": "1Mi"}}},
            {"name": "car", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        ],
        "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Mi"}}},
            {"name": "b", "resources": {"requests": {"cpu": "500m"}}},
        ],
        "overhead": {"memory": "1Mi"},
    }
    assert q.asked(spec) == {"cpu": 3.0, "memory": 3.0 * 2**20}
    del spec["initContainers"][0]
    assert q.asked(spec)["cpu"] == pytest.approx(1.6)


def test_amounts_in_words_have_the_rare_first():
    amounts = {"cpu": 2.0, "memory": 2.0**34, "nvidia.com/gpu": 1.0, "ex.io/fpga": 3.0}
    assert q.told(amounts) == "1 GPU, 3 ex.io/fpga, 2 CPUs and 16.0 GiB of memory"
    assert q.told(amounts, ["cpu"]) == "2 CPUs"
    assert q.told({}) == "nothing"
