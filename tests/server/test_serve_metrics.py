#!/usr/bin/env python3
"""GET /metrics of `sluice serve`: its form, and its numbers against what clients got (field report B163)."""
import json
import os
import re
import subprocess
import sys
import tempfile

from http_client import Reply, wait_until
from optional_tools import finish, has_tool
from serve_program import PATIENCE, Serve, story

PROGRAM = sys.argv[1]
MODEL = sys.argv[2] + "/models/mini-v4"
SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^{}]*)\} (\S+)$')


def scrape(server):
    """Values by (name, labels besides engine and model); checks that each family is described before it comes."""
    reply = server.get("/metrics")
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    types = {}
    values = {}
    for line in reply.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} is described twice"
            types[name] = kind
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        family = name if name in types else re.sub("_(bucket|sum|count)$", "", name)
        assert family in types, f"{name} has no type"
        assert (types[family] == "counter") == (name.endswith("_total") and types[family] != "histogram"), name
        pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        assert pairs.pop("engine") == "0" and pairs.pop("model_name") == "mini"
        key = (name, tuple(pairs.items()))
        assert key not in values, key
        values[key] = float(value)
    return values


def value(server, name, **labels):
    return scrape(server)[(name, tuple(labels.items()))]


def test_promtool(server):
    """The tool of Prometheus reads it; what it says about style concerns vLLM's names, which are as they are."""
    if not has_tool("promtool", "metrics by the tool of Prometheus"):
        return
    result = subprocess.run(["promtool", "check", "metrics"], input=server.get("/metrics").body, capture_output=True)
    complaints = [line for line in result.stderr.decode().splitlines() if "should not contain ':'" not in line]
    complaints = [line for line in complaints if not line.startswith("vllm:iteration_tokens_total non-counter")]
    assert result.returncode in (0, 3) and complaints == [], (result.returncode, complaints)


def test_numbers(server):
    """Requests of all ends, counted exactly."""
    before = scrape(server)
    assert server.post("/v1/chat/completions", story(30)).status == 200
    with server.open_stream(story(20, n=2)) as sock:
        Reply(sock)
    ended = json.loads(server.post("/v1/chat/completions", story(500, ignore_eos=False)).body)
    server.post("/v1/chat/completions", {"messages": [], "unheard_of": 1})
    after = scrape(server)

    def grown(name, **labels):
        key = (name, tuple(labels.items()))
        return after[key] - before[key]

    usage = ended["usage"]
    assert ended["choices"][0]["finish_reason"] == "stop", ended
    assert grown("vllm:request_success_total", finished_reason="length") == 3
    assert grown("vllm:request_success_total", finished_reason="stop") == 1
    assert grown("vllm:generation_tokens_total") >= 30 + 40 + usage["completion_tokens"]
    assert grown("vllm:request_generation_tokens_sum") == 30 + 40 + usage["completion_tokens"]
    prompt = json.loads(server.post("/v1/chat/completions", story(1)).body)["usage"]["prompt_tokens"]
    assert grown("vllm:prompt_tokens_total") == 4 * prompt
    assert grown("vllm:request_prompt_tokens_bucket", le="+Inf") == 4
    assert grown("vllm:time_to_first_token_seconds_count") == 4
    assert grown("vllm:e2e_request_latency_seconds_count") == 4
    assert grown("vllm:request_params_n_sum") == 4 and grown("vllm:request_params_n_count") == 3
    assert grown("vllm:request_params_max_tokens_sum") == 30 + 20 + 20 + 500
    assert grown("vllm:request_max_num_generation_tokens_sum") == 30 + 20 + usage["completion_tokens"]
    assert grown("sluice:http_replies_total", code="2xx") == 4
    assert grown("sluice:http_replies_total", code="4xx") == 1
    assert 0 < grown("vllm:request_decode_time_seconds_sum") <= grown("vllm:request_inference_time_seconds_sum")
    assert grown("vllm:request_inference_time_seconds_sum") <= grown("vllm:e2e_request_latency_seconds_sum")


def gauges(server):
    values = scrape(server)
    return [values[(name, ())] for name in ("vllm:num_requests_running", "vllm:num_requests_waiting",
                                            "vllm:kv_cache_usage_perc")]


def test_gauges_fall(server):
    """20 streams whose clients leave: gauges are zero soon without another request."""
    streams = [server.open_stream(story(1900)) for _ in range(20)]
    wait_until(lambda: gauges(server)[:2] == [16, 4] and gauges(server)[2] > 0, PATIENCE, "the engine is not full")
    for sock in streams:
        sock.close()
    wait_until(lambda: gauges(server) == [0, 0, 0], PATIENCE, "gauges stay up")
    assert value(server, "vllm:request_success_total", finished_reason="abort") == 20


def test_drafts(server):
    """Counters of drafts (M-45); acceptance by position is what `vllm bench serve` reads."""
    server.post("/v1/chat/completions", story(200))
    wait_until(lambda: value(server, "vllm:spec_decode_num_drafts_total") > 0, PATIENCE, "no drafts are reported")
    values = scrape(server)
    accepted = [values[("vllm:spec_decode_num_accepted_tokens_per_pos_total", (("position", str(i)),))] for i in (0, 1)]
    assert accepted[0] >= accepted[1] > 0, accepted
    assert values[("vllm:spec_decode_num_accepted_tokens_total", ())] == sum(accepted)
    assert values[("vllm:spec_decode_num_draft_tokens_total", ())] >= sum(accepted)


