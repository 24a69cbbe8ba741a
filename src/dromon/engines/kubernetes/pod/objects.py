"""What lies under a prefix of an S3 bucket, fetched into a directory. Nothing is sent from here.

Any server that speaks S3 will do. The address and the keys are those that every S3 tool reads.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

VARIABLES = (
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
)  # fmt: skip
REGION = "us-east-1"  # what servers that have no regions go by
NOTHING = hashlib.sha256(b"").hexdigest()
PIECE = 1 << 18
AT_ONCE = 4
TRIES, PAUSE = 5, 0.5  # seconds before the second try, doubled for each further one
TIMEOUT = 60.0  # seconds of silence
AGAIN = (429, 500, 502, 503, 504)


class Unavailable(OSError):
    """In words, with the address that was asked for."""


@dataclass(frozen=True)
class Bucket:
    name: str
    url: str  # without a slash at its end
    region: str = REGION
    key: str = ""  # its id; "": nobody in particular asks
    secret: str = ""
    token: str = ""
    pause: float = PAUSE


def bucket(name: str, environ: Mapping[str, str], pause: float = PAUSE) -> Bucket:
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or REGION
    server = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    url = f"{server.rstrip('/')}/{name}"
    if not server:
        # A certificate of Amazon's is for names without dots.
        host = f"s3.{region}.amazonaws.com"
        url = f"https://{host}/{name}" if "." in name else f"https://{name}.{host}"
    return Bucket(
        name, url, region, environ.get("AWS_ACCESS_KEY_ID", ""),
        environ.get("AWS_SECRET_ACCESS_KEY", ""), environ.get("AWS_SESSION_TOKEN", ""), pause,
    )  # fmt: skip


def parts(source: str) -> tuple[str, str]:
    """s3://BUCKET/PREFIX in two."""
    name, _, prefix = source[len("s3://") :].partition("/")
    return name, prefix.strip("/")


def fetch(source: str, folder: str, environ: Mapping[str, str], pause: float = PAUSE) -> int:
    """All of it, each file under its name beyond the prefix: how many there were."""
    name, prefix = parts(source)
    place = bucket(name, environ, pause)
    found = {key: _inside(key, prefix) for key in keys(place, prefix)}
    wanted = {key: path for key, path in found.items() if path}
    if not wanted:
        raise Unavailable(f"{source}: there is nothing")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(_fetch, place, k, folder, p) for k, p in wanted.items()]:
            done.result()
    return len(wanted)


def keys(place: Bucket, prefix: str) -> Iterator[str]:
    asked = {"encoding-type": "url", "list-type": "2", "prefix": prefix}
    while True:
        with _open(place, "", asked) as answer:
            page = ElementTree.fromstring(answer.read())
        for each in page.iterfind("{*}Contents/{*}Key"):
            yield unquote(each.text or "")
        token = page.findtext("{*}NextContinuationToken")
        if not token:
            return
        asked["continuation-token"] = token


def fetch_one(source: str, path: str, environ: Mapping[str, str], pause: float = PAUSE) -> None:
    """One object, into a file of another name."""
    name, key = parts(source)
    _fetch(bucket(name, environ, pause), key, os.path.dirname(path), os.path.basename(path))


def signed(
    place: Bucket,
    path: str,
    query: Mapping[str, str],
    now: float,
    method: str = "GET",
    content: str = NOTHING,
) -> tuple[str, dict[str, str]]:
    """The address and headers of a request, by Amazon's version 4. `content`: sha256 of a body."""
    target = urlsplit(place.url)
    where = quote(f"{target.path}/{path}", safe="/-_.~")
    pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in query.items())
    asked = "&".join(f"{name}={value}" for name, value in pairs)
    address = f"{target.scheme}://{target.netloc}{where}{f'?{asked}' if asked else ''}"
    if not place.key:
        return address, {}
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    headers = {"host": target.netloc, "x-amz-content-sha256": content, "x-amz-date": stamp}
    if place.token:
        headers["x-amz-security-token"] = place.token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"{method}\n{where}\n{asked}\n{lines}\n{names}\n{content}"
    scope = f"{stamp[:8]}/{place.region}/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{place.secret}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"):
        last = hmac.new(key, part.encode(), hashlib.sha256)
        key = last.digest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={place.key}/{scope},SignedHeaders={names},"
        f"Signature={last.hexdigest()}"
    )
    return address, headers


def _inside(key: str, prefix: str) -> str:
    """The path of an object under the directory, or "" where it is none of it."""
    if key.endswith("/"):  # what some tools leave for a directory
        return ""
    if key == prefix:
        path = key.rpartition("/")[2]
    elif not prefix or key.startswith(f"{prefix}/"):
        path = key[len(prefix) :].removeprefix("/") if prefix else key
    else:
        return ""
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise Unavailable(f"{key!r} is no name that a file can have")
    return path


def _fetch(place: Bucket, key: str, folder: str, path: str) -> None:
    full = os.path.join(folder, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    for number in range(TRIES):
        try:
            with _open(place, key, {}) as answer, open(f"{full}.partial", "wb") as file:
                while piece := answer.read(PIECE):
                    file.write(piece)
                if answer.length:
                    raise http.client.IncompleteRead(b"", answer.length)
            break
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            if number + 1 == TRIES:
                raise Unavailable(f"s3://{place.name}/{key}: {error or 'cut off'}") from None
            time.sleep(place.pause * 2**number)
    os.chmod(f"{full}.partial", 0o444)
    os.replace(f"{full}.partial", full)


def _open(place: Bucket, path: str, query: Mapping[str, str]) -> Any:
    """The answer, asked for again while that may help."""
    for number in range(TRIES):
        address, headers = signed(place, path, query, time.time())
        request = urllib.request.Request(address, headers=headers)
        try:
            return urllib.request.urlopen(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            words, may_pass = words_of(error), error.code in AGAIN
        except OSError as error:
            words, may_pass = str(getattr(error, "reason", error)), True
        if not may_pass or number + 1 == TRIES:
            raise Unavailable(f"s3://{place.name}/{path or query['prefix']}: {words}") from None
        time.sleep(place.pause * 2**number)
    raise AssertionError("the last try has its end")


def words_of(error: urllib.error.HTTPError) -> str:
    with error:
        said = error.read(10_000)
    try:
        told = ElementTree.fromstring(said).findtext("{*}Message") or ""
    except ElementTree.ParseError:
        told = ""
    return f"{told or error.reason} ({error.code})"
