#!/usr/bin/env python3
"""`sluice bench serve` against a server whose times are known: what it reports is what the server's own clock says.

Usage: test_bench_serve.py PROGRAM [SOURCE_DIR]
"""
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from scripted_server import Answer, Server

# What a busy machine may add to a time; what the times have to do with each other is checked exactly elsewhere.
SLACK_MS = 400.0

ENVIRONMENT = {**os.environ, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
ENVIRONMENT.pop("OPENAI_API_KEY", None)


def run(server, *arguments, code=0, environment=None):
    words = [sys.argv[1], "bench", "serve", "--base-url", getattr(server, "url", server), *arguments]
    result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100,
                            env=environment or ENVIRONMENT)
    assert result.returncode == code, f"{words}: code {result.returncode}: {result.stderr}"
    return result


def report(server, *arguments, **more):
    return json.loads(run(server, "--json", *arguments, **more).stdout)


def percentile(values, share):
    """As numpy's default."""
    values = sorted(values)
    place = share * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])


def check_summary(name, got, values):
    """`values` in seconds as the server saw them; the client sees each a little later or earlier."""
    wanted = {"mean": statistics.fmean(values), "median": percentile(values, 0.5), "p90": percentile(values, 0.9),
              "p99": percentile(values, 0.99)}
    for key, value in wanted.items():
        assert abs(got[key] - 1e3 * value) < SLACK_MS, f"{name} {key}: {got[key]}, wanted {1e3 * value}"
    assert list(got) == list(wanted)


def of_server(log):
    """First token, per token, gaps and whole answer of each request, from when it came."""
    first = [r["times"][0] - r["arrived"] for r in log]
    total = [r["times"][-1] - r["arrived"] for r in log]
    token = [(r["times"][-1] - r["times"][0]) / (r["answer"].usage[1] - 1) for r in log]
    gaps = [b - a for r in log for a, b in zip(r["times"], r["times"][1:])]
    return first, token, gaps, total


def test_times_of_a_closed_loop():
    # Of ten requests two are slow to begin and one is slow to go on: mean, median, p90 and p99 lie far apart.
    def script(record):
        index = record["index"]
        delay = 2.0 if index == 3 else 1.2 if index == 7 else 0.1
        return Answer("abcde", delay, 0.5 if index == 5 else 0.02, usage=(7, 9))
    with Server(script) as server:
        result = report(server, "--concurrency", "2", "--num-prompts", "10", "--warmup", "0", "--random-input-len", "7",
                        "--random-output-len", "9", "--goodput", "ttft:900", "tpot:110", "--seed", "5")
    row = result["rows"][0]
    first, token, gaps, total = of_server(server.log)
    check_summary("ttft", row["ttft_ms"], first)
    check_summary("tpot", row["tpot_ms"], token)
    check_summary("itl", row["itl_ms"], gaps)
    check_summary("e2el", row["e2el_ms"], total)
    assert row["completed"] == 10 and row["failed"] == 0 and row["first_error"] is None, row
    assert row["prompt_tokens"] == 70 and row["output_tokens"] == 90, row
    assert server.peak == 2 and row["concurrency_peak"] == 2, (server.peak, row)
    # Requests 3 and 7 start too late, request 5 goes on too slowly.
    assert row["good"] == 7, row
    seconds = max(r["times"][-1] for r in server.log) - min(r["arrived"] for r in server.log)
    assert abs(row["duration_seconds"] - seconds) < 2 * SLACK_MS / 1e3, (row, seconds)
    for key, count in (("request_throughput", 10), ("output_throughput", 90), ("total_token_throughput", 160),
                       ("request_goodput", 7)):
        assert math.isclose(row[key], count / row["duration_seconds"], rel_tol=1e-6), (key, row)
    body = server.log[0]["body"]
    assert server.log[0]["path"] == "/v1/completions"
    assert body["stream"] is True and body["stream_options"] == {"include_usage": True}, body
    assert body["max_tokens"] == 9 and body["temperature"] == 0 and body["model"] == "scripted", body
    assert "ignore_eos" not in body, body
    prompts = [tuple(r["body"]["prompt"]) for r in server.log]
    assert len(set(prompts)) == 10 and all(len(p) == 7 and all(256 <= t < 4000 for t in p) for p in prompts)


def test_times_of_one_request():
    """What the times have to do with each other holds exactly."""
    for tokens in (2, 5):
        with Server(lambda record, count=tokens: Answer("ab", 0.1, 0.3, usage=(3, count))) as server:
            row = report(server, "--concurrency", "1", "--num-prompts", "1", "--warmup", "0")["rows"][0]
        for key in ("mean", "median", "p90", "p99"):
            between = row["e2el_ms"][key] - row["ttft_ms"][key]
            assert row["ttft_ms"][key] >= 100 and row["e2el_ms"][key] >= 400, row
            assert math.isclose(row["itl_ms"][key], between, rel_tol=1e-6), row
            assert math.isclose(row["tpot_ms"][key], between / (tokens - 1), rel_tol=1e-6), row


