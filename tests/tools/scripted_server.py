"""A server that answers completions and chats as it is told, at times that it is told and that it writes down.

Each request is given to `script`, which returns an Answer; times are those of this process when it handed the bytes
to the network, on the same clock as everybody's.
"""
import http.server
import json
import socket
import struct
import threading
import time


class Answer:
    """What to send: a status with a body, or a stream of pieces."""

    def __init__(self, pieces=(), delay=0.0, gap=0.0, status=200, error=None, cut_after=None, is_chat=False,
                 usage=None, body=None, headers=(), error_event=None):
        self.pieces = list(pieces)
        self.delay = delay            # seconds before the first piece
        self.gap = gap                # seconds between pieces, or one number for each gap
        self.status = status
        self.error = error            # message of an error's body
        self.cut_after = cut_after    # pieces after which the connection is cut
        self.is_chat = is_chat
        self.usage = usage            # (prompt tokens, completion tokens); None: not sent
        self.body = body              # whole answer as JSON instead of a stream
        self.headers = headers
        self.error_event = error_event


class Server:
    """Runs until the end of a with; `log` has a dictionary for each request."""

    def __init__(self, script, models=("scripted",)):
        self.script = script
        self.models = models
        self.log = []
        self.lock = threading.Lock()
        self.active = 0
        self.peak = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

            def do_GET(self):  # pylint: disable=invalid-name
                if self.path == "/v1/models":
                    outer.send_json(self, 200, {"data": [{"id": name} for name in outer.models]})
                else:
                    outer.send_json(self, 404, {"error": {"message": "no such path"}})

            def do_POST(self):  # pylint: disable=invalid-name
                outer.answer(self)

        class Http(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, *_):
                """A client that went away is no error."""

        self.http = Http(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    @staticmethod
    def send_json(handler, status, value, headers=()):
        text = json.dumps(value).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(text)))
        for name, content in headers:
            handler.send_header(name, content)
        handler.end_headers()
        handler.wfile.write(text)

    def answer(self, handler):
        arrived = time.monotonic()
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self.lock:
            index = len(self.log)
            record = {"index": index, "path": handler.path, "body": body, "headers": dict(handler.headers),
                      "arrived": arrived, "times": [], "is_cut": False}
            self.log.append(record)
            self.active += 1
            self.peak = max(self.peak, self.active)
        try:
            answer = self.script(record)
            record["answer"] = answer
            if answer.status != 200:
                self.send_json(handler, answer.status, {"error": {"message": answer.error}}, answer.headers)
            elif answer.body is not None:
                time.sleep(answer.delay)
                self.send_json(handler, 200, answer.body)
            else:
                self.stream(handler, answer, record)
        finally:
            with self.lock:
                self.active -= 1

    def stream(self, handler, answer, record):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        connection = handler.connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send(event):
            data = f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
            handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            handler.wfile.flush()

        def piece_of(text, reason=None):
            if answer.is_chat:
                return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]}
            return {"choices": [{"index": 0, "text": text, "finish_reason": reason}]}

        handler.wfile.write(b"e\r\n: keep-alive\n\n\r\n")
        if answer.is_chat:
            send({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
        due = time.monotonic() + answer.delay
        for i, text in enumerate(answer.pieces):
            if i == answer.cut_after:
                record["is_cut"] = True
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
                handler.close_connection = True
                return
            time.sleep(max(0.0, due - time.monotonic()))
            send(piece_of(text))
            record["times"].append(time.monotonic())
            due += answer.gap[i] if isinstance(answer.gap, list) and i < len(answer.gap) else (
                0.0 if isinstance(answer.gap, list) else answer.gap)
        if answer.error_event is not None:
            send({"error": {"message": answer.error_event}})
        else:
            send(piece_of("", "stop"))
            if answer.usage is not None:
                send({"choices": [], "usage": {"prompt_tokens": answer.usage[0], "completion_tokens": answer.usage[1]}})
        send("[DONE]")
        handler.wfile.write(b"0\r\n\r\n")
