#!/usr/bin/env python3
"""What options do to a server that runs: the context that fits into memory, defaults of sampling, the timeline of workers that are killed."""
import json
import os
import signal
import sys
import tempfile

from http_client import wait_until
from serve_program import PATIENCE, Serve

PROGRAM = sys.argv[1]
MODEL = sys.argv[2] + "/models/mini-v4"
PAGE = 128


def information(server):
    return json.loads(server.get("/server_info").body)


def context_of(server):
    card = json.loads(server.get("/v1/models").body)["data"][0]["max_model_len"]
    assert information(server)["max_model_len"] == card
    return card


def words_of_worker(server):
    """None while there is no worker."""
    workers = server.workers()
    try:
        with open(f"/proc/{workers[0]}/cmdline", encoding="utf-8") as file:
            return file.read().split("\0")
    except (IndexError, FileNotFoundError, ProcessLookupError):
        return []


def test_context_that_fits():
    """Memory for one sequence of 2048 tokens and a few pages has no room for the model's 8192. A worker that comes back
    is held to what was promised, whatever memory there is by then."""
    with Serve(PROGRAM, MODEL, "--max-model-len", "2048") as server:
        memory = information(server)["memory"]
    page_bytes = memory["page_state_bytes"] / memory["page_count"]
    others = sum(memory[name] for name in ("copied_weight_bytes", "slot_state_bytes", "snapshot_bytes", "step_bytes", "host_bytes"))
    limit = int(others + (2048 / PAGE + 8) * page_bytes)
    layouts = [[], ["-pp", "2", "--distributed-executor-backend", "mp"]][:2 if "RANKS_AS_PROCESSES" in os.environ else 1]
    for layout in layouts:
        words = ["--max-model-len", "auto", "--memory-limit", str(limit if not layout else 2 * limit), *layout]
        with Serve(PROGRAM, MODEL, *words) as server:
            context = context_of(server)
            assert any(f"memory for a context of {context} tokens" in line for line in server.lines), server.lines
            assert "--max-model-len=auto" in words_of_worker(server)
            if layout:
                continue
            assert 2048 <= context < 8192 and context % PAGE == 0, context
            os.kill(server.workers()[0], signal.SIGKILL)
            wait_until(lambda: f"--max-model-len={context}" in words_of_worker(server), PATIENCE, "the context is not kept")
            wait_until(lambda: server.get("/health").status == 200, PATIENCE, "no worker comes back")
            assert context_of(server) == context
            reply = server.post("/v1/completions", {"prompt": [5] * context, "max_tokens": 1})
            assert reply.status == 400 and str(context) in json.loads(reply.body)["error"]["message"], reply.body
            reply = server.post("/v1/completions", {"prompt": [5] * (context - 1), "max_tokens": 9})
            assert json.loads(reply.body)["usage"]["completion_tokens"] == 1, reply.body


def names_and_steps(path):
    """Names of the processes in a timeline, and how many steps each has."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    return {names[process]: sum(event["pid"] == process and event["name"] == "step" for event in events)
            for process in names}


def test_trace_of_killed_workers(folder):
    """What a worker recorded that is killed is in the timeline as soon as its successor is there; the last one's too,
    and that of ranks which died with another one. Nothing else is left."""
    layouts = [([], False), (["-pp", "2", "--distributed-executor-backend", "mp"], True)]
    for layout, has_ranks in layouts[:2 if "RANKS_AS_PROCESSES" in os.environ else 1]:
        path = f"{folder}/trace.json"
        with open(f"{path}.ticks-1-0", "wb") as file:
            file.write(b"of a server that was killed long ago")
        with Serve(PROGRAM, MODEL, "--trace", path, *layout) as server:
            lost = []
            for _ in range(2):
                reply = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 30, "ignore_eos": True})
                assert reply.status == 200, reply.body
                process = server.ranks()[1] if has_ranks else server.workers()[0]
                lost.append(server.ranks()[0] if has_ranks else process)
                os.kill(process, signal.SIGKILL)
                wait_until(lambda: json.loads(server.get("/live").body)["workers"]["restarts"] == len(lost), PATIENCE,
                           "no worker is started again")
                wait_until(lambda: server.get("/health").status == 200, PATIENCE, "no worker comes back")
                assert sum("lost" in name for name in names_and_steps(path)) == len(lost)
            reply = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 30, "ignore_eos": True})
            assert reply.status == 200, reply.body
        found = names_and_steps(path)
        assert len(found) == 3 and sum("lost" not in name for name in found) == 1, found
        assert all(steps >= 30 * (2 if has_ranks else 1) for steps in found.values()), found
        assert os.listdir(folder) == ["trace.json"], os.listdir(folder)


def test_defaults_of_sampling():
    """They hold for requests that say nothing; no answer is longer than the limit, whatever it asks for."""
    def text(server, path="/v1/completions", **fields):
        prompt = {"prompt": "Once"} if path == "/v1/completions" else {"messages": [{"role": "user", "content": "Hi"}]}
        body = json.loads(server.post(path, {**prompt, "ignore_eos": True, **fields}).body)
        return body["choices"][0], body["usage"]["completion_tokens"]

    overrides = '{"temperature": 0, "max_new_tokens": 20}'
    with Serve(PROGRAM, MODEL, "--override-generation-config", overrides, "--generation-config", "vllm") as server:
        greedy, count = text(server, max_tokens=30)
        assert count == 20 and greedy["finish_reason"] == "length", greedy
        assert all(text(server, max_tokens=30, seed=seed)[0]["text"] == greedy["text"] for seed in range(4))
        assert any(text(server, max_tokens=30, seed=seed, temperature=5)[0]["text"] != greedy["text"] for seed in range(4))
        assert text(server, max_tokens=7)[1] == 7
        assert text(server, "/v1/chat/completions")[1] == 20
        reply = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 30, "min_tokens": 25})
        assert reply.status == 400 and json.loads(reply.body)["error"]["param"] == "min_tokens", reply.body


def main():
    test_context_that_fits()
    test_defaults_of_sampling()
    with tempfile.TemporaryDirectory() as folder:
        test_trace_of_killed_workers(folder)
    print("all passed")


main()