def test_seeds():
    prompts = {}
    for seed in ("1", "1", "2"):
        with Server(lambda record: Answer("ab", usage=(3, 2))) as server:
            report(server, "--concurrency", "1", "--num-prompts", "3", "--warmup", "2", "--seed", seed,
                   "--ignore-eos", "--vocab-size", "300")
        asked = sorted(r["body"]["prompt"] for r in server.log)  # some are under way at once
        assert len(asked) == 5 and server.log[0]["body"]["ignore_eos"] is True
        assert all(256 <= token < 300 for prompt in asked for token in prompt)
        assert prompts.setdefault(seed, asked) == asked
    assert prompts["1"] != prompts["2"]


def test_poisson_arrivals():
    """At times that the seed fixes: exponential gaps, and no waiting for answers."""
    arrivals = []
    for seed in ("3", "3"):
        with Server(lambda record: Answer("ab", 0.8, usage=(3, 2))) as server:
            result = report(server, "--request-rate", "40", "--num-prompts", "60", "--warmup", "0", "--seed", seed)
        row = result["rows"][0]
        assert row["concurrency"] is None and row["request_rate"] == 40 and row["completed"] == 60, row
        times = sorted(r["arrived"] for r in server.log)
        arrivals.append([t - times[0] for t in times])
        assert row["concurrency_peak"] > 20 and server.peak > 10, (row, server.peak)
        assert 800 <= row["ttft_ms"]["median"] < 800 + 5 * SLACK_MS, row
    for a, b in zip(*arrivals):
        assert abs(a - b) < 3 * SLACK_MS / 1e3, (a, b)
    gaps = [b - a for a, b in zip(arrivals[0], arrivals[0][1:])]
    assert 0.5 / 40 < statistics.fmean(gaps) < 3 / 40, gaps
    # Of exponential gaps the deviation is the mean, of even ones nothing.
    assert 0.6 < statistics.pstdev(gaps) / statistics.fmean(gaps) < 4, gaps


def test_failures_are_counted_and_told_apart():
    def script(record):
        index = record["index"]
        if index in (1, 4):
            return Answer(status=429, error="too many requests", headers=[("Retry-After", "1")])
        if index == 2:
            return Answer(status=500, error="the engine is gone")
        if index == 5:
            return Answer("abcdef", 0.01, 0.01, cut_after=3)
        if index == 6:
            return Answer("abc", 0.01, 0.01, cut_after=0)
        if index == 7:
            return Answer("abc", 0.01, 0.01, error_event="out of pages")
        return Answer("abcd", 0.05, 0.01, usage=(5, 4))
    arguments = ("--concurrency", "3", "--num-prompts", "12", "--warmup", "0")
    with Server(script) as server:
        row = report(server, *arguments)["rows"][0]
    assert row["requests"] == 12 and row["completed"] == 6 and row["failed"] == 6, row
    assert row["failures"] == {"refused": 2, "status": 1, "cut": 2, "error": 1}, row
    assert row["output_tokens"] == 24, row
    good = [r for r in server.log if r["answer"].status == 200 and not r["is_cut"]
            and r["answer"].error_event is None]
    check_summary("ttft", row["ttft_ms"], of_server(good)[0])
    assert "429: too many requests" in row["first_error"] or "500: the engine" in row["first_error"], row
    with Server(script) as server:
        text = run(server, *arguments).stdout
    assert "6 failed (2 refused, 1 status, 2 cut, 1 error)" in text, text


def test_all_failed():
    with Server(lambda record: Answer(status=429, error="full")) as server:
        result = run(server, "--concurrency", "2", "--num-prompts", "4", "--warmup", "0", "--json", code=1)
        assert json.loads(result.stdout)["rows"][0]["failures"]["refused"] == 4
        assert result.stderr == "sluice bench serve: all 4 requests failed, the first with: 429: full\n", result.stderr
        result = run(server, "--concurrency", "2", code=1)
        assert "2 of 2 requests to warm up failed, the first with: 429: full" in result.stderr
    result = run("http://127.0.0.1:9", "--model", "x", "--num-prompts", "2", "--warmup", "0", code=1)
    assert "Connection refused" in result.stderr or "connect" in result.stderr, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr


