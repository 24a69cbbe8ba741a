"""Data, code and environments in a bucket, fetched by pods from a server that speaks S3 and knows
who may read."""

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import jobs
import pytest
from testbeds.kubernetes.bed import Bed

from dromon.engines.kubernetes.bucket import BucketUnusable
from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.errors import PackagingError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

# Amazon's own client makes a user and fills a bucket; whoever comes after that has to sign.
FILL = """
import json, sys, boto3
where = {"endpoint_url": sys.argv[1], "region_name": "us-east-1",
         "aws_access_key_id": "any", "aws_secret_access_key": "any"}
iam, s3 = boto3.client("iam", **where), boto3.client("s3", **where)
iam.create_user(UserName="ann")
key = iam.create_access_key(UserName="ann")["AccessKey"]
may = {"Version": "2012-10-17",
       "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="ann", PolicyName="all", PolicyDocument=json.dumps(may))
s3.create_bucket(Bucket="scans")
for name in ("2026/a b.txt", "2026/deep/c", "other"):
    s3.put_object(Bucket="scans", Key=name, Body=name.encode() * 1000)
print(json.dumps([key["AccessKeyId"], key["SecretAccessKey"]]))
"""
ACTIONS = 7  # of the above
READ = """
root = os.environ["DROMON_VOLUME_CT"]
for at, _, names in sorted(os.walk(root)):
    for name in sorted(names):
        path = os.path.join(at, name)
        say(os.path.relpath(path, root), os.path.getsize(path))
"""


@pytest.fixture(scope="module")
def keys(bed: Bed, python_with: Callable[..., str], tmp_path_factory) -> Iterator[dict[str, str]]:
    python = python_with("moto[s3,server]==5.2.5")
    with socket.socket() as probe:
        probe.bind((bed.plan.host, 0))
        port = probe.getsockname()[1]
    url = f"http://{bed.plan.host}:{port}"
    log = tmp_path_factory.mktemp("moto") / "log"
    with open(log, "wb") as out:
        server = subprocess.Popen(
            [python, "-m", "moto.server", "-H", bed.plan.host, "-p", str(port)], stdout=out,
            stderr=out, env={"PATH": os.environ["PATH"],
                             "INITIAL_NO_AUTH_ACTION_COUNT": str(ACTIONS)},
        )  # fmt: skip

    def listens() -> bool:
        try:
            socket.create_connection((bed.plan.host, port), 5).close()
        except OSError:
            return False
        return True

    try:
        assert jobs.until(listens), log.read_text()
        done = subprocess.run(
            [python, "-c", FILL, url], capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        id, secret = json.loads(done.stdout)
        yield {"url": url, "AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": secret}
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def engine(bed: Bed, tmp_path: Path) -> Iterator[KubernetesEngine]:
    made = jobs.engine(bed, tmp_path)
    yield made
    jobs.stop_all(made)
    made.close()


def reads(engine: KubernetesEngine, keys: dict[str, str], source: str, **other: str) -> str:
    given = {name: value for name, value in keys.items() if name != "url"} | other
    asked = jobs.request(
        READ, roles=dict(jobs.TWO), secrets=sorted(given), env={"AWS_ENDPOINT_URL": keys["url"]},
        volumes={"ct": {"source": source}},
    )  # fmt: skip
    asked["environ"] |= given
    try:
        return str(engine.start(asked)["id"])
    finally:
        os.rmdir(asked["cwd"])


def test_every_pod_finds_the_objects_of_a_prefix_as_files(
    engine: KubernetesEngine, keys: dict[str, str]
) -> None:
    ref = reads(engine, keys, "s3://scans/2026")
    assert jobs.ended(engine, ref).state == "succeeded", jobs.told(engine, ref)
    said = jobs.texts(engine, ref)
    assert sorted(said) == sorted([f"a b.txt {12 * 1000}", f"deep/c {11 * 1000}"] * 2)


def test_a_key_that_is_not_accepted_and_an_empty_prefix_end_the_job_in_words(
    engine: KubernetesEngine, keys: dict[str, str]
) -> None:
    for source, other, words in (
        ("s3://scans/2026", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "signature"),
        ("s3://scans/2027", {}, "s3://scans/2027: there is nothing"),
    ):
        status = jobs.ended(engine, ref := reads(engine, keys, source, **other))
        assert status.state == "failed", jobs.told(engine, ref)
        assert words in (status.verdict or {})["message"], status.verdict
        assert keys["AWS_SECRET_ACCESS_KEY"] not in str(status)


# ---- code and environments ----------------------------------------------------------------------


@pytest.fixture
def shipping(
    bed: Bed, keys: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesEngine]:
    """A site that has an object store, and no directory that pods could mount."""
    for name, value in {**keys, "AWS_ENDPOINT_URL": keys["url"]}.items():
        monkeypatch.setenv(name, value)
    made = jobs.engine(bed, tmp_path / "home", store=False, blobs="s3://scans/dromon")
    yield made
    jobs.stop_all(made)
    made.close()


def ship(engine: KubernetesEngine, folder: Path, registry: Callable[[str], None]) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(jobs.PREAMBLE + "import attr; say(me, attr.__name__)")
    asked = jobs.request(
        roles={"worker": {"replicas": 2, "command": "python train.py"}},
        environment={"packages": ["attrs"]},
    )
    os.rmdir(asked["cwd"])
    try:
        return str(engine.start({**asked, "cwd": str(folder)})["id"])
    except PackagingError as error:
        registry(error.message)
        raise


def test_code_and_packages_come_through_the_bucket_where_there_is_no_store(
    shipping: KubernetesEngine,
    keys: dict[str, str],
    tmp_path: Path,
    registry: Callable[[str], None],
) -> None:
    ref = ship(shipping, tmp_path / "work", registry)
    assert jobs.ended(shipping, ref).state == "succeeded", jobs.told(shipping, ref)
    assert sorted(jobs.texts(shipping, ref)) == ["worker-0 attr", "worker-1 attr"]
    own = [one for one in jobs.objects(shipping) if ref in one]
    assert not [one for one in own if "-code-" in one]  # nothing of it through the API server
    assert keys["AWS_SECRET_ACCESS_KEY"] not in json.dumps(shipping.request_of(ref))
    shipping.remove([ref])


def test_a_bucket_that_takes_nothing_from_us_is_said_before_anything_is_made(
    shipping: KubernetesEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    registry: Callable[[str], None],
) -> None:  # fmt: skip
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    before = set(jobs.objects(shipping))
    with pytest.raises(BucketUnusable, match=r"s3://scans/dromon/.* be written: .*signature"):
        ship(shipping, tmp_path / "work", registry)
    assert set(jobs.objects(shipping)) == before
