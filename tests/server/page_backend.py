"""The page over a server that plays a script: what the last message asks for is what it answers."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MARKDOWN = """## Locks

A *lock* lifts **boats** between levels; see `gate()` and [a page](https://example.org/locks).

1. Close the lower gate.
2. Open the sluice:
   - slowly,
   - then fully.

| part | metres |
|---|---|
| gate | 4.5 |

```c
while (level < upper) {
    fill(); /* <b>not bold</b> */
}
```

> Mind the gap.

<img src=x onerror=alert(1)> ![no](https://example.org/x.png)"""

TOOL_CALL = {"name": "get_weather", "pieces": ['{"city": ', '"Rome"}']}


def pieces_of(text):
    return [text[i:i + 5] for i in range(0, len(text), 5)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body, content_type="application/json", headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, message, headers=()):
        self.reply(status, {"error": {"message": message, "type": "error", "param": None, "code": status}},
                   headers=headers)

    def lets_in(self):
        key = self.server.key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.refuse(401, "The API key is missing or wrong.")
        return False

    def do_GET(self):
        self.server.paths.append(self.path)
        if self.path == "/":
            self.reply(200, self.server.page, "text/html; charset=utf-8",
                       [("Content-Security-Policy", self.server.policy)])
        elif not self.lets_in():
            pass
        elif self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": "mini-v4"}, {"id": "second"}]})
        elif self.path == "/live":
            self.reply(200, self.server.live())
        else:
            self.refuse(404, "There is no such path.")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.paths.append(self.path)
        if not self.lets_in():
            return
        self.server.requests.append(body)
        last = body["messages"][-1]
        if last["content"] == "refuse":
            self.refuse(400, "'temperature' must be from 0 to 2, but is 3.")
        elif last["content"] == "busy":
            self.refuse(429, "Too many requests are waiting.", [("Retry-After", "7")])
        else:
            self.stream(last)

    def stream(self, last):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.play(last)
        except OSError:
            self.server.left.set()

    def event(self, delta, reason=None):
        self.data({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def data(self, value):
        # In two pieces, cut within the JSON and within characters of several bytes.
        data = f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
        middle = len(data) // 2
        self.wfile.write(data[:middle])
        self.wfile.flush()
        self.wfile.write(data[middle:])
        self.wfile.flush()

    def play(self, last):
        words = {"markdown": MARKDOWN, "think": "It is 85 – precisely."}
        text = "thanks" if last["role"] == "tool" else words.get(last["content"], f"You said: {last['content']}")
        self.wfile.write(b": the prompt is being read\n\n")
        self.event({"role": "assistant", "content": ""})
        if last["content"] == "think":
            for piece in pieces_of("37 + 48: 30 + 40 = 70, 7 + 8 = 15."):
                self.event({"reasoning": piece, "reasoning_content": piece})
        if last["content"] == "endless":
            for i in range(100000):
                self.event({"content": f"{i} "})
                time.sleep(0.01)
        if last["content"] == "tool":
            self.play_call()
            return
        for piece in pieces_of(text):
            self.server.may_go_on.wait(10)
            self.event({"content": piece})
        if last["content"] == "broken":
            return
        if last["content"] == "failing":
            self.data({"error": {"message": "The worker was lost.", "type": "server_error"}})
            return
        self.finish("length" if last["content"] == "long" else "stop")

    def play_call(self):
        self.event({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                                    "function": {"name": TOOL_CALL["name"], "arguments": ""}}]})
        for piece in TOOL_CALL["pieces"]:
            self.event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        self.finish("tool_calls")

    def finish(self, reason):
        self.event({}, reason)
        self.data({"choices": [], "usage": {"prompt_tokens": 21, "completion_tokens": 12, "total_tokens": 33,
                                            "prompt_tokens_details": {"cached_tokens": 16}}})
        self.wfile.write(b"data: [DONE]\n\n")


class PageBackend(ThreadingHTTPServer):
    """Ends with the `with` block."""

    daemon_threads = True

    def __init__(self, page, policy):
        super().__init__(("127.0.0.1", 0), Handler)
        self.page = page
        self.policy = policy
        self.key = None
        self.paths = []
        self.requests = []
        self.left = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.polls = 0
        self.is_ready = True
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def __exit__(self, *arguments):
        self.shutdown()
        self.thread.join()
        super().__exit__(*arguments)

    def handle_error(self, *_):
        pass  # a browser may drop any connection

    def live(self):
        """A second has gone by with each question, whatever the clock says: 40 tokens, later 80."""
        self.polls += 1
        i = self.polls
        fast = max(0, i - 20)
        return {"ready": self.is_ready, "model": "mini-v4", "uptime_seconds": float(i),
                "workers": {"count": 1, "ready": int(self.is_ready), "restarts": 1},
                "requests": {"under_way": 5, "running": 3, "waiting": 2, "finished": 7 + i, "preemptions": 0},
                "tokens": {"prompt": 100 * i, "cached_prompt": 75 * i, "output": 40 * i + 40 * fast,
                           "prompt_per_second": 100.0, "output_per_second": 40.0},
                "prefix_cache": {"hit_rate": 0.75, "pages": 20},
                "kv": {"pages": 100, "free_pages": 58, "used_share": 0.42},
                "drafts": {"limit": 2, "verified": [30 * i, 20 * i], "accepted": [20 * i, 10 * i]},
                "steps": {"count": 20 * i, "rows": 70 * i, "seconds": 0.85 * i, "planning_seconds": 0.05 * i,
                          "draft_seconds": 0.2 * i, "busy_share": 0.85},
                "stages": [{"compute_seconds": 0.5 * i, "wait_seconds": 0.25 * i, "send_seconds": 0.05 * i},
                           {"compute_seconds": 0.6 * i, "wait_seconds": 0.2 * i, "send_seconds": 0.0}],
                "links": [{"from": 0, "to": 1, "kind": "boundary", "bytes": 2500000 * i},
                          {"from": 0, "to": 1, "kind": "plan", "bytes": 300000 * i},
                          {"from": 1, "to": 0, "kind": "feedback", "bytes": 12000 * i},
                          {"from": 1, "to": 1, "kind": "sum", "bytes": 640 * i}]}