def test_a_stream_that_never_ends():
    with Server(lambda record: Answer("abcdefgh", 0.0, 1.0)) as server:
        row = json.loads(run(server, "--concurrency", "1", "--num-prompts", "1", "--warmup", "0", "--json",
                             "--request-timeout", "1.5", code=1).stdout)["rows"][0]
    assert row["failures"]["cut"] == 1 and "timed out" in row["first_error"], row


def test_datasets_and_keys():
    lines = [{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}, {"prompt": "Hello \u00e9"}]
    with tempfile.TemporaryDirectory() as directory, \
            Server(lambda record: Answer("xyz", is_chat="chat" in record["path"], usage=(2, 3))) as server:
        path = pathlib.Path(directory) / "prompts.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
        result = report(server.url + "/v1/", "--dataset-path", str(path), "--concurrency", "1", "--num-prompts", "3",
                        "--warmup", "0", "--api-key", "secret", "--model", "other", "--random-output-len", "8")
        assert result["endpoint"] == "chat" and result["rows"][0]["completed"] == 3, result
        bodies = [r["body"] for r in server.log]
        assert [b["messages"][0]["content"] for b in bodies] == ["Hi", "Hello \u00e9", "Hi"]
        assert [b["max_tokens"] for b in bodies] == [3, 8, 3] and bodies[0]["model"] == "other"
        assert server.log[0]["headers"]["Authorization"] == "Bearer secret"
        assert server.log[0]["path"] == "/v1/chat/completions"
        # The role comes at once, but nobody can read it.
        path.write_text(json.dumps({"prompt": [5, 6, 7]}) + "\n")
        server.log.clear()
        report(server, "--dataset-path", str(path), "--concurrency", "1", "--num-prompts", "1", "--warmup", "0",
               environment={**ENVIRONMENT, "OPENAI_API_KEY": "of the environment"})
        assert server.log[0]["body"]["prompt"] == [5, 6, 7]
        assert server.log[0]["headers"]["Authorization"] == "Bearer of the environment"
        for text, message in (('{"prompt": "x"}\n{"prompt": 5}\n', "object 2 has not exactly one of"),
                              ('{"prompt": "x"}\nnothing\n', "line 2"), ("\n", "has no lines"),
                              ('{"prompt": "x"}\n{"messages": []}\n', "object 2 has messages"),
                              ('{"prompt": "x", "max_tokens": "5"}\n', 'object 1 has "max_tokens"')):
            path.write_text(text)
            result = run(server, "--dataset-path", str(path), code=1)
            assert message in result.stderr and result.stderr.count("\n") == 1, (message, result.stderr)


def test_role_is_no_token():
    with Server(lambda record: Answer("ab", 0.5, 0.1, is_chat=True)) as server, \
            tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "prompts.jsonl"
        path.write_text('{"messages": [{"role": "user", "content": "Hi"}]}\n')
        row = report(server, "--dataset-path", str(path), "--concurrency", "1", "--num-prompts", "1", "--warmup",
                     "0")["rows"][0]
    assert 500 <= row["ttft_ms"]["mean"] < 500 + SLACK_MS, row
    assert row["output_tokens"] == 2, "without usage the pieces count"


def test_sweep_text_and_plot():
    with Server(lambda record: Answer("abc", 0.02, 0.01, usage=(4, 3))) as server, \
            tempfile.TemporaryDirectory() as directory:
        plot = pathlib.Path(directory) / "load.svg"
        text = run(server, "--concurrency", "4,1,2", "--request-rate", "50", "--num-prompts", "8", "--plot", str(plot)).stdout
        root = xml.etree.ElementTree.parse(plot).getroot()
    assert re.findall(r"^(\S+) (?:at once|requests per second asked), 8 requests", text, re.M) == ["1", "2", "4", "50"], text
    assert server.url in text and "model scripted" in text, text
    points = root.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(points) == 9, len(points)
    titles = [point[0].text for point in points]
    assert sum(title.startswith("4: ") for title in titles) == 3, titles


def test_usage_errors():
    for arguments, message in ((["--goodput", "ttft:0"], "--goodput takes"), (["--goodput", "x:5"], "--goodput takes"),
                               (["--request-rate", "0"], "--request-rate takes"), (["ttft:5"], "has no meaning here"),
                               (["--concurrency", "5000"], "up to 4096"), (["--endpoint", "chat"], "--dataset-path"),
                               (["--api-key", "a", "--api-key", "b"], "one --api-key"),
                               (["--concurency", "1"], "did you mean --concurrency")):
        result = run("http://127.0.0.1:9", *arguments, code=2)
        assert message in result.stderr and result.stderr.count("\n") == 1, (arguments, result.stderr)
    result = run("ftp://127.0.0.1", code=1)
    assert "begins with http:// or https://" in result.stderr, result.stderr


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(name)


if __name__ == "__main__":
    main()
