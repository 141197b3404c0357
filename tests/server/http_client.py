"""What the tests of this folder share: plain sockets, and replies taken apart without any HTTP library."""
import socket
import time


# Seconds that an answer may take on a busy machine; what is right takes a hundredth.
PATIENCE = 30.0


def connect(address, seconds=PATIENCE):
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
    else:
        sock = socket.socket()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.settimeout(seconds)
    sock.connect(address if isinstance(address, str) else ("127.0.0.1", address))
    return sock


def reset(sock):
    """Closes by a reset: nothing more is sent, and what has come is dropped."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def read_all(sock):
    """Everything until the server closes; what came so far if it resets or does not answer in time."""
    received = b""
    try:
        while True:
            piece = sock.recv(65536)
            if not piece:
                return received
            received += piece
    except (ConnectionResetError, TimeoutError, socket.timeout):
        return received


class Reply:
    """One reply read off a socket: status, headers (lower-case names), body."""

    def __init__(self, sock, rest=b"", has_body=True):
        self.sock = sock
        self.rest = rest
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        self.status = int(head[0].split(" ")[1])
        self.headers = {}
        for line in head[1:]:
            name, value = line.split(":", 1)
            self.headers[name.lower()] = value.strip()
        self.body = b""
        if self.status == 100 or not has_body:
            return
        if self.headers.get("transfer-encoding") == "chunked":
            while True:
                length = int(self._until(b"\r\n"), 16)
                self.body += self._take(length)
                self._take(2)
                if length == 0:
                    break
        elif "content-length" in self.headers:
            self.body = self._take(int(self.headers["content-length"]))
        else:
            self.body = self.rest + read_all(sock)

    def _more(self):
        piece = self.sock.recv(65536)
        if not piece:
            raise EOFError("the server closed within a reply")
        self.rest += piece

    def _until(self, mark):
        while mark not in self.rest:
            self._more()
        part, self.rest = self.rest.split(mark, 1)
        return part

    def _take(self, length):
        while len(self.rest) < length:
            self._more()
        part, self.rest = self.rest[:length], self.rest[length:]
        return part


def request(address, text, seconds=PATIENCE):
    """Sends bytes on a new connection and reads one reply."""
    with connect(address, seconds) as sock:
        sock.sendall(text)
        return Reply(sock)


def get(address, path, headers=""):
    return request(address, f"GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())


def post(address, path, body, headers=""):
    return request(
        address, f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
