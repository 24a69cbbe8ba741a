"""A server that keeps objects of a bucket `b`, as far as S3 goes for whoever puts and gets them."""

import hashlib
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote


class Shelf:
    """`ill`: how many answers fail yet; `closed`: nobody may write."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.ill = 0
        self.closed = False
        self.environ: dict[str, str] = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


@contextmanager
def shelf() -> Iterator[Shelf]:
    made = Shelf()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

        def serve(self) -> None:
            key = unquote(self.path).removeprefix("/b/")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made.asked.append(f"{self.command} {key}")
            if made.ill:
                made.ill -= 1
                self.answer(503, b"<Error><Message>slow down</Message></Error>")
            elif self.command == "PUT" and made.closed:
                self.answer(403, b"<Error><Message>Access Denied</Message></Error>")
            elif self.command == "PUT":
                # A body that is not what was signed is not taken.
                whole = hashlib.sha256(body).hexdigest() == self.headers["x-amz-content-sha256"]
                whole = whole and "form" not in self.headers["Content-Type"]
                if whole:
                    made.objects[key] = body
                self.answer(200 if whole else 400, b"")
            elif key in made.objects:
                self.answer(200, made.objects[key])
            else:
                self.answer(404, b"<Error><Message>no such key</Message></Error>")

        do_GET = do_PUT = do_HEAD = serve  # noqa: N815

        def answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