def stages_of(server):
    """Seconds by stage and part, and bytes by link."""
    values = scrape(server)
    seconds = {labels: value for (name, labels), value in values.items() if name == "sluice:stage_seconds_total"}
    links = {tuple(dict(labels).values()): value for (name, labels), value in values.items()
             if name == "sluice:link_bytes_total"}
    return [{part: seconds[(("stage", str(stage)), ("part", part))] for part in ("compute", "wait", "send")}
            for stage in range(len(seconds) // 3)], links


# Spec parallelism P-14: 4 residual streams of the model's hidden size, two bytes each.
BOUNDARY_HEADER_BYTES = 64  # P-17, one for each step
BOUNDARY_ROW_BYTES = 4 * json.load(open(MODEL + "/config.json", encoding="ascii"))["hidden_size"] * 2


def test_stages(server):
    """A pipeline of two: both stages work and wait, for equally long, and the boundary has the bytes of its rows."""
    server.post("/v1/chat/completions", story(200))
    wait_until(lambda: value(server, "vllm:iteration_tokens_total_sum") >= 200, PATIENCE, "no steps are told")
    wait_until(lambda: stages_of(server)[1][("0", "1", "boundary")] ==
               value(server, "vllm:iteration_tokens_total_sum") * BOUNDARY_ROW_BYTES +
               value(server, "vllm:iteration_tokens_total_count") * BOUNDARY_HEADER_BYTES, PATIENCE,
               "boundaries have other bytes")
    stages, links = stages_of(server)
    assert len(stages) == 2 and all(stage["compute"] > 0 and stage["wait"] > 0 for stage in stages), stages
    totals = [sum(stage.values()) for stage in stages]
    assert abs(totals[0] - totals[1]) < 0.1 + 0.1 * totals[0], stages
    # One request has one step at a time: what one stage works the other one waits.
    assert sum(stage["compute"] for stage in stages) < 0.1 + 1.2 * totals[0], stages
    assert set(links) == {("0", "1", "boundary"), ("0", "1", "plan"), ("1", "0", "feedback")} and min(links.values()) > 0, links
    live = json.loads(server.get("/live").body)
    # Eight layers can be cut nearly evenly, by measured times too; where the log is the worker's own it says how.
    assert 1 <= live["stage_imbalance"] < 1.5
    assert abs(live["stage_imbalance"] - value(server, "sluice:stage_imbalance")) < 1e-6
    for line in (line for line in server.lines if "layers of the stages" in line):
        assert f"the slowest has {live['stage_imbalance']:.2f} times the mean" in line, line
    for told, stage in zip(live["stages"], stages, strict=True):
        assert all(abs(told[part + "_seconds"] - stage[part]) < 1e-6 for part in stage), (told, stage)
    assert {(str(link["from"]), str(link["to"]), link["kind"]): link["bytes"] for link in live["links"]} == links


def test_disk(folder):
    """What one server has read another one finds on disk, and both say so."""
    words = ["--max-model-len", "2048", "--served-model-name", "mini", "--prefix-cache-dir", folder,
             "--prefix-cache-disk-limit", "1GB"]
    prompt = story(1, messages=[{"role": "user", "content": "A fox and a crow. " * 60}])
    with Serve(PROGRAM, MODEL, *words) as server:
        tokens = json.loads(server.post("/v1/chat/completions", prompt).body)["usage"]["prompt_tokens"]
        assert tokens > 256, tokens
        wait_until(lambda: value(server, "vllm:external_prefix_cache_queries_total") == tokens - 1, PATIENCE, "nothing is sought")
        assert value(server, "vllm:external_prefix_cache_hits_total") == 0
        wait_until(lambda: value(server, "sluice:prefix_disk_written_bytes_total") > 0, PATIENCE, "nothing is written")
    with Serve(PROGRAM, MODEL, *words) as server:
        server.post("/v1/chat/completions", prompt)
        wait_until(lambda: value(server, "vllm:external_prefix_cache_hits_total") == (tokens - 1) // 128 * 128, PATIENCE,
                   "nothing is found")
        assert value(server, "sluice:prefix_disk_read_bytes_total") > 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_disk(folder)
    with Serve(PROGRAM, MODEL, "--max-model-len", "2048", "--served-model-name", "mini", "--no-mtp-adaptive",
               "--speculative-config", '{"method":"mtp","num_speculative_tokens":2}') as server:
        for test in (test_numbers, test_gauges_fall, test_drafts, test_promtool):
            test(server)
    for ranks in ([], ["--distributed-executor-backend", "mp"])[:2 if "RANKS_AS_PROCESSES" in os.environ else 1]:
        with Serve(PROGRAM, MODEL, "--max-model-len", "2048", "--served-model-name", "mini", "-pp", "2",
                   "--log-level", "info", *ranks) as server:
            test_stages(server)
            test_promtool(server)
    finish()


main()
