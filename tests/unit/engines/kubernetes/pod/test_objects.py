"""Objects of a bucket as files, and how a request for them is signed."""

import http.server
import os
import threading
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from dromon.engines.kubernetes.pod import objects
from dromon.engines.kubernetes.pod.objects import Bucket, Unavailable, bucket, fetch, signed

# From Amazon's own description of the signature, "Signature Calculations: examples".
AMAZON = Bucket(
    "examplebucket", "https://examplebucket.s3.amazonaws.com", "us-east-1",
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)  # fmt: skip
THEN = 1369353600.0  # 2013-05-24


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ({"lifecycle": ""}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ({"prefix": "J", "max-keys": "2"},
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)  # fmt: skip
def test_requests_are_signed_as_amazon_describes(query, signature):
    address, headers = signed(AMAZON, "", query, THEN)
    assert address.startswith("https://examplebucket.s3.amazonaws.com/?")
    assert headers["x-amz-date"] == "20130524T000000Z"
    assert headers["authorization"].endswith(f"Signature={signature}")


def test_a_session_token_is_signed_too_and_nobody_signs_without_a_key():
    token = Bucket("b", "http://s/b", key="k", secret="s", token="t")
    headers = signed(token, "a b", {}, THEN)[1]
    assert headers["x-amz-security-token"] == "t"
    assert "x-amz-security-token" in headers["authorization"]
    assert signed(Bucket("b", "http://s/b"), "ä b", {}, THEN) == ("http://s/b/%C3%A4%20b", {})


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "https://b1.s3.us-east-1.amazonaws.com"),
        ({"AWS_REGION": "eu-west-1"}, "https://b1.s3.eu-west-1.amazonaws.com"),
        ({"AWS_ENDPOINT_URL": "http://minio:9000/"}, "http://minio:9000/b1"),
    ],
)
def test_where_a_bucket_is_asked_for(environ, url):
    assert bucket("b1", environ).url == url


class Store(http.server.BaseHTTPRequestHandler):
    """A bucket `b`, two keys to a page; ill for as many answers as it is told."""

    files: dict[str, bytes]
    ill = 0

    def log_message(self, *words):
        pass

    def do_GET(self):
        if Store.ill:
            Store.ill -= 1
            return self.answer(503, b"<Error><Message>slow down</Message></Error>")
        target = urlsplit(self.path)
        key = unquote(target.path).removeprefix("/b").removeprefix("/")
        if key:
            return self.answer(200, self.files[key])
        asked = {name: values[0] for name, values in parse_qs(target.query, True).items()}
        if asked["prefix"].startswith("secret"):
            return self.answer(403, b"<Error><Message>Access Denied</Message></Error>")
        found = sorted(name for name in self.files if name.startswith(asked["prefix"]))
        begin = int(asked.get("continuation-token", 0))
        more = f"<NextContinuationToken>{begin + 2}</NextContinuationToken>"
        listed = "".join(
            f"<Contents><Key>{name.replace(' ', '%20')}</Key></Contents>"
            for name in found[begin : begin + 2]
        )
        space = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
        page = f"<ListBucketResult {space}>{listed}{more if found[begin + 2 :] else ''}"
        self.answer(200, f"{page}</ListBucketResult>".encode())

    def answer(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def environ():
    Store.ill = 0
    Store.files = {
        "data/a b.txt": b"one", "data/deep/c": b"two" * 100_000, "data/deep/": b"",
        "data/e": b"", "database": b"another", "alone": b"three",
    }  # fmt: skip
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}"}
    server.shutdown()
    server.server_close()
    thread.join()


def found_in(folder):
    return {
        os.path.relpath(os.path.join(at, name), folder): os.stat(os.path.join(at, name))
        for at, _, names in os.walk(folder)
        for name in names
    }


def test_what_is_under_a_prefix_becomes_files_and_nothing_beside_it(environ, tmp_path):
    assert fetch("s3://b/data/", str(tmp_path), environ) == 3
    found = found_in(tmp_path)
    assert {name: stat.st_size for name, stat in found.items()} == {
        "a b.txt": 3,
        "deep/c": 300_000,
        "e": 0,
    }
    assert {stat.st_mode & 0o777 for stat in found.values()} == {0o444}


def test_a_single_object_is_a_file_of_its_name_and_a_bucket_is_all_of_it(environ, tmp_path):
    assert fetch("s3://b/alone", str(tmp_path / "one"), environ) == 1
    assert (tmp_path / "one/alone").read_bytes() == b"three"
    assert fetch("s3://b", str(tmp_path / "all"), environ) == 5
    assert (tmp_path / "all/data/deep/c").stat().st_size == 300_000


def test_a_server_that_is_ill_is_asked_again_but_not_for_ever(environ, tmp_path):
    Store.ill = objects.TRIES - 1
    assert fetch("s3://b/data", str(tmp_path), environ, 0.01) == 3
    Store.ill = 1000
    with pytest.raises(Unavailable, match=r"s3://b/data: slow down \(503\)"):
        fetch("s3://b/data", str(tmp_path), environ, 0.01)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("s3://b/none", "s3://b/none: there is nothing"),
        ("s3://b/secret", r"s3://b/secret: Access Denied \(403\)"),
    ],
)
def test_what_cannot_be_had_is_said(environ, tmp_path, source, words):
    with pytest.raises(Unavailable, match=words):
        fetch(source, str(tmp_path), environ)


def test_a_name_that_leads_out_of_the_directory_is_refused(environ, tmp_path):
    Store.files["data/../../etc/passwd"] = b"x"
    with pytest.raises(Unavailable, match="no name that a file can have"):
        fetch("s3://b/data", str(tmp_path / "in"), environ)
    assert not (tmp_path / "etc").exists()
