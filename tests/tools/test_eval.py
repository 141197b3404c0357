#!/usr/bin/env python3
"""`sluice eval` against a server with known answers, and against sums of its own.

Usage: test_eval.py PROGRAM SOURCE_DIR
"""
import json
import math
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import time

from scripted_server import Answer, Server

SOURCE_DIR = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE_DIR / "tests/server"))
from serve_program import Serve  # noqa: E402  pylint: disable=wrong-import-position

GSM8K = SOURCE_DIR / "tests/golden/gsm8k/test-12.jsonl"
MODEL = str(SOURCE_DIR / "models/mini-v4")
ENVIRONMENT = {**os.environ, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
ENVIRONMENT.pop("OPENAI_API_KEY", None)
BOS = "<\uff5cbegin\u2581of\u2581sentence\uff5c>"


def run(*arguments, code=0):
    result = subprocess.run([sys.argv[1], "eval", *map(str, arguments)], capture_output=True, text=True, check=False,
                            timeout=100, env=ENVIRONMENT)
    assert result.returncode == code, f"{arguments}: code {result.returncode}: {result.stderr}"
    return result


def evaluate(*arguments, **more):
    return json.loads(run(*arguments, "--json", **more).stdout)


def chat(text, reason="stop", usage=(10, 5)):
    return Answer(body={"choices": [{"index": 0, "message": {"role": "assistant", "content": text},
                                     "finish_reason": reason}],
                        "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1]}})


def question_of(record):
    return record["body"]["messages"][-1]["content"].split("\n\n")[0]


def write_lines(path, pairs):
    path.write_text("".join(json.dumps({"question": question, "answer": answer}) + "\n" for question, answer in pairs))


# Answers, and the numbers that they give; the last tells whether it is behind "####".
ANSWERS = [
    ("#### 18", "18", True),
    ("16 - 3 = 13 and 13 - 4 = 9.\n#### $9,000.50", "9000.5", True),
    ("#### 1\nNo, wait.\n#### -42.", "-42", True),
    ("####  012 eggs", "12", True),
    ("It is \\boxed{1,234}, so 2 is wrong.", "1234", False),
    ("The answer is 7.", "7", False),
    ("We get 3 apples, 4 pears and 0.50 dollars", "0.5", False),
    ("5-3 is 2, 10-7", "7", False),
    ("a loss of -$30", "-30", False),
    ("1,5 and 1,000,000 and 12,34", "34", False),
    ("#### none, or 3", "3", True),
    ("No idea.", None, False),
    ("", None, False),
    ("3.", "3", False),
    ("-0.00", "0", False),
    (".5 of it", "0.5", False),
    ("100", "100", False),
    ("(-8)", "-8", False),
]


def test_numbers():
    with tempfile.TemporaryDirectory() as directory, \
            Server(lambda record: chat(ANSWERS[int(question_of(record))][0])) as server:
        path = pathlib.Path(directory) / "data.jsonl"
        write_lines(path, [(str(i), f"x\n#### {number or 77}") for i, (_, number, _) in enumerate(ANSWERS)])
        result = evaluate("gsm8k", "--data", path, "--base-url", server.url)
    for (text, number, _), row in zip(ANSWERS, result["rows"]):
        assert row["found"] == number, (text, number, row)
        assert row["correct"] == (number is not None), (text, row)
    assert result["strict_correct"] == sum(is_marked for *_, is_marked in ANSWERS)
    assert result["questions"] == result["answered"] == len(ANSWERS) and result["failed"] == 0


def test_score_of_the_data():
    """Right are the answers to those questions that have a place divisible by 3."""
    lines = [json.loads(line) for line in GSM8K.read_text().splitlines()]
    places = {line["question"]: i for i, line in enumerate(lines)}

    def script(record):
        place = places[question_of(record)]
        answer = lines[place]["answer"]
        time.sleep(0.05)
        return chat(answer if place % 3 == 0 else answer + "1", "length" if place == 1 else "stop", (100, 20))
    with Server(script) as server:
        result = evaluate("gsm8k", "--data", GSM8K, "--base-url", server.url, "--concurrency", "3", "--num-fewshot", "5",
                          "--max-tokens", "99", "--seed", "4", "--no-thinking")
        assert server.peak == 3, server.peak
        text = run("gsm8k", "--data", GSM8K, "--base-url", server.url, "--limit", "5").stdout
    assert [row["correct"] for row in result["rows"]] == [i % 3 == 0 for i in range(12)]
    assert (result["correct"], result["questions"], result["cut"]) == (4, 12, 1), result
    assert (result["prompt_tokens"], result["output_tokens"]) == (1200, 240), result
    assert math.isclose(result["score"], 4 / 12)
    # The bounds are the shares from which 4 of 12 is just 1.96 deviations away.
    for bound in (result["score_low"], result["score_high"]):
        assert math.isclose(abs(4 / 12 - bound), 1.959963984540054 * math.sqrt(bound * (1 - bound) / 12), rel_tol=1e-9)
    assert result["score_low"] < 4 / 12 < result["score_high"]
    assert "2 of 5 right" in text and "score    0.4000" in text, text
    body = server.log[0]["body"]
    assert body["max_tokens"] == 99 and body["seed"] == 4 and body["temperature"] == 0, body
    assert body["chat_template_kwargs"] == {"thinking": False}, body
    assert "chat_template_kwargs" not in server.log[-1]["body"]
    messages = body["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] * 5 + ["user"], messages
    assert all("####" in m["content"] for m in messages)
    assert messages[0]["content"].startswith("There are 15 trees") and messages[1]["content"].endswith("#### 6")
    # Each example is right: its sum says what stands behind the mark.
    for message in messages[1::2]:
        number = message["content"].split("#### ")[1]
        assert number in message["content"].split("\n")[0], message


def test_refusals_and_failures():
    tries = {}

    def script(record):
        question = question_of(record)
        tries[question] = tries.get(question, 0) + 1
        if question == "busy" and tries[question] < 3:
            return Answer(status=429 if tries[question] == 1 else 503, error="try again", headers=[("Retry-After", "1")])
        if question == "broken":
            return Answer(status=400, error="no such thing")
        return chat("#### 5")
    with tempfile.TemporaryDirectory() as directory, Server(script) as server:
        path = pathlib.Path(directory) / "data.jsonl"
        write_lines(path, [("busy", "#### 5"), ("fine", "#### 6"), ("fine", "#### 5")])
        start = time.monotonic()
        result = evaluate("gsm8k", "--data", path, "--base-url", server.url)
        assert time.monotonic() - start >= 2.0, "Retry-After was not kept"
        assert (result["correct"], result["answered"], tries["busy"]) == (2, 3, 3), (result, tries)
        write_lines(path, [("broken", "#### 5"), ("fine", "#### 5")])
        failed = run("gsm8k", "--data", path, "--base-url", server.url, "--json", code=1)
        result = json.loads(failed.stdout)
        assert (result["failed"], result["answered"], result["score"]) == (1, 1, 1.0), result
        assert failed.stderr == ("sluice eval: 1 of 2 questions got no answer, the first because of: 400: no such "
                                 "thing\n"), failed.stderr


def test_progress_shows_the_score():
    with Server(lambda record: (time.sleep(0.12), chat("#### 18"))[1]) as server:
        parent, child = pty.openpty()
        process = subprocess.Popen([sys.argv[1], "eval", "gsm8k", "--data", GSM8K, "--base-url", server.url,
                                    "--concurrency", "1"], stdout=subprocess.DEVNULL, stderr=child, env=ENVIRONMENT)
        os.close(child)
        shown = b""
        try:
            while piece := os.read(parent, 4096):
                shown += piece
        except OSError:
            pass
        assert process.wait(timeout=30) == 0
        os.close(parent)
    # The first answer, and no other, is 18.
    assert b"12 questions (" in shown and b"; score 0." in shown and b", 95 % 0." in shown, shown


def window_sum(tokens, window, stride, score):
    """The definition, token by token: each counts in the first window that has it."""
    total = 0.0
    for place in range(len(tokens)):
        begin = 0
        while begin + window - 1 <= place:
            begin += stride
        total += score([0] + tokens[begin:begin + window - 1], 1 + place - begin)
    return total


def scripted_score(tokens, index):
    """A log-probability that depends on the token, the one before it and how much stands before."""
    return -0.001 * tokens[index] - 0.01 * index - 0.0001 * tokens[index - 1]


def test_perplexity_of_a_server():
    text = "".join(chr(97 + i * i % 26) for i in range(50))

    def script(record):
        body = record["body"]
        if record["path"] == "/tokenize":
            assert body["add_special_tokens"] is False
            return Answer(body={"tokens": [0] + [ord(c) for c in body["prompt"][len(BOS):]]})
        prompt = body["prompt"]
        assert body["echo"] is True and body["max_tokens"] == 1 and record["path"] == "/v1/completions"
        values = [None] + [scripted_score(prompt, i) for i in range(1, len(prompt))] + [-9.0]
        return Answer(body={"choices": [{"text": "", "logprobs": {"token_logprobs": values}}]})
    with tempfile.TemporaryDirectory() as directory, Server(script) as server:
        path = pathlib.Path(directory) / "text"
        path.write_text(text)
        tokens = [ord(c) for c in text]
        for window, stride, limit in ((100, 0, 0), (11, 5, 0), (11, 10, 0), (8, 1, 0), (2, 1, 0), (51, 25, 0), (16, 0, 20)):
            result = evaluate("perplexity", "--data", path, "--base-url", server.url, "--window", window, "--stride",
                              stride, "--limit", limit)
            used = tokens[:limit] if limit else tokens
            wanted = window_sum(used, window, stride or max(window // 2, 1), scripted_score)
            assert result["tokens"] == len(used), result
            assert math.isclose(result["log_probability_sum"], wanted, rel_tol=1e-12), (window, stride, result, wanted)
            assert math.isclose(result["perplexity"], math.exp(-wanted / len(used)), rel_tol=1e-12)
            if limit:
                assert result["bits_per_byte"] is None
            else:
                assert math.isclose(result["bits_per_byte"], -wanted / math.log(2) / len(text), rel_tol=1e-12)
        assert all(r["body"]["prompt"][0] == 0 for r in server.log if r["path"] == "/v1/completions")


def read_logits(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + length])["logits"]
    assert entry["dtype"] == "F32", entry
    rows, columns = entry["shape"][-2:]
    begin = 8 + length + entry["data_offsets"][0]
    return [struct.unpack_from(f"<{columns}f", data, begin + 4 * columns * row) for row in range(rows)]


def log_probabilities(directory, tokens):
    """Of each token but the first, by softmax over the logits that the program writes."""
    path = directory / "logits.safetensors"
    subprocess.run([sys.argv[1], "generate", "--model", MODEL, "--token-ids", ",".join(map(str, tokens)), "--max-tokens",
                    "0", "--prompt-logits", path], check=True, capture_output=True)
    result = [0.0]
    for row, token in zip(read_logits(path), tokens[1:]):
        largest = max(row)
        result.append(row[token] - largest - math.log(math.fsum(math.exp(x - largest) for x in row)))
    return result


def test_perplexity_of_the_bundled_model():
    text = "Once upon a time a fox lived near a bridge. The fox was hungry \u00e9 and went to look for food.\n"
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        path = directory / "text"
        path.write_text(text)
        ids = json.loads(subprocess.run([sys.argv[1], "tokenize", "--model", MODEL, "--json", text],
                                        capture_output=True, text=True, check=True).stdout)
        tokens = ids["token_ids"] if isinstance(ids, dict) else ids
        cache = {}

        def score(window, index):
            key = tuple(window)
            if key not in cache:
                cache[key] = log_probabilities(directory, window)
            return cache[key][index]
        results = {}
        for window, stride in ((1024, 0), (12, 5)):
            arguments = ("perplexity", "--data", path, "--window", window, "--stride", stride)
            result = results[window] = evaluate(*arguments, "--model", MODEL)
            wanted = window_sum(tokens, window, stride or window // 2, score)
            assert result["tokens"] == len(tokens), (result, tokens)
            assert math.isclose(result["log_probability_sum"], wanted, rel_tol=1e-6), (result, wanted)
        with Serve(sys.argv[1], MODEL, "--disable-uvicorn-access-log") as server:
            url = f"http://127.0.0.1:{server.address}"
            for window, stride in ((1024, 0), (12, 5)):
                result = evaluate("perplexity", "--data", path, "--window", window, "--stride", stride, "--base-url", url)
                assert math.isclose(result["log_probability_sum"], results[window]["log_probability_sum"], rel_tol=1e-6)
            check_both_ways(url, directory)


def check_both_ways(url, directory):
    """The same answers from the model in the process and on the server."""
    path = directory / "sums.jsonl"
    sums = [(41, 17), (23, 15), (30, 12), (52, 26), (11, 8), (64, 3)]
    write_lines(path, [(f"Rosa has {a} figs and buys {b} more. How many figs does Rosa have now?", f"#### {a + b}")
                       for a, b in sums])
    for thinking in ("--thinking", "--no-thinking"):
        arguments = ("gsm8k", "--data", path, "--max-tokens", 100, thinking)
        here = evaluate(*arguments, "--model", MODEL, "--concurrency", 4)
        there = evaluate(*arguments, "--base-url", url)
        assert here["rows"] == there["rows"], (here, there)
        if thinking == "--no-thinking":
            assert sum(row["found"] is not None for row in here["rows"]) >= 3, here
        assert here["output_tokens"] == there["output_tokens"], (here, there)
        assert here["prompt_tokens"] == there["prompt_tokens"], (here, there)
    alone = evaluate("gsm8k", "--data", path, "--max-tokens", 100, "--no-thinking", "--model", MODEL, "--concurrency", 1)
    assert alone["rows"] == here["rows"]


def test_usage_errors():
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "data"
        for arguments, message in (([], "name one task"), (["mmlu"], "is no task"), (["gsm8k"], "--data is missing"),
                                   (["gsm8k", "--data", path], "--base-url"),
                                   (["gsm8k", "--data", path, "--model", MODEL, "--concurrency", "1,2"], "one number"),
                                   (["gsm8k", "--data", path, "--model", MODEL, "--num-fewshot", "9"], "8")):
            result = run(*arguments, code=2)
            assert message in result.stderr and result.stderr.count("\n") == 1, (arguments, result.stderr)
        for text, message in (('{"question": "x"}\n', "object 1 lacks"), ("{\n", "line 1"), ("", "has no lines"),
                              ('{"question": "x", "answer": "about 5"}\n', "does not end with ####")):
            path.write_text(text)
            result = run("gsm8k", "--data", path, "--model", MODEL, code=1)
            assert message in result.stderr and result.stderr.count("\n") == 1, (text, result.stderr)
        path.write_text("")
        assert "has no tokens" in run("perplexity", "--data", path, "--model", MODEL, code=1).stderr
        path.write_text("some text")
        assert "below --window 8" in run("perplexity", "--data", path, "--model", MODEL, "--window", 8, "--stride", 8,
                                         code=2).stderr


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(name)


if __name__ == "__main__":
    main()
