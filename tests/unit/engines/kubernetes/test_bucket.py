"""Archives put into an object store: once, whole, and in words where it does not take them."""

import hashlib

import pytest
from tests.unit.engines.kubernetes.shelf import shelf

from dromon.contexts.file import Context
from dromon.engines.kubernetes.bucket import Bucket, BucketUnusable
from dromon.engines.kubernetes.cluster import blobs_of
from dromon.errors import UsageError


@pytest.fixture
def there():
    with shelf() as made:
        yield made


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content" * 100_000)
    return str(path), f"{hashlib.sha256(path.read_bytes()).hexdigest()}.tar.gz"


def put(there, file, told=None):
    path, name = file
    bucket = Bucket("s3://b/pre/al", {**there.environ, "HOME": "/root"}, pause=0.01)
    bucket.put(path, name, told or (lambda done, total: None))
    return bucket


def test_a_file_is_sent_once_and_told_as_it_goes(there, file):
    told = []
    bucket = put(there, file, lambda done, total: told.append((done, total)))
    assert there.objects[f"pre/al/{file[1]}"] == b"content" * 100_000
    assert told[-1] == (700_000, 700_000)
    assert bucket.reach == there.environ  # and nothing else of the environment
    put(there, file)
    assert [words.split()[0] for words in there.asked] == ["HEAD", "PUT", "HEAD"]


def test_one_of_another_size_is_replaced(there, file):
    there.objects[f"pre/al/{file[1]}"] = b"half"
    put(there, file)
    assert there.objects[f"pre/al/{file[1]}"] == b"content" * 100_000


def test_a_server_in_trouble_is_asked_again(there, file):
    there.ill = 3
    put(there, file)
    assert there.asked[-1].startswith("PUT")


def test_who_may_not_write_is_told_in_the_servers_words(there, file):
    there.closed = True
    with pytest.raises(BucketUnusable, match=r"s3://b/pre/al/.* cannot be written: Access Denied"):
        put(there, file)
    assert len([words for words in there.asked if words.startswith("PUT")]) == 1


def test_what_is_not_what_its_name_says_is_not_taken(there, file):
    with pytest.raises(BucketUnusable):
        put(there, (file[0], f"{'0' * 64}.tar.gz"))
    assert there.objects == {}


def test_a_context_names_a_bucket(monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "al")
    context = Context("prod", "kubernetes", "current", blobs="s3://b/pre/")
    assert blobs_of(context) == "s3://b/pre/al"
    for wrong in ("b/pre", "s3://", "nfs://nas/x"):
        with pytest.raises(UsageError, match="no place of an object store"):
            blobs_of(context._replace(blobs=wrong))
