"""HTTP/1.1 over a plain socket: exact bytes out, answers parsed without help from a library."""

import socket
import time


class Closed(Exception):
    """The peer closed, or reset, the connection before the answer was complete."""


class Answer:
    """One HTTP answer: status, header pairs in order, body bytes, interim statuses before it."""

    def __init__(self, status, headers, body, interim):
        self.status = status
        self.headers = headers
        self.body = body
        self.interim = interim

    def header(self, name):
        """Value of the first header of that name, or None."""
        for key, value in self.headers:
            if key.lower() == name:
                return value
        return None


class Connection:
    """A TCP connection to host:port. Not thread-safe. Every read ends at the deadline given to it."""

    def __init__(self, address, timeout_s):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self.closed = False

    def close(self):
        self._socket.close()

    def send(self, data):
        """Sends all bytes; a peer that stops reading early is no error here."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True

    def half_close(self):
        self._socket.shutdown(socket.SHUT_WR)

    def _more(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no complete answer in time")
        self._socket.settimeout(left)
        try:
            data = self._socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.closed = True
            raise Closed()
        self._buffer += data

    def _until(self, mark, deadline):
        while mark not in self._buffer:
            self._more(deadline)
        head, _, self._buffer = self._buffer.partition(mark)
        return head

    def _exactly(self, count, deadline):
        while len(self._buffer) < count:
            self._more(deadline)
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def read(self, method, timeout_s):
        """The next final answer. Raises Closed or TimeoutError."""
        deadline = time.monotonic() + timeout_s
        interim = []
        while True:
            status, headers = self._head(deadline)
            if status >= 200:
                break
            interim.append(status)
        answer = Answer(status, headers, b"", interim)
        if method != "HEAD" and status not in (204, 304):
            answer.body = self._body(answer, deadline)
        return answer

    def _head(self, deadline):
        lines = self._until(b"\r\n\r\n", deadline).decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ", 2)[1])
        pairs = [line.split(":", 1) for line in lines[1:] if ":" in line]
        return status, [(k.strip(), v.strip()) for k, v in pairs]

    def _body(self, answer, deadline):
        if (answer.header("transfer-encoding") or "").lower() == "chunked":
            parts = []
            while True:
                size = int(self._until(b"\r\n", deadline).split(b";")[0], 16)
                if size == 0:
                    while self._until(b"\r\n", deadline):
                        pass
                    return b"".join(parts)
                parts.append(self._exactly(size, deadline))
                self._exactly(2, deadline)
        length = answer.header("content-length")
        if length is not None:
            return self._exactly(int(length), deadline)
        try:
            while True:
                self._more(deadline)
        except Closed:
            body, self._buffer = self._buffer, b""
            return body
