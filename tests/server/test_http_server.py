#!/usr/bin/env python3
"""The HTTP server from outside, over plain sockets: what it refuses, whom it waits for, who leaves."""
import os
import random
import selectors
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from http_client import PATIENCE, Reply, connect, get, post, read_all, request, reset, wait_until

PROGRAM = sys.argv[1]


class Server:
    """The probe server, until the end of a with."""

    def __init__(self, *options, pass_fds=()):
        self.process = subprocess.Popen([PROGRAM, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        pass_fds=pass_fds)
        self.port = int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        code = self.process.wait(timeout=PATIENCE)
        self.process.stdout.close()
        assert code == 0, f"the server ended with {code}: 3 means that exchanges were left over"


def stats(server):
    """Streams that run, clients that left, requests refused, exchanges under way (this one included)."""
    return [int(number) for number in get(server.port, "/stats").body.split()]


GOOD = b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"

# Each must be refused, by a status or by closing, and must not be answered as a request.
PROBES = {
    "length and encoding": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "list of lengths": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na",
    "signed length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na",
    "hexadecimal length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\na",
    "negative length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\na",
    "huge length": b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\na",
    "gzip, chunked": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "unknown encoding": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": b"POST /echo HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two hosts": b"GET /echo HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "no host": b"GET /echo HTTP/1.1\r\n\r\n",
    "blank before colon": b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Probe : 1\r\n\r\n",
    "blank in name": b"GET /echo HTTP/1.1\r\nHost: x\r\nX Probe: 1\r\n\r\n",
    "empty name": b"GET /echo HTTP/1.1\r\nHost: x\r\n: 1\r\n\r\n",
    "empty name first": b"GET /echo HTTP/1.1\r\n: 1\r\nHost: x\r\n\r\n",
    "empty name and value": b"GET /echo HTTP/1.1\r\nHost: x\r\n:\r\n\r\n",
    "no colon": b"GET /echo HTTP/1.1\r\nHost: x\r\nprobe\r\n\r\n",
    "NUL in value": b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Probe: a\0b\r\n\r\n",
    "NUL at the end of a value": b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Probe: a\0\r\n\r\n",
    "NUL in name": b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Pr\0obe: a\r\n\r\n",
    "NUL in target": b"GET /ec\0ho HTTP/1.1\r\nHost: x\r\n\r\n",
    "CR in value": b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Probe: a\rb\r\n\r\n",
    "bell in value": b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Probe: a\x07b\r\n\r\n",
    "bare line feeds": b"GET /echo HTTP/1.1\nHost: x\n\n",
    "bare line feed after the request line": b"GET /echo HTTP/1.1\nHost: x\r\n\r\n",
    "bare line feed in the middle": b"GET /echo HTTP/1.1\r\nHost: x\nX-Probe: 1\r\n\r\n",
    "bare line feed after the last header": b"GET /echo HTTP/1.1\r\nHost: x\n\r\n",
    "bare line feed at the end": b"GET /echo HTTP/1.1\r\nHost: x\r\n\n",
    "folded line": b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Probe: a\r\n b\r\n\r\n",
    "folded with a tab": b"GET /echo HTTP/1.1\r\nX-Probe: a\r\n\tb\r\nHost: x\r\n\r\n",
    "blank first line of headers": b"GET /echo HTTP/1.1\r\n Host: x\r\n\r\n",
    "two blanks": b"GET  /echo HTTP/1.1\r\nHost: x\r\n\r\n",
    "blank in target": b"GET /ec ho HTTP/1.1\r\nHost: x\r\n\r\n",
    "tab in target": b"GET /ec\tho HTTP/1.1\r\nHost: x\r\n\r\n",
    "target without slash": b"GET echo HTTP/1.1\r\nHost: x\r\n\r\n",
    "broken escape": b"GET /echo?q=%4 HTTP/1.1\r\nHost: x\r\n\r\n",
    "escaped NUL": b"GET /echo%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "escaped line break": b"GET /echo?q=a%0d%0ab HTTP/1.1\r\nHost: x\r\n\r\n",
    "raw byte in target": b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
    "no version": b"GET /echo\r\nHost: x\r\n\r\n",
    "other protocol": b"GET /echo XTTP/1.1\r\nHost: x\r\n\r\n",
    "version 2": b"GET /echo HTTP/2.0\r\nHost: x\r\n\r\n",
    "method with a control character": b"G\x01T /echo HTTP/1.1\r\nHost: x\r\n\r\n",
    "long method": b"G" * 200 + b" /echo HTTP/1.1\r\nHost: x\r\n\r\n",
    "other expectation": b"GET /echo HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n",
    "many headers": b"GET /echo HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 300 + b"\r\n",
    "long header": b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Probe: " + b"a" * 100000 + b"\r\n\r\n",
    "long target": b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "bad chunk size": b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
    "TLS on a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "not HTTP": b"\r\n\xff\xfe\0\r\n\r\n",
}


def test_probes(server):
    """Every ambiguous request is refused and its connection closed, so that no second one can hide in it."""
    for name, text in PROBES.items():
        with connect(server.port, 3.0) as sock:
            sock.sendall(text + GOOD)
            try:
                sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            received = read_all(sock)
        assert not received.startswith(b"HTTP/1.1 200"), f"{name}: accepted: {received[:300]}"
        assert b"method=" not in received, f"{name}: what follows was taken for a request: {received[:300]}"
        if received:
            status = int(received.split(b" ")[1])
            assert 400 <= status <= 505, f"{name}: {received[:200]}"
    assert get(server.port, "/echo").status == 200


def test_echo(server):
    """Well-formed requests arrive as they were sent."""
    text = get(server.port, "/a%20b%2Fc?p=1&q=x+y%26%C3%A9&q=2", "X-Probe:  some  value\r\nCookie: a=b; c=d\r\n")
    assert text.status == 200 and text.headers["x-answer"] == "yes", text.headers
    lines = text.body.decode().split("\n")
    assert lines == ["method=GET", "path=/a b/c", "q=x y&é", "header=some  value", "peer=127.0.0.1", "body="], lines
    assert post(server.port, "/echo", b"\0binary\xff").body.endswith(b"body=\0binary\xff")
    absolute = request(server.port, b"GET http://x/echo?q=1 HTTP/1.1\r\nHost: x\r\n\r\n").body
    assert b"path=/echo\nq=1\n" in absolute, absolute
    old = request(server.port, b"GET /echo HTTP/1.0\r\nHost: x\r\n\r\n")
    assert old.status == 200


def test_keep_alive(server):
    """Several requests on one connection, also sent at once; chunked bodies; 100-continue."""
    chunked = (b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"3\r\nabc\r\n4;extension=1\r\ndefg\r\n0\r\n\r\n")
    with connect(server.port) as sock:
        sock.sendall(GOOD + chunked + GOOD)
        first = Reply(sock)
        second = Reply(sock, first.rest)
        third = Reply(sock, second.rest)
        assert [first.status, second.status, third.status] == [200, 200, 200]
        assert second.body.endswith(b"body=abcdefg"), second.body
        sock.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert Reply(sock).status == 100
        sock.sendall(b"ok")
        assert Reply(sock).body.endswith(b"body=ok")
        sock.sendall(b"HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n")
        assert Reply(sock, has_body=False).status == 200
    # Byte by byte is slow, not wrong.
    with connect(server.port) as sock:
        for byte in chunked:
            sock.sendall(bytes([byte]))
        assert Reply(sock).body.endswith(b"body=abcdefg")


def test_body_limit():
    with Server("body_limit=1000") as server:
        assert post(server.port, "/echo", b"a" * 1000).status == 200
        assert post(server.port, "/echo", b"a" * 1001).status == 413
        chunks = b"3e8\r\n" + b"a" * 1000 + b"\r\n"
        head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert request(server.port, head + chunks + b"0\r\n\r\n").status == 200
        assert request(server.port, head + chunks * 50 + b"0\r\n\r\n").status == 413
        # Half a body and a close: nothing reaches a handler.
        with connect(server.port) as sock:
            sock.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        wait_until(lambda: stats(server)[3] == 1, PATIENCE, "a request whose body never came is under way")


def test_deadlines():
    """Slow heads, slow bodies and idle connections end in time, whatever trickles in."""
    with Server("head=0.4", "body=0.6", "idle=0.5") as server:
        for name, start, drop, limit in [("head", b"GET /echo HTTP/1.1\r\n", b"a: b\r\n", 0.4),
                                         ("body", b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n", b"x", 0.6)]:
            began = time.monotonic()
            with connect(server.port) as sock:
                sock.sendall(start)
                try:
                    while time.monotonic() - began < PATIENCE:
                        sock.sendall(drop)
                        time.sleep(0.05)
                except OSError:
                    pass
                elapsed = time.monotonic() - began
                assert limit * 0.9 < elapsed < PATIENCE, f"slow {name}: cut after {elapsed:.2f} s"
            with connect(server.port) as sock:
                sock.sendall(start)
                reply = Reply(sock)
                assert reply.status == 408 and b"in time" in reply.body, reply.body
        with connect(server.port) as sock:
            began = time.monotonic()  # before the reply, which may be read late
            sock.sendall(GOOD)
            Reply(sock)
            assert read_all(sock) == b""
            assert 0.4 < time.monotonic() - began < PATIENCE
        # A handler that takes its time is not the client's fault.
        assert len(get(server.port, "/stream?count=3&ms=400").body.split()) == 6


def test_leaving(server):
    """A client that closes, or resets, is noticed at once although nothing is sent to it."""
    before = stats(server)[1]
    for leave in (socket.socket.close, reset):
        sock = connect(server.port)
        sock.sendall(b"GET /stream?count=2&ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while b"data: 0" not in received:  # the head comes alone or together with it
            received += sock.recv(4096)
        assert stats(server)[0] == 1
        leave(sock)
        # Without looking for it, it would be noticed after a minute.
        wait_until(lambda: stats(server)[0] == 0, PATIENCE, "the stream goes on without its client")
    assert stats(server)[1] == before + 2


def test_leaving_before_the_reply(server):
    """A client that closes while it waits for a reply that has not begun is noticed at once too."""
    before = stats(server)[1]
    for version, leave in ((b"1.1", socket.socket.close), (b"1.1", reset), (b"1.0", socket.socket.close)):
        sock = connect(server.port)
        sock.sendall(b"GET /late?ms=60000 HTTP/" + version + b"\r\nHost: x\r\n\r\n")
        wait_until(lambda: stats(server)[0] == 1, PATIENCE, "the request does not arrive")
        leave(sock)
        wait_until(lambda: stats(server)[0] == 0, PATIENCE, "the request goes on without its client")
    assert stats(server)[1] == before + 3


def test_half_closed(server):
    """B93: a client that only closes its half gets its reply, whether it began before or after."""
    before = stats(server)[1]
    # The library treats the connection that was idle for longest apart: beside others none of these is it.
    others = [connect(server.port) for _ in range(4)]
    for sock in others:
        sock.sendall(b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
        assert Reply(sock).status == 200
    for target, wanted in (("/echo?q=1", b"q=1"), ("/late?ms=300", b"late"), ("/big?bytes=3000000", b"abc"),
                           ("/stream?count=5&ms=50", b"data: 4")):
        for delay in (0.0, 0.1):
            with connect(server.port) as sock:
                sock.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                time.sleep(delay)
                sock.shutdown(socket.SHUT_WR)
                received = read_all(sock)
            # Interim replies, if any, then the one that counts.
            while received.startswith(b"HTTP/1.1 100 "):
                received = received.split(b"\r\n\r\n", 1)[1]
            assert received.startswith(b"HTTP/1.1 200 ") and wanted in received, (target, delay, received[:300])
    for sock in others:
        sock.close()
    assert stats(server)[1] == before


def test_slow_readers():
    """Who does not read is cut off: by bytes that wait, and by time."""
    with Server("write_limit=1000000", "write=0.5") as server:
        sock = connect(server.port)
        sock.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: stats(server)[1] == 1, PATIENCE, "a flood is not ended")
        sock.close()
        sock = connect(server.port)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"GET /big?bytes=20000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: stats(server)[3] == 1, PATIENCE, "a reply that nobody reads is kept")
        sock.close()
        whole = get(server.port, "/big?bytes=3000000")
        assert len(whole.body) == 3000000 and whole.body[26 * 1000:26 * 1001] == bytes(range(97, 123))


def test_connection_limit():
    with Server("connections=5") as server:
        held = [connect(server.port) for _ in range(5)]
        for sock in held:
            sock.sendall(GOOD[:-2])
        time.sleep(0.1)
        refused = get(server.port, "/echo")
        assert refused.status == 503 and refused.headers["retry-after"] == "1", refused.headers
        held.pop().close()
        wait_until(lambda: get(server.port, "/echo").status == 200, PATIENCE, "a freed connection is not used again")
        for sock in held:
            sock.sendall(b"\r\n")
            assert Reply(sock).status == 200
            sock.close()


def test_drain():
    """What runs goes on to its end; idle connections close; new requests find nobody."""
    with Server() as server:
        idle = connect(server.port)
        idle.sendall(GOOD)
        Reply(idle)
        stream = connect(server.port)
        stream.sendall(b"GET /stream?count=20&ms=30 HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: stats(server)[0] == 1, PATIENCE, "the stream does not begin")
        assert get(server.port, "/drain").status == 200
        assert read_all(idle) == b""
        try:
            connect(server.port).close()
            raise AssertionError("a connection was taken while draining")
        except ConnectionRefusedError:
            pass
        assert Reply(stream).body.count(b"data:") == 20
        idle.close()
        stream.close()


def test_unix_socket(folder):
    path = os.path.join(folder, "socket")
    with Server(f"unix={path}") as server:
        assert server.port == 0
        assert b"peer=unix" in get(path, "/echo").body
        second = subprocess.run([PROGRAM, f"unix={path}"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert second.returncode == 1 and "cannot be listened on" in second.stderr, second.stderr
    assert not os.path.exists(path)
    # A file that a killed server left behind is no obstacle.
    left = socket.socket(socket.AF_UNIX)
    left.bind(path)
    left.close()
    with Server(f"unix={path}"):
        assert get(path, "/echo").status == 200


def test_inherited_socket(folder):
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    number = listening.fileno()
    with Server(f"socket={number}", pass_fds=(number,)) as server:
        listening.close()
        assert server.port == port and get(port, "/echo").status == 200
    with open(os.path.join(folder, "plain"), "w", encoding="utf-8") as plain:
        number = plain.fileno()
        wrong = subprocess.run([PROGRAM, f"socket={number}"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               pass_fds=(number,))
        assert wrong.returncode == 1 and "no socket that listens" in wrong.stderr, wrong.stderr


def test_tls(folder):
    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    with Server(f"certificate={certificate}", f"key={key}", "head=0.5") as server:
        with context.wrap_socket(connect(server.port)) as sock:
            sock.sendall(b"GET /stream?count=5&ms=20 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert Reply(sock).body.count(b"data:") == 5
            sock.sendall(b"GET /stream?count=2&ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")
            sock.recv(1000)
        # Nobody shakes hands: cut off by the deadline of heads.
        with connect(server.port) as sock:
            assert read_all(sock) == b""
    for missing in (f"key={key}", f"certificate={certificate}"):
        wrong = subprocess.run([PROGRAM, missing], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert wrong.returncode == 1 and "TLS needs both files" in wrong.stderr, wrong.stderr


def read_streams(streams, leaving):
    """Reads all streams until they end; the leaving ones close after a few lines. The text of the others."""
    texts = {sock: b"" for sock in streams}
    done = []
    selector = selectors.DefaultSelector()
    for sock in streams:
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ)
    deadline = time.monotonic() + 4 * PATIENCE
    while selector.get_map():
        assert time.monotonic() < deadline, "streams hang"
        for key, _ in selector.select(1.0):
            sock = key.fileobj
            piece = sock.recv(65536)
            texts[sock] += piece
            if texts[sock].endswith(b"0\r\n\r\n"):
                done.append((sock, time.monotonic()))
            is_over = texts[sock].endswith(b"0\r\n\r\n") or not piece
            if is_over or (sock in leaving and texts[sock].count(b"data:") >= leaving[sock]):
                selector.unregister(sock)
                sock.close()
    return texts, done


def test_many_streams(io_threads):
    """256 streams, 30 % of whose clients leave: the others are whole, and none waits longer than the rest."""
    count = 40
    chance = random.Random(7)
    with Server(f"io={io_threads}") as server:
        began = time.monotonic()
        streams = [connect(server.port) for _ in range(256)]
        leaving = {sock: chance.randrange(1, 30) for sock in streams if chance.random() < 0.3}
        for sock in streams:
            # Whoever is to leave cannot have had all by then, however slowly it reads.
            lines = 1000000 if sock in leaving else count
            sock.sendall(f"GET /stream?count={lines}&ms=25 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        texts, done = read_streams(streams, leaving)
        stayed = [sock for sock in streams if sock not in leaving]
        for sock in stayed:
            lines = [line for line in texts[sock].split(b"\n") if line.startswith(b"data: ")]
            assert [int(line[6:]) for line in lines] == list(range(count)), texts[sock][-200:]
        assert len(done) == len(stayed)
        times = [moment for _, moment in done]
        # Where others have the processors too, all of them take longer.
        spread = max(times) - min(times)
        assert spread < 2.0 or spread < 0.5 * (max(times) - began), f"streams that began together end {spread:.1f} s apart"
        wait_until(lambda: stats(server)[0] == 0 and stats(server)[3] == 1, PATIENCE, "streams are left over")
        assert stats(server)[1] == len(leaving), (stats(server), len(leaving))


def test_random_bytes(server):
    """Mutations of good and bad requests never stop the server."""
    chance = random.Random(11)
    seeds = list(PROBES.values()) + [GOOD]
    for _ in range(400):
        text = bytearray(chance.choice(seeds)[:2000])
        for _ in range(chance.randrange(1, 6)):
            position = chance.randrange(len(text))
            text[position:position + chance.randrange(3)] = bytes([chance.choice(b"\r\n\0 :%\x80GH1/")])
        with connect(server.port) as sock:
            sock.sendall(bytes(text))
            try:
                sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass
    assert get(server.port, "/echo").status == 200


def main():
    with tempfile.TemporaryDirectory() as folder:
        with Server() as server:
            for test in (test_echo, test_keep_alive, test_probes, test_leaving, test_leaving_before_the_reply, test_half_closed,
                         test_random_bytes):
                test(server)
        test_body_limit()
        test_deadlines()
        test_slow_readers()
        test_connection_limit()
        test_drain()
        test_unix_socket(folder)
        test_inherited_socket(folder)
        test_tls(folder)
        for io_threads in (1, 3):
            test_many_streams(io_threads)
    print("all passed")


main()
