"""HDFS for the client: hdfs-native for large files, WebHDFS for all else; either alone if need be.

WebHDFS needs no second program and is quick with small files; hdfs-native is quick with large
ones. hdfs-native is not used where it is not installed, where somebody else is to be acted for,
or once it could not reach a DataNode; WebHDFS is not used where no NameNode answers it.
"""

from __future__ import annotations

import importlib.util
import io
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar

from dromon.hadoop import addresses
from dromon.hadoop.addresses import NameService
from dromon.hadoop.hdfsfaults import HdfsError, HdfsUnreachable, NoDataNode
from dromon.hadoop.site import Site
from dromon.hadoop.webhdfs import Listing, Status, WebHdfs

if TYPE_CHECKING:
    from dromon.storage.native import Native

    Way: TypeAlias = Native | WebHdfs

T = TypeVar("T")
LARGE = 1024 * 1024  # from here on hdfs-native is worth its loading
NATIVE, WEB = "hdfs-native", "WebHDFS"
Progress = Callable[[int, int], None]  # bytes done, bytes in all


class Hdfs:
    """One file system. Paths are absolute. Threads may share it; errors are ``hdfsfaults``."""

    def __init__(
        self, site: Site, service: NameService, user: str, *, patience: float = 30.0, way: str = ""
    ) -> None:
        self.user = user
        self._site = site
        self._service = service
        self._patience = patience
        self._web = WebHdfs([node.web for node in service.nodes], user, patience=patience)
        self._lock = threading.Lock()
        self._loaded: Native | None = None
        self._no_native = "" if way != WEB else "not wanted"
        self._no_web = "" if way != NATIVE else "not wanted"
        self._settled = bool(way)

    @classmethod
    def connect(
        cls, site: Site, user: str, *, url: str = "", patience: float = 30.0, way: str = ""
    ) -> Hdfs:
        """The site's file system, or the one ``url`` names. Nothing is asked yet.

        ``patience``: seconds for which one call tries again what may yet succeed (a NameNode that
        restarts, safe mode). ``way``: NATIVE or WEB, and nothing else is used.
        """
        return cls(site, addresses.name_service(site, url), user, patience=patience, way=way)

    @property
    def url(self) -> str:
        """``hdfs://nameservice``: what stands before a path."""
        return f"hdfs://{self._service.name}"

    @property
    def how(self) -> str:
        """Which way is used, and why not the other: for people."""
        native, web = self._native(), self._small()
        if native is None:
            return WEB if self._no_native == "not wanted" else f"{WEB} ({self._no_native})"
        if web is native:
            return NATIVE if self._no_web == "not wanted" else f"{NATIVE} ({self._no_web})"
        return f"{NATIVE} for large files, {WEB} for the rest"

    def close(self) -> None:
        self._web.close()

    # ---- bytes --------------------------------------------------------------------------------

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """What is there now; nothing at or past the end."""
        if length is None or length < LARGE:
            return self._small().read(path, offset, length)
        return self._large(lambda way: way.read(path, offset, length))

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """A stream from there to what is the end now."""
        return io.BufferedReader(_Stream(self, path, offset), LARGE)

    def write(
        self,
        path: str,
        data: bytes,
        *,
        overwrite: bool = True,
        permission: str = "600",
        make_parents: bool = True,
    ) -> None:
        """A small file. See ``WebHdfs.write``."""
        self._small().write(
            path, data, overwrite=overwrite, permission=permission, make_parents=make_parents
        )

    def upload(
        self,
        source: str | os.PathLike[str],
        path: str,
        *,
        permission: str = "600",
        progress: Progress | None = None,
    ) -> int:
        """A local file, over whatever is at ``path``. Returns its bytes. What is interrupted
        leaves a part behind: upload beside the place, then rename."""
        with open(source, "rb") as file:
            size = os.fstat(file.fileno()).st_size

            def send(way: Way) -> None:
                file.seek(0)
                if isinstance(way, WebHdfs):
                    body = _Counted(file, size, progress)
                    way.write(path, body, permission=permission)  # type: ignore[arg-type]
                else:
                    way.write(path, file, permission=permission, progress=progress)

            if size < LARGE:
                send(self._small())
            else:
                self._large(send)
        return size

    # ---- names --------------------------------------------------------------------------------

    def stat(self, path: str) -> Status | None:
        return self._small().stat(path)

    def list(self, path: str) -> Listing:
        return self._small().list(path)

    def make_directory(self, path: str, permission: str = "700") -> None:
        self._small().make_directory(path, permission)

    def rename(self, path: str, to: str, *, overwrite: bool = False) -> bool:
        return self._small().rename(path, to, overwrite=overwrite)

    def delete(self, path: str, recursive: bool = True) -> bool:
        return self._small().delete(path, recursive)

    def set_times(self, path: str, mtime_ms: int) -> None:
        self._small().set_times(path, mtime_ms)

    def set_permission(self, path: str, permission: str) -> None:
        self._small().set_permission(path, permission)

    # ---- which way ----------------------------------------------------------------------------

    def _large(self, action: Callable[[Way], T]) -> T:
        native = self._native()
        if native is None:
            return action(self._web)
        try:
            return action(native)
        except (HdfsUnreachable, NoDataNode) as error:
            # Only where a line could not be had: what the NameNode says holds for both ways.
            if error.exception != "NotConnected" or self._no_web:
                raise
            try:
                result = action(self._web)
            except HdfsError:
                raise error from None
            self._no_native = "hdfs-native reaches no DataNode from here"
            return result

    def _small(self) -> Way:
        with self._lock:
            if not self._settled:
                self._settle()
                self._settled = True
        if not self._no_web:
            return self._web
        return self._native() or self._web

    def _settle(self) -> None:
        """Does the NameNode's web side answer? Asked once, briefly."""
        if self._site.get("hadoop.security.authentication").lower() == "kerberos":
            self._no_web = "WebHDFS would want Kerberos"
            return
        nodes = [node.web for node in self._service.nodes]
        try:
            WebHdfs(nodes, self.user, patience=1.0).stat("/")
            return
        except HdfsUnreachable:
            native = self._native(patience=1.0)
        except HdfsError:
            return  # it answers
        try:
            if native is not None:
                native.stat("/")
                self._no_web = f"{WEB} at {' and '.join(nodes)} does not answer"
        except HdfsError:
            return  # HDFS as a whole is away: whoever asks waits for it

    def _native(self, patience: float | None = None) -> Native | None:
        if self._no_native:
            return None
        if self._loaded is not None and patience is None:
            return self._loaded
        if importlib.util.find_spec("hdfs_native") is None:
            self._no_native = "hdfs-native is not installed"
            return None
        from dromon.storage import native

        if native.acts_as() != self.user:
            self._no_native = f"hdfs-native acts as {native.acts_as()}, not as {self.user}"
            return None
        if patience is not None:
            return native.Native(self._site, self._service, patience=patience)
        self._loaded = native.Native(self._site, self._service, patience=self._patience)
        return self._loaded


class _Stream(io.RawIOBase):
    """By hdfs-native, and from where it fails to reach a DataNode on by WebHDFS."""

    def __init__(self, hdfs: Hdfs, path: str, offset: int) -> None:
        self._hdfs = hdfs
        self._path = path
        self._offset = offset
        self._way: Way | None = None
        self._file: BinaryIO = hdfs._large(self._opened)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        def some(way: Way) -> bytes:
            if way is not self._way:
                self._file = self._opened(way)
            return self._file.read(len(memoryview(buffer)))

        data = self._hdfs._large(some)
        memoryview(buffer)[: len(data)] = data
        self._offset += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _opened(self, way: Way) -> BinaryIO:
        file = way.open(self._path, self._offset)
        self._way = way
        return file


class _Counted:
    """A file that tells how far it was read; http.client reads it block by block."""

    def __init__(self, file: BinaryIO, total: int, progress: Progress | None) -> None:
        self._file = file
        self._total = total
        self._progress = progress

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        if self._progress is not None and data:
            self._progress(self._file.tell(), self._total)
        return data

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()
