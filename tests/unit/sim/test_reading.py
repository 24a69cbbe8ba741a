"""Trace files: formats told apart by their columns; what is wrong is said with its line."""

import gzip
from pathlib import Path

import pytest

from dromon.sim import TraceError, read_trace
from dromon.sim.trace import FOREVER

PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 07:00:55,10.0,16,160.0,6214e9
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time
a,12000,16384,1,460,,LS,Running,5,25
b,6000,1024,2,1000,V100|P100,BE,Running,10,
c,1000,1024,0,0,,BE,Running,10,20
"""
MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time
7,8,2000,1000,vgg16,16,999,0,214
"""


def written(folder: Path, text: str | bytes, name: str = "trace.csv") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_philly_is_known_by_its_columns_and_sorted_by_submit_time(tmp_path: Path):
    trace = read_trace(written(tmp_path, PHILLY))
    assert trace.format == "philly"
    assert [(job.submit, job.duration, job.gpus, job.queue) for job in trace.jobs] == [
        (0.0, 10.0, 16, "6214e9"),
        (60.0, 66.0, 1, "11cb48"),
    ]


def test_openb_has_parts_of_gpus_several_kinds_and_pods_that_never_end(tmp_path: Path):
    trace = read_trace(written(tmp_path, OPENB))
    first, second, third = trace.jobs
    assert (first.gpus, first.cpus, first.memory, first.duration) == (0.46, 12.0, 16 << 30, 20.0)
    assert (second.gpus, second.kinds, second.duration) == (2.0, ("V100", "P100"), FOREVER)
    assert (third.gpus, third.duration) == (0.0, 10.0)


def test_muri_takes_its_work_from_its_iterations(tmp_path: Path):
    (job,) = read_trace(written(tmp_path, MURI)).jobs
    assert (job.gpus, job.duration, job.model) == (8, 214.0, "vgg16")


def test_a_gzipped_trace_is_read_whatever_its_name(tmp_path: Path):
    trace = read_trace(written(tmp_path, gzip.compress(PHILLY.encode()), "no-ending"))
    assert len(trace.jobs) == 2


def test_our_own_format_needs_only_submit_and_duration(tmp_path: Path):
    text = "submit,duration,gpus,memory,preemptible,priority\n5,2h,0.5,16GiB,no,-3\n0,10,,,,\n"
    later, first = sorted(read_trace(written(tmp_path, text)).jobs, key=lambda job: -job.submit)
    assert (first.duration, first.gpus, first.preemptible) == (10.0, 0.0, True)
    assert (later.submit, later.duration, later.gpus) == (5.0, 7200.0, 0.5)
    assert (later.memory, later.preemptible, later.priority) == (16 << 30, False, -3)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("0,-1", "duration: '-1' is not a duration"),
        ("0,", "duration: it is missing"),
        ("soon,10", "submit: 'soon' is neither seconds nor a date"),
        ("0,1e300", "duration: 1e+300 seconds are beyond any calendar"),
        ("0,10,nan", "gpus: nan is not a number of at least 0"),
        ("0,10,1e400", "gpus: 1e400 is not a number of at least 0"),
        ("0,10,1.5", "gpus: 1.5; above 1 only whole ones are given"),
        ("0,10,1,lots", "memory: 'lots' is not a size"),
        ("0,10,1,,perhaps", "preemptible: 'perhaps' is neither true nor false"),
    ],
)
def test_what_is_wrong_with_a_row_is_said_with_its_line(tmp_path: Path, row: str, said: str):
    path = written(tmp_path, f"submit,duration,gpus,memory,preemptible\n0,1,,,\n{row}\n")
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert f"{path}:3: " in caught.value.message
    assert said in caught.value.message


def test_many_wrong_rows_are_shown_in_part_and_counted(tmp_path: Path):
    path = written(tmp_path, "submit,duration\n" + "0,x\n" * 9)
    with pytest.raises(TraceError, match="and 4 more"):
        read_trace(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("submit,duration\n", "there is no job in it"),
        ("when,how long\n1,2\n", "no known format has the columns when, how long"),
        (b"\xff\xfe\x00\x01\n", "it is not a CSV file"),
        (gzip.compress(PHILLY.encode(), mtime=0)[:-20], "ended before"),
        ("id,submit,duration\na,0,1\na,1,1\n", "several jobs have the id a"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, text: str | bytes, said: str):
    with pytest.raises(TraceError) as caught:
        read_trace(written(tmp_path, text))
    assert said in caught.value.message


def test_a_missing_file_is_named():
    with pytest.raises(TraceError, match=r"/nowhere/trace\.csv: No such file"):
        read_trace("/nowhere/trace.csv")
