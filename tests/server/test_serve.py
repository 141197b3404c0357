#!/usr/bin/env python3
"""`sluice serve` from outside, over plain sockets: its own paths, keys, ids, logs, errors, signals, workers."""
import fcntl
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from http_client import Reply, connect, read_all, request, reset, wait_until
from serve_program import PATIENCE, Serve, story, stream_text

PROGRAM = sys.argv[1]
MODEL = sys.argv[2] + "/models/mini-v4"


def error_of(reply):
    return json.loads(reply.body)["error"]


def live(server):
    return json.loads(server.get("/live").body)


def test_own_paths(server):
    assert server.get("/health").status == 200 and server.get("/health").body == b""
    assert server.get("/ping").status == 200 and server.post("/ping", b"").status == 200
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert json.loads(server.get("/version").body) == {"version": version}
    assert json.loads(server.get("/load").body) == {"server_load": 0}
    information = json.loads(server.get("/server_info").body)
    assert information["model"] == MODEL and information["max_model_len"] == 2048
    assert information["vocabulary_size"] == 4096 and information["memory"]["page_tokens"] == 128
    assert server.post("/reset_prefix_cache", b"").status == 200
    with connect(server.address) as sock:
        sock.sendall(b"HEAD /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        head = read_all(sock)
    assert head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n"), head


def test_errors(server):
    """What no route takes has the shape of the API that was asked."""
    reply = server.get("/v1/nothing")
    assert reply.status == 404 and error_of(reply)["type"] == "NotFoundError", reply.body
    reply = server.get("/v1/chat/completions")
    assert reply.status == 405 and reply.headers["allow"] == "POST", reply.headers
    reply = server.post("/v1/responses/resp_1", b"{}")
    assert reply.status == 405 and reply.headers["allow"] == "GET, DELETE", reply.headers
    for path in ("/v1/embeddings", "/v1/audio/speech", "/rerank", "/start_profile"):
        reply = server.post(path, {"input": "x"})
        assert reply.status == 501 and error_of(reply)["code"] == 501, (path, reply.body)
    assert server.get("/v1/models/").status == 404
    assert server.get("/v1/models/" + MODEL).status == 200, "names of models have slashes in them"
    reply = server.get("/v1/models/" + "x" * 600)
    assert reply.status == 404, reply.status
    body = json.loads(server.post("/v1/messages/nothing", b"{}").body)
    assert body["type"] == "error" and body["error"]["type"] == "not_found_error", body
    reply = request(server.address, b"GET /v1/models HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n")
    assert reply.status == 400 and error_of(reply)["type"] == "BadRequestError", reply.body


def test_faults_have_the_names_of_their_api(server):
    """A tool whose schema is at fault: the place as the client wrote it."""
    schema = {"type": "object", "properties": {"a": {"type": "strin"}}}
    user = [{"role": "user", "content": "hi"}]
    cases = {
        "/v1/chat/completions": ({"messages": user, "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]},
                                 "$.tools[0].function.parameters.properties.a"),
        "/v1/messages": ({"messages": user, "max_tokens": 9, "tools": [{"name": "f", "input_schema": schema}]},
                         "$.tools[0].input_schema.properties.a"),
        "/v1/responses": ({"input": "hi", "tools": [{"type": "function", "name": "f", "parameters": schema}]},
                          "$.tools[0].parameters.properties.a"),
    }
    for path, (body, place) in cases.items():
        reply = server.post(path, body)
        assert reply.status == 400 and f" at {place} is " in error_of(reply)["message"], reply.body


def test_request_ids(server):
    """A client's id comes back and names the answer; one that could forge a line does not."""
    body = {"prompt": "Once", "max_tokens": 1}
    reply = server.post("/v1/completions", body, "X-Request-Id: abc-1.2:3\r\n")
    assert reply.headers["x-request-id"] == "abc-1.2:3" and json.loads(reply.body)["id"] == "cmpl-abc-1.2:3"
    made = [server.get("/version", header).headers["x-request-id"]
            for header in ("", "X-Request-Id: a b\r\n", "X-Request-Id: a=\"b\"\r\n",
                           "X-Request-Id: " + "a" * 129 + "\r\n")]
    assert len(set(made)) == 4 and all(len(text) == 32 for text in made), made


def test_access_log(server):
    def lines():
        """From the first request here on: lines of earlier ones may come late, but in their order."""
        known = server.access_lines()
        return known[next((i for i, line in enumerate(known) if line["id"] == "log-1"), len(known)):]

    server.get("/v1/a%20b%22c?secret=1", "X-Request-Id: log-1\r\n")
    request(server.address, b"BREW /pot HTTP/1.1\r\nHost: x\r\nX Y: 1\r\n\r\n")
    with server.open_stream(story(5)) as sock:
        Reply(sock)
    wait_until(lambda: len(lines()) >= 3, PATIENCE, "lines are missing")
    first, second, third = lines()
    assert first["path"] == "/v1/a%20b%22c" and first["status"] == "404" and first["id"] == "log-1", first
    assert first["peer"] == "127.0.0.1" and first["method"] == "GET" and int(first["bytes"]) > 0, first
    assert second["status"] == "400" and second["id"] == "-", second
    assert third["path"] == "/v1/chat/completions" and int(third["bytes"]) > 300 and float(third["seconds"]) > 0, third


def test_full_pipe():
    """A log that nobody reads stops nobody; that lines are lost is counted, and said once."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    with open(writer, "wb") as output, Serve(PROGRAM, MODEL, output=output) as server:
        for _ in range(150):
            assert server.get("/v1/" + "x" * 3000).status == 404
        assert server.post("/v1/completions", {"prompt": "Once", "max_tokens": 3}).status == 200
        dropped = re.search(r"^sluice:access_log_dropped_lines_total\{.*\} (\d+)$", server.get("/metrics").body.decode(), re.M)
        assert 20 < int(dropped.group(1)) < 130, dropped.group(0)
        wait_until(lambda: any("access log" in line for line in server.lines), PATIENCE, "nothing is said of lost lines")
        assert len([line for line in server.lines if "access log" in line]) == 1, server.lines
    os.close(reader)


def fill_pipe(path):
    """Lines until the pipe takes no more; how many bytes."""
    filler = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    count = 0
    try:
        while True:
            count += os.write(filler, b"x" * 63 + b"\n")
    except BlockingIOError:
        return count
    finally:
        os.close(filler)


def test_full_stderr():
    """Nobody reads what the server and its worker say; they answer, start workers again and stop as always."""
    with Serve(PROGRAM, MODEL, "--log-level", "info", reads_on=False) as server:
        fcntl.fcntl(server.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        filled = fill_pipe(f"/proc/{server.process.pid}/fd/2")
        os.kill(server.workers()[0], signal.SIGKILL)
        wait_until(lambda: live(server)["workers"]["restarts"] == 1, PATIENCE, "the worker's end is not noticed")
        wait_until(lambda: server.get("/health").status == 200, PATIENCE, "no worker comes back")
        assert server.post("/v1/completions", {"prompt": "Once", "max_tokens": 3}).status == 200
        metrics = server.get("/metrics").body.decode()
        lost = int(re.search(r"^sluice:log_lost_lines_total\{.*\} (\d+)$", metrics, re.M).group(1))
        assert lost >= 2, "a restart and that the worker is ready were to be said"
        while filled > 0:  # and now somebody does
            filled -= len(server.process.stderr.read1(filled))
        os.kill(server.workers()[0], signal.SIGKILL)
        wait_until(lambda: live(server)["workers"]["restarts"] == 2, PATIENCE, "the worker's end is not noticed")
        assert server.process.stderr.readline().decode() == \
            f"warning log: {lost} lines were lost, because nobody read stderr in time\n"
        assert b"started again" in server.process.stderr.readline()
        wait_until(lambda: server.get("/health").status == 200, PATIENCE, "no worker comes back")
        fill_pipe(f"/proc/{server.process.pid}/fd/2")
        stream = server.open_stream(story(1900))  # long enough to be seen on a busy machine
        wait_until(lambda: live(server)["requests"]["under_way"] == 1, PATIENCE, "the stream does not run")
        server.process.send_signal(signal.SIGTERM)
        assert stream_text(Reply(stream).body)[1], "a stream was cut off"
        assert server.process.wait(timeout=PATIENCE) == 0


def test_leaving(server):
    """Clients that leave free their places at once, and the gauges say so without another request."""
    before = live(server)["tokens"]["output"]
    streams = [server.open_stream(story(1900)) for _ in range(20)]
    wait_until(lambda: live(server)["requests"]["under_way"] == 20, PATIENCE, "not all streams run")
    wait_until(lambda: live(server)["requests"]["running"] == 16, PATIENCE, "the engine is not full")
    for sock in streams:
        sock.close()
    wait_until(lambda: json.loads(server.get("/load").body)["server_load"] == 0, PATIENCE, "answers go on for nobody")

    def is_idle():
        requests = live(server)["requests"]
        return requests["running"] == 0 and requests["waiting"] == 0 and live(server)["kv"]["used_share"] == 0

    wait_until(is_idle, PATIENCE, f"the engine works on for nobody: {live(server)}")
    made = live(server)["tokens"]["output"] - before
    assert made < 20 * 1900 / 2, f"{made} tokens were made for nobody"
    assert any(line.get("left") == "yes" for line in server.access_lines())


def send_and(address, body, leave):
    """Sends a whole request and does at once what `leave` does with the socket."""
    text = json.dumps(body).encode()
    sock = connect(address)
    sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(text) + text)
    leave(sock)
    return sock


def test_leaving_at_once():
    """B93: clients that leave or close their half right behind their request harm nobody, and the latter get answers."""
    with Serve(PROGRAM, MODEL, "--max-model-len", "2048") as server:
        wanted = json.loads(server.post("/v1/chat/completions", story(8)).body)["choices"][0]["message"]["content"]
        for is_stream in (False, True):
            for leave in (socket.socket.close, reset):
                for _ in range(150):
                    send_and(server.address, story(1900, stream=is_stream), leave)
            for _ in range(40):
                with send_and(server.address, story(8, stream=is_stream), lambda sock: sock.shutdown(socket.SHUT_WR)) as sock:
                    received = read_all(sock)
                while received.startswith(b"HTTP/1.1 100 "):
                    received = received.split(b"\r\n\r\n", 1)[1]
                assert received.startswith(b"HTTP/1.1 200 "), received[:300]
                assert is_stream or wanted in json.loads(received.split(b"\r\n\r\n", 1)[1])["choices"][0]["message"]["content"]
                assert not is_stream or b"data: [DONE]" in received, received[-300:]
        wait_until(lambda: json.loads(server.get("/load").body)["server_load"] == 0, PATIENCE, "answers go on for nobody")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=PATIENCE) == 0


def test_rates(server):
    """Tokens per second are those that were made, over the time between two looks."""
    time.sleep(0.3)  # looks closer together share one sample
    before = live(server)
    time.sleep(1.6)
    assert server.post("/v1/chat/completions", story(400)).status == 200
    wait_until(lambda: live(server)["tokens"]["output"] - before["tokens"]["output"] == 400, PATIENCE, "tokens are not counted")
    rates = live(server)
    assert 0 < rates["tokens"]["output_per_second"] <= 400 / 1.5, rates
    assert 0 < rates["steps"]["busy_share"] <= 1.0, rates
    assert rates["ready"] and rates["workers"] == {"count": 1, "ready": 1, "restarts": 0}


def test_cors_off(server):
    reply = server.get("/v1/models", "Origin: https://example.org\r\n")
    assert "access-control-allow-origin" not in reply.headers
    reply = request(server.address, b"OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: https://example.org\r\n"
                                    b"Access-Control-Request-Method: GET\r\n\r\n")
    assert reply.status == 405 and "access-control-allow-origin" not in reply.headers


def preflight(server, origin, wanted):
    return request(server.address, f"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: {origin}\r\n"
                                   "Access-Control-Request-Method: POST\r\n"
                                   f"Access-Control-Request-Headers: {wanted}\r\n\r\n".encode())


def test_keys_and_origins():
    """Keys by both headers, on all but the open paths; preflights need none (field report B162)."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("first-key-of-the-file\nsecond-key-of-the-file\n")
        file.flush()
        with Serve(PROGRAM, MODEL, "--api-key", "k1", "--api-key", "k2", "--api-key-file", file.name,
                   "--allowed-origins", '["https://a.example"]', "--allowed-origins", "https://b.example",
                   "--root-path", "/llm", "--served-model-name", "tiny", "--served-model-name", "small",
                   "--disable-uvicorn-access-log") as server:
            assert server.get("/health").status == 200 and server.get("/ping").status == 200
            for path in ("/v1/models", "/version", "/live", "/load", "/nothing", "/metrics", "/openapi.json"):
                reply = server.get(path)
                assert reply.status == 401 and error_of(reply)["type"] == "AuthenticationError", (path, reply.body)
            for key in ("k1", "k2", "first-key-of-the-file", "second-key-of-the-file"):
                assert server.get("/v1/models", f"Authorization: Bearer {key}\r\n").status == 200
                assert server.get("/v1/models", f"x-api-key: {key}\r\n").status == 200
            for header in ("Authorization: Bearer k", "Authorization: Bearer k11", "Authorization: Basic k1",
                           "x-api-key: ", "Authorization: k1", "Authorization: Bearer"):
                assert server.get("/v1/models", header + "\r\n").status == 401, header
            wanted = "authorization,content-type,x-stainless-os,anthropic-version,x-api-key"
            reply = preflight(server, "https://a.example", wanted)
            assert reply.status == 204 and reply.headers["access-control-allow-headers"] == wanted
            assert reply.headers["access-control-allow-origin"] == "https://a.example"
            assert "POST" in reply.headers["access-control-allow-methods"]
            assert preflight(server, "https://c.example", wanted).status == 401
            reply = server.post("/v1/chat/completions", story(2, stream=True),
                                "Origin: https://b.example\r\nx-api-key: k1\r\n")
            assert reply.status == 200 and reply.headers["access-control-allow-origin"] == "https://b.example"
            names = json.loads(server.get("/llm/v1/models", "x-api-key: k1\r\n").body)["data"]
            assert [model["id"] for model in names] == ["tiny", "small"]
            assert server.get("/llmv1/models", "x-api-key: k1\r\n").status == 404
            assert server.access_lines() == []


def test_full():
    """Beyond the limit clients are told to come again, and those under way are none the worse."""
    with Serve(PROGRAM, MODEL, "--max-requests", "2", "--max-model-len", "2048") as server:
        streams = [server.open_stream(story(1900)) for _ in range(2)]
        wait_until(lambda: json.loads(server.get("/load").body)["server_load"] == 2, PATIENCE, "the streams do not run")
        reply = server.post("/v1/chat/completions", story(2))
        assert reply.status == 429 and reply.headers["retry-after"] == "1", reply.body
        assert error_of(reply)["type"] == "RateLimitError"
        assert all(stream_text(Reply(sock).body)[1] for sock in streams)
        assert server.post("/v1/chat/completions", story(2)).status == 200


def test_one_address():
    """An address that holds all connections it may have gets no further one until it gives one up."""
    with Serve(PROGRAM, MODEL, "--max-connections-per-address", "2") as server:
        held = [connect(server.address) for _ in range(2)]
        for sock in held:
            sock.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
            assert Reply(sock).status == 200
        with connect(server.address) as third:
            try:
                third.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
                assert read_all(third) == b""
            except ConnectionError:
                pass
        held.pop().close()
        def gets_in():
            try:
                return server.get("/ping").status == 200
            except (AssertionError, ConnectionError):
                return False
        wait_until(gets_in, PATIENCE, "a place stays taken")
        held.pop().close()


def test_worker_death():
    """B54: kill -9 of the worker: streams go on as if nothing had been, and health says so."""
    with Serve(PROGRAM, MODEL, "--max-model-len", "2048") as server:
        expected, is_done = stream_text(server.post("/v1/chat/completions", story(900, stream=True)).body)
        assert is_done and len(expected) > 1000
        streams = [server.open_stream(story(900)) for _ in range(4)]
        wait_until(lambda: live(server)["requests"]["running"] == 4, PATIENCE, "the streams do not run")
        os.kill(server.workers()[0], signal.SIGKILL)
        for sock in streams:
            assert stream_text(Reply(sock).body) == (expected, True)
        assert live(server)["workers"]["restarts"] == 1
        wait_until(lambda: server.get("/health").status == 200, PATIENCE, "no worker comes back")

        def is_red():
            """Each death keeps a worker away for longer than the one before."""
            for worker in server.workers():
                os.kill(worker, signal.SIGKILL)
            return server.get("/health").status == 503

        wait_until(is_red, PATIENCE, "health does not turn red")
        wait_until(lambda: server.get("/health").status == 200, PATIENCE, "no worker comes back")


def test_replicas_that_share_experts():
    """They are one worker, which runs twice as many requests, with the text of one replica, through its death too.
    Where its ranks are processes, any of these takes the worker with it."""
    form = {"response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": {
        "type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}, "required": ["name"]}}}}
    bodies = [story(700), story(80, **form), story(700), story(700), story(80, **form)]
    with Serve(PROGRAM, MODEL, "--max-model-len", "2048") as server:
        expected = [stream_text(server.post("/v1/chat/completions", {**body, "stream": True}).body) for body in bodies]
    for ranks in ([], ["--distributed-executor-backend", "mp"])[:2 if "RANKS_AS_PROCESSES" in os.environ else 1]:
        with Serve(PROGRAM, MODEL, "--max-model-len", "2048", "-dp", "2", "--enable-expert-parallel", "--max-num-seqs", "2",
                   "--speculative-config", '{"method":"mtp","num_speculative_tokens":2}', *ranks) as server:
            assert len(server.workers()) == 1
            streams = [server.open_stream(body) for body in bodies]
            wait_until(lambda: live(server)["requests"]["running"] >= 3, PATIENCE, "the streams do not run")
            os.kill(server.ranks()[1] if ranks else server.workers()[0], signal.SIGKILL)
            assert [stream_text(Reply(sock).body) for sock in streams] == expected
            assert live(server)["workers"]["restarts"] == 1


def connect_narrow(port):
    """A client that takes little at once: a long reply stays under way until it is read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    sock.connect(("127.0.0.1", port))
    return sock


def test_drain():
    """SIGTERM: nobody new, but who is there gets the whole answer."""
    with Serve(PROGRAM, MODEL, "--max-model-len", "2048", "--drain-seconds", "300") as server:
        expected = json.loads(server.post("/v1/chat/completions", story(700)).body)["choices"][0]["message"]["content"]
        sock = server.open_stream(story(700, n=8, logprobs=True, top_logprobs=20), sock=connect_narrow(server.address))
        wait_until(lambda: json.loads(server.get("/load").body)["server_load"] == 8, PATIENCE, "the stream does not run")
        server.process.send_signal(signal.SIGTERM)

        def is_closed():
            try:
                connect(server.address, 1.0).close()
                return False
            except OSError:
                return True

        wait_until(is_closed, PATIENCE, "new clients are let in")
        body = Reply(sock).body
        assert len(body) > 6 << 20, "the reply may have been sent before"
        assert [stream_text(body, index)[0] for index in range(8)] == 8 * [expected] and stream_text(body)[1]
        assert server.process.wait(timeout=PATIENCE) == 0


def test_second_signal():
    """A second one ends what is under way with an error that clients understand."""
    with Serve(PROGRAM, MODEL, "--max-model-len", "4096") as server:
        sock = server.open_stream(story(4000, n=16))
        wait_until(lambda: json.loads(server.get("/load").body)["server_load"] == 16, PATIENCE, "the stream does not run")
        worker = server.workers()[0]
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        server.process.send_signal(signal.SIGINT)
        body = Reply(sock).body
        assert b"ServiceUnavailableError" in body and b"stopping" in body, body[-300:]
        assert server.process.wait(timeout=PATIENCE) == 0
        assert not os.path.exists(f"/proc/{worker}"), "the worker is left over"


def test_drain_limit():
    with Serve(PROGRAM, MODEL, "--max-model-len", "4096", "--drain-seconds", "0.2") as server:
        sock = server.open_stream(story(4000, n=16))
        wait_until(lambda: json.loads(server.get("/load").body)["server_load"] == 16, PATIENCE, "the stream does not run")
        server.process.send_signal(signal.SIGTERM)
        assert b"stopping" in Reply(sock).body
        assert server.process.wait(timeout=PATIENCE) == 0


def test_unix_socket(folder):
    path = folder + "/socket"
    with Serve(PROGRAM, MODEL, "--uds", path, address=path) as server:
        assert server.get("/health").status == 200
    assert not os.path.exists(path)


def test_tls(folder):
    certificate = folder + "/certificate.pem"
    key = folder + "/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with Serve(PROGRAM, MODEL, "--ssl-certfile", certificate, "--ssl-keyfile", key) as server:
        context = ssl.create_default_context(cafile=certificate)
        with context.wrap_socket(connect(server.address), server_hostname="localhost") as sock:
            sock.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b'{"version"' in read_all(sock)


def test_service_manager(folder):
    """systemd's words: ready, alive while the model can answer, stopping; and a socket that it opened."""
    words = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    words.bind(folder + "/notify")
    words.settimeout(PATIENCE)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    script = folder + "/start"
    with open(script, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\nexec 3<&{listener.fileno()}\nexport LISTEN_FDS=1 LISTEN_PID=$$ WATCHDOG_PID=$$\n'
                   f'exec {PROGRAM} "$@"\n')
    os.chmod(script, 0o755)
    environment = {"NOTIFY_SOCKET": folder + "/notify", "WATCHDOG_USEC": "400000"}
    with Serve(script, MODEL, pass_fds=[listener.fileno()], environment=environment,
               address=listener.getsockname()[1]) as server:
        assert words.recv(1000).startswith(b"READY=1\n")
        assert server.get("/health").status == 200
        assert words.recv(1000) == b"WATCHDOG=1"
        assert words.recv(1000) == b"WATCHDOG=1"
        with open(f"/proc/{server.workers()[0]}/environ", "rb") as file:
            assert b"LISTEN_FDS" not in file.read(), "a worker could take the socket for its own"
        server.process.send_signal(signal.SIGTERM)
        word = words.recv(1000)
        while word == b"WATCHDOG=1":
            word = words.recv(1000)
        assert word.startswith(b"STOPPING=1\n"), word
    listener.close()
    words.close()


def test_refused_command_lines(folder):
    """Wrong use is code 2 and one sentence; what cannot be had is code 1."""
    with open(folder + "/open-key", "w", encoding="ascii") as file:
        file.write("a key that everybody can read\n")
    os.chmod(folder + "/open-key", 0o644)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        cases = [
            ([], 2, "give the model's folder"),
            ([MODEL, "--model", MODEL], 2, "given twice"),
            ([MODEL, "--lora-modules", "x"], 2, "unknown option --lora-modules"),
            ([MODEL, "--chat-template", "x.jinja"], 2, "the model's own format"),
            ([MODEL, "--nnodes", "2"], 2, "--hosts"),
            ([MODEL, "--max-model-len", "all"], 2, "or auto, not"),
            ([MODEL, "--generation-config", "/nonexistent"], 2, "auto, vllm or a folder"),
            ([MODEL, "--override-generation-config", '{"top": 1}'], 2, "none of temperature"),
            ([MODEL, "--max-model-len", "auto", "-dp", "2"], 2, "--memory-limit"),
            ([MODEL, "--max-model-len", "auto", "--memory-limit", "1"], 1, "one request of 128 tokens needs"),
            ([MODEL, "--served-model-nam", "x"], 2, "did you mean --served-model-name"),
            ([MODEL, "--api-key", "a b"], 2, "blanks"),
            ([MODEL, "--api-key-file", folder + "/open-key"], 2, "chmod 600"),
            ([MODEL, "--allowed-origins", "example.org"], 2, "such as https://example.org"),
            ([MODEL, "--allowed-origins", "{}"], 2, "origins"),
            ([MODEL, "--ssl-certfile", "x"], 2, "both"),
            ([MODEL, "--root-path", "llm/"], 2, "begins with a slash"),
            ([MODEL, "--default-chat-template-kwargs", "[]"], 2, "JSON object"),
            ([MODEL, "--default-chat-template-kwargs", '{"thinking": 3}'], 2, "thinking is neither true nor false"),
            ([MODEL, "--default-chat-template-kwargs", '{"x": 1}'], 2, "x is not known; this model has thinking"),
            ([MODEL, "--default-chat-template-kwargs", '{"reasoning_effort": "High"}'], 2, "use none, minimal"),
            ([MODEL, "--max-num-seqs", "0"], 2, "between 1 and"),
            ([MODEL, "--prefix-cache-dir", folder, "--no-enable-prefix-caching"], 2, "leave one of them out"),
            ([MODEL, "--prefix-cache-disk-limit", "1GB"], 2, "--prefix-cache-dir"),
            ([MODEL, "--prefix-cache-dir", folder, "--prefix-cache-disk-limit", "much"], 2, "not \"much\""),
            ([MODEL, "--prefix-cache-dir", folder + "/kept", "--prefix-cache-disk-limit", "1KB"], 1, "limit"),
            ([MODEL, "-dp", "2", "--hosts", "a,b"], 2, "-dp 2 makes 2 workers of one rank each"),
            ([folder + "/nowhere"], 1, "nowhere"),
            ([MODEL, "--port", str(taken.getsockname()[1])], 1, "another port"),
            ([MODEL, "--memory-limit", "1"], 1, "memory"),
        ]
        for words, code, sentence in cases:
            result = subprocess.run([PROGRAM, "serve", *words], capture_output=True, text=True, timeout=PATIENCE)
            assert result.returncode == code, (words, result)
            assert sentence in result.stderr and result.stderr.count("\n") == 1, (words, result.stderr)


def test_another_tokenizer(folder):
    """The front and the worker's grammars read the tokenizer that was named: a file, or its folder; here a token has
    another text in it."""
    with open(MODEL + "/tokenizer.json", encoding="utf-8") as file:
        tokenizer = json.load(file)
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["Ġvixen"] = vocabulary.pop("Ġfox")
    tokenizer["model"]["merges"].remove("Ġfo x")
    os.mkdir(folder + "/other")
    with open(folder + "/other/tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    ids = [vocabulary["Ġvixen"]]
    for path in (folder + "/other", folder + "/other/tokenizer.json"):
        with Serve(PROGRAM, MODEL, "--tokenizer", path) as server:
            assert json.loads(server.post("/detokenize", {"tokens": ids}).body)["prompt"] == " vixen"
            reply = server.post("/v1/completions", {"prompt": "A", "max_tokens": 9, "allowed_token_ids": [*ids, 1],
                                                    "structured_outputs": {"choice": [" vixen"]}})
            assert json.loads(reply.body)["choices"][0]["text"] == " vixen", reply.body


def test_options_of_vllm():
    """A recipe as it stands in the model's card starts; what means nothing is named once."""
    with Serve(PROGRAM, MODEL, "--trust-remote-code", "--tokenizer-mode", "deepseek_v4", "--reasoning-parser=deepseek_v4",
               "--tool-call-parser", "deepseek_v4", "--enable-auto-tool-choice", "--kv_cache_dtype", "fp8",
               "--no-enable-chunked-prefill", "-tp", "1", "--gpu-memory-utilization", "0.9", "--attention_config.use_fp4_indexer_cache=True", "--no-mtp-adaptive",
               "--speculative-config", '{"method":"mtp","num_speculative_tokens":2}') as server:
        warnings = [line for line in server.lines if "change nothing" in line]
        assert len(warnings) == 1 and warnings[0].count("--") == 8, server.lines
        hints = [line for line in server.lines if "changes nothing" in line]
        assert len(hints) == 1 and "--gpu-memory-utilization" in hints[0] and "--memory-limit" in hints[0], server.lines
        assert live(server)["drafts"]["limit"] == 2
        assert server.post("/v1/chat/completions", story(60)).status == 200
        wait_until(lambda: live(server)["drafts"]["verified"][0] > 0, PATIENCE, "nothing is drafted")
        assert 0 <= live(server)["drafts"]["acceptance"][0] <= 1


def main():
    with Serve(PROGRAM, MODEL, "--max-model-len", "2048") as server:
        for test in (test_own_paths, test_errors, test_faults_have_the_names_of_their_api, test_request_ids, test_access_log,
                     test_leaving, test_rates, test_cors_off):
            test(server)
    for test in (test_keys_and_origins, test_full, test_one_address, test_leaving_at_once, test_worker_death, test_replicas_that_share_experts, test_drain,
                 test_second_signal, test_drain_limit, test_options_of_vllm, test_full_pipe, test_full_stderr):
        test()
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_unix_socket, test_tls, test_service_manager, test_refused_command_lines,
                     test_another_tokenizer):
            test(folder)
    print("all passed")


main()
