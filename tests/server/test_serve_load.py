#!/usr/bin/env python3
"""
Many clients at once: 256 streams of which 30 % leave at random, over and over for SECONDS; the others are whole
and right, nothing is left over, memory stays flat. Then 1000 streams that wait: what they cost the front.
"""
import json
import os
import random
import selectors
import sys
import time

from http_client import Reply, wait_until
from serve_program import PATIENCE, Serve, story, stream_text

PROGRAM = sys.argv[1]
MODEL = sys.argv[2] + "/models/mini-v4"
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 6.0
STREAMS = 256
CHANCE = random.Random(5)


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) * 1024


def is_sanitized(server):
    """A sanitizer's own memory would be measured."""
    with open(f"/proc/{server.process.pid}/maps", encoding="ascii") as file:
        text = file.read()
    return "libasan" in text or "libtsan" in text


def open_files(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def live(server):
    return json.loads(server.get("/live").body)


def requests():
    """Six requests, with answers of different lengths."""
    return [story(10 + 7 * i, messages=[{"role": "user", "content": f"Tell me a story about {i} foxes."}])
            for i in range(6)]


def expected_texts(server):
    return [stream_text(server.post("/v1/chat/completions", {**body, "stream": True}).body) for body in requests()]


def is_whole(bytes_so_far):
    return bytes_so_far.endswith(b"0\r\n\r\n")


def unchunk(received):
    head, rest = received.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200"), head
    body = b""
    while rest:
        length, rest = rest.split(b"\r\n", 1)
        body += rest[:int(length, 16)]
        rest = rest[int(length, 16) + 2:]
    return body


class Load:
    """Keeps STREAMS streams open; each is a socket with its request's number and how much it reads before it leaves."""

    def __init__(self, server, expected):
        self.server = server
        self.expected = expected
        self.selector = selectors.DefaultSelector()
        self.received = {}
        self.finished = self.left = 0

    def add(self):
        number = CHANCE.randrange(len(self.expected))
        sock = self.server.open_stream(requests()[number])
        sock.setblocking(False)
        patience = CHANCE.randrange(1, 8000) if CHANCE.random() < 0.3 else None
        self.selector.register(sock, selectors.EVENT_READ, (number, patience))
        self.received[sock] = b""

    def close(self, sock):
        self.selector.unregister(sock)
        sock.close()
        return self.received.pop(sock)

    def read(self, key):
        sock = key.fileobj
        number, patience = key.data
        piece = sock.recv(1 << 16)
        self.received[sock] += piece
        length = len(self.received[sock])
        if is_whole(self.received[sock]):
            text = stream_text(unchunk(self.close(sock)))
            assert text == self.expected[number], (text, self.expected[number])
            self.finished += 1
        elif patience is not None and length >= patience:
            self.close(sock)
            self.left += 1
        else:
            assert piece, "a stream was cut off"

    def run(self, seconds, least):
        """For so long, and until so many streams have ended one way or the other."""
        end = time.monotonic() + seconds
        last = end + 4 * PATIENCE

        def goes_on():
            return time.monotonic() < end or self.finished + self.left < least

        while goes_on() or self.received:
            assert time.monotonic() < last, f"{len(self.received)} streams hang"
            while len(self.received) < STREAMS and goes_on():
                self.add()
            for key, _ in self.selector.select(0.5):
                self.read(key)


def test_leaving(server):
    expected = expected_texts(server)
    assert all(is_done and text for text, is_done in expected)
    load = Load(server, expected)
    load.run(SECONDS / 3, STREAMS)
    warm_bytes, warm_files = resident_bytes(server), open_files(server)
    load.run(SECONDS * 2 / 3, 2 * STREAMS)
    assert load.finished > STREAMS and load.left > STREAMS // 4, (load.finished, load.left)
    wait_until(lambda: json.loads(server.get("/load").body)["server_load"] == 0, PATIENCE, "answers are left over")
    wait_until(lambda: live(server)["requests"]["running"] == 0 and live(server)["kv"]["used_share"] == 0, PATIENCE,
               f"places are left over: {live(server)}")
    grown = resident_bytes(server) - warm_bytes
    assert is_sanitized(server) or grown < 8 << 20, f"the front grew by {grown} bytes"
    assert open_files(server) <= warm_files + 2, (open_files(server), warm_files)
    assert server.get("/live").status == 200 and live(server)["workers"]["restarts"] == 0
    print(f"{load.finished} streams finished, {load.left} left; the front has {resident_bytes(server) >> 20} MiB")


def test_waiting(server):
    before = resident_bytes(server)
    streams = [server.open_stream(story(1900)) for _ in range(1000)]
    wait_until(lambda: json.loads(server.get("/load").body)["server_load"] >= 900, PATIENCE, "the streams are not taken")
    resident = resident_bytes(server)
    assert is_sanitized(server) or resident < 100 << 20, f"1000 streams take {resident} bytes"
    for sock in streams:
        sock.close()
    wait_until(lambda: json.loads(server.get("/load").body)["server_load"] == 0, PATIENCE, "answers are left over")
    print(f"1000 waiting streams: {resident >> 20} MiB, {(resident - before) // 1000} bytes each")


def main():
    with Serve(PROGRAM, MODEL, "--max-model-len", "2048", "--max-requests", "2000", "--disable-uvicorn-access-log") as server:
        test_leaving(server)
        test_waiting(server)
        assert Reply(server.open_stream(story(3))).status == 200
    print("all passed")


main()
