"""The network between an agent and its coordinator, which can fail in the ways networks do."""

import socket
import threading


class Gate:
    """Listens at `port` and passes on to `target`. `cut`: all lines are reset, and nobody is let in
    until `mend`. `swallow`: lines stay up on both sides, and nothing comes through them any more,
    nor through new ones."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.lines = 0  # that came through, in all
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._swallows = False
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for one in pair:
                # Reset, as when the other side knows nothing of the line.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                one.close()

    def swallow(self) -> None:
        self._swallows = True

    def mend(self) -> None:
        self._swallows = False
        if self._listener.fileno() < 0:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        if self._listener.fileno() >= 0:
            self.cut()
        for thread in self._threads:
            thread.join(10)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # nobody listens there yet
                near.close()
                continue
            with self._lock:
                self._pairs.append((near, far))
            self.lines += 1
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pass_on, args=(source, sink), daemon=True)
                thread.start()
                self._threads.append(thread)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        lost = False  # a byte that was swallowed never comes again, nor what follows it
        try:
            while data := source.recv(65536):
                lost = lost or self._swallows
                if not lost:
                    sink.sendall(data)
            if not lost:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
