#!/usr/bin/env python3
"""What options do to a server that runs: the context that fits into memory."""
import json
import os
import signal
import sys

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
    with open(f"/proc/{server.workers()[0]}/cmdline", encoding="utf-8") as file:
        return file.read().split("\0")


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
            wait_until(lambda: server.get("/health").status == 200 and server.workers(), PATIENCE, "no worker comes back")
            wait_until(lambda: f"--max-model-len={context}" in words_of_worker(server), PATIENCE, "the context is not kept")
            assert context_of(server) == context
            reply = server.post("/v1/completions", {"prompt": [5] * context, "max_tokens": 1})
            assert reply.status == 400 and str(context) in json.loads(reply.body)["error"]["message"], reply.body
            reply = server.post("/v1/completions", {"prompt": [5] * (context - 1), "max_tokens": 9})
            assert json.loads(reply.body)["usage"]["completion_tokens"] == 1, reply.body


def main():
    for test in (test_context_that_fits,):
        test()
    print("all passed")


main()
