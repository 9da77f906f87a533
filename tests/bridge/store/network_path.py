"""A network path to a server that a test can cut."""

import socket
import threading
from contextlib import suppress


class NetworkPath:
    """A TCP proxy to a server's socket file that can stop forwarding in both directions."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._ends: list[socket.socket] = []
        self._open = threading.Event()
        self._open.set()
        self._closed = False
        self._left = 0  # bytes to forward after the stop
        self.has_stopped = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop_forwarding(self, after: int) -> None:
        """Forward so many more bytes, then read and keep back all."""
        self._left = after
        self._open.clear()

    def resume(self) -> None:
        """Forward again, first what was kept back."""
        self._open.set()

    def close(self) -> None:
        self._closed = True
        self._open.set()
        for end in [self._listener, *self._ends]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._server)
            self._ends += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError, ValueError):
            while data := source.recv(65536):
                if not self._open.is_set():
                    first, data = data[: self._left], data[self._left :]
                    self._left -= len(first)
                    target.sendall(first)
                    self.has_stopped.set()
                self._open.wait()
                if self._closed:
                    return
                target.sendall(data)
            if self._open.is_set():
                target.shutdown(socket.SHUT_WR)
