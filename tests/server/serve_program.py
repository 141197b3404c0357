"""`sluice serve` for the tests of this folder: started on a free port, stopped by SIGTERM."""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading

from http_client import connect, request

# Seconds that anything may take on a busy machine, under sanitizers; what is right takes a hundredth.
PATIENCE = 60.0


def children_of(process):
    children = set()
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children", encoding="ascii") as file:
            children.update(file.read().split())
    return sorted(int(child) for child in children)


class Serve:
    """The program until the end of a with; its lines on both streams are kept."""

    def __init__(self, program, model, *options, pass_fds=(), environment=None, address=None,
                 output=None, reads_on=True):
        self.output = tempfile.TemporaryFile() if output is None else output
        words = [program, "serve", model, *options]
        if address is None:
            words += ["--port", "0"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.PIPE,
                                        pass_fds=pass_fds, env={**os.environ, **(environment or {})})
        self.lines = []
        self.reads_on = reads_on  # whether somebody reads stderr once the server is ready
        ready = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self.reader.start()
        assert ready.wait(PATIENCE), f"the server does not get ready: {self.lines}"
        line = next((line for line in self.lines if " ready on " in line), None)
        assert line is not None, f"the server ended: {self.lines}"
        found = re.search(r" ready on (\S+?)(:(\d+))? after", line)
        self.address = address if address is not None else int(found.group(3))

    def _read(self, ready):
        for line in self.process.stderr:
            self.lines.append(line.decode())
            if " ready on " in self.lines[-1]:
                ready.set()
                if not self.reads_on:
                    return
        ready.set()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        had_ended = self._has_ended(1.0 if kind else 0.0)
        if not had_ended:
            self.process.send_signal(signal.SIGKILL if kind else signal.SIGTERM)
        code = self.process.wait(timeout=PATIENCE)
        self.reader.join(timeout=10)
        if kind:
            print(f"the server {f'had ended with {code}' if had_ended else 'was running'}: {''.join(self.lines[-20:])}")
        assert kind or code == 0, f"the server ended with {code}: {self.lines}"

    def _has_ended(self, seconds):
        """Whether it ends by itself in so much time: one that dies closes its sockets first."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def access_lines(self):
        """What the access log says so far in whole lines, as dictionaries."""
        # Never a seek: the program writes where the one offset that it shares with this file is.
        fd = self.output.fileno()
        lines = os.pread(fd, os.fstat(fd).st_size, 0).decode().split("\n")[:-1]
        return [dict(word.split("=", 1) for word in line.split()) for line in lines]

    def workers(self):
        return children_of(self.process.pid)

    def ranks(self):
        """Of a worker whose ranks are processes, by rank."""
        found = {}
        for mpirun in children_of(self.workers()[0]):
            for process in children_of(mpirun):
                with open(f"/proc/{process}/environ", "rb") as file:
                    rank = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)\0", file.read())
                found[int(rank.group(1))] = process
        return found

    def get(self, path, headers=""):
        return request(self.address, f"GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode(), PATIENCE)

    def post(self, path, body, headers=""):
        text = json.dumps(body).encode() if not isinstance(body, bytes) else body
        head = (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{headers}"
                f"Content-Length: {len(text)}\r\n\r\n")
        return request(self.address, head.encode() + text, PATIENCE)

    def open_stream(self, body, path="/v1/chat/completions", sock=None):
        """Sends a request and leaves the reply on the socket."""
        text = json.dumps({"stream": True, **body}).encode()
        sock = connect(self.address, PATIENCE) if sock is None else sock
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        return sock


def story(token_count, **more):
    """A chat request whose answer has exactly so many tokens, always the same ones."""
    return {"messages": [{"role": "user", "content": "Tell me a long story."}], "max_tokens": token_count,
            "temperature": 0, "ignore_eos": True, "chat_template_kwargs": {"thinking": False}, **more}


def stream_text(body, index=0):
    """The joined content of a choice of a stream, and whether the stream ended as it should."""
    text = ""
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    for line in lines[:-1]:
        for choice in json.loads(line)["choices"]:
            text += (choice["delta"].get("content") or "") if choice["index"] == index else ""
    return text, bool(lines) and lines[-1] == "[DONE]"
