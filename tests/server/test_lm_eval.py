#!/usr/bin/env python3
"""lm-evaluation-harness against a server: test_lm_eval.py PROGRAM SOURCE_DIR VENV_DIR

Skipped (77) where VENV_DIR has no lm_eval: `make test-lm-eval` makes that. Log-likelihoods must be those of
`generate --prompt-logits`, texts those of `generate`; both take another way than the server.
"""
import array
import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

from serve_program import Serve

PROGRAM, SOURCE_DIR, VENV_DIR = sys.argv[1:4]
MODEL = os.path.join(SOURCE_DIR, "models", "mini-v4")
LM_EVAL = os.path.join(VENV_DIR, "bin", "lm_eval")
SKIPPED = 77

CAPITALS = [{"question": "The capital of Peru is", "choices": ["Lima", "Oslo"], "label": 0},
            {"question": "The capital of Norway is", "choices": ["Rome", "Oslo"], "label": 1},
            {"question": "The capital of Italy is", "choices": ["Rome", "Lima"], "label": 0}]
TEXTS = [{"question": "The capital of Peru is", "answer": " Lima"},
         {"question": "Tell me a story about a fox", "answer": "?"}]
STOPS = ["\n", "."]
ANSWER_TOKENS = 24


def task_text(name, data, lines):
    """A task on a local file, as JSON, which is YAML too."""
    return json.dumps({"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": data}},
                       "test_split": "test", "doc_to_text": "{{question}}", **lines})


def write_tasks(folder):
    tasks = {"capitals": (CAPITALS, {"output_type": "multiple_choice", "doc_to_choice": "{{choices}}",
                                     "doc_to_target": "label", "metric_list": [{"metric": "acc"}]}),
             "texts": (TEXTS, {"output_type": "generate_until", "doc_to_target": "{{answer}}",
                               "generation_kwargs": {"until": STOPS, "max_gen_toks": ANSWER_TOKENS,
                                                     "temperature": 0},
                               "metric_list": [{"metric": "exact_match"}]})}
    for name, (rows, lines) in tasks.items():
        data = os.path.join(folder, f"{name}.jsonl")
        with open(data, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        with open(os.path.join(folder, f"{name}.yaml"), "w", encoding="utf-8") as file:
            file.write(task_text(name, data, lines))


def run_harness(server, folder):
    """The samples of both tasks, in order: what the harness asked and got."""
    arguments = (f"model=mini-v4,base_url=http://127.0.0.1:{server.address}/v1/completions,"
                 "tokenizer_backend=remote,num_concurrent=4")
    environment = {**os.environ, "HF_HOME": os.path.join(folder, "cache"), "HF_HUB_OFFLINE": "1",
                   "HF_DATASETS_OFFLINE": "1"}
    run = subprocess.run([LM_EVAL, "run", "--model", "local-completions", "--model_args", arguments,
                          "--tasks", "capitals,texts", "--include_path", folder, "--batch_size", "2",
                          "--output_path", os.path.join(folder, "out"), "--log_samples"],
                         env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    samples = {}
    for name in ("capitals", "texts"):
        paths = glob.glob(os.path.join(folder, "out", "**", f"samples_{name}_*.jsonl"), recursive=True)
        assert len(paths) == 1, paths
        with open(paths[0], encoding="utf-8") as file:
            samples[name] = sorted((json.loads(line) for line in file), key=lambda sample: sample["doc_id"])
    return samples


def generate(*words):
    return subprocess.run([PROGRAM, "generate", "--model", MODEL, *words], capture_output=True, check=True,
                          timeout=60).stdout


def tokenize(text):
    run = subprocess.run([PROGRAM, "tokenize", "--model", MODEL], input=text.encode(), capture_output=True,
                         check=True, timeout=60)
    return [int(word) for word in run.stdout.split()]


def read_logits(path):
    """The one tensor of a safetensors file: rows of floats."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        (entry,) = [value for name, value in header.items() if name != "__metadata__"]
        assert entry["dtype"] == "F32", entry
        values = array.array("f", file.read())
    width = entry["shape"][-1]
    return [values[i:i + width] for i in range(0, len(values), width)]


def score(context, choice, folder):
    """Log-likelihood of the choice's tokens, and whether each is the likeliest."""
    ids = tokenize(context + choice)
    first = len(tokenize(context))
    path = os.path.join(folder, "logits.safetensors")
    generate("--token-ids", ",".join(map(str, ids)), "--max-tokens", "1", "--temperature", "0",
             "--prompt-logits", path)
    rows = read_logits(path)
    total = 0.0
    is_greedy = True
    for place in range(first, len(ids)):
        row = rows[place - 1]
        top = max(row)
        total += row[ids[place]] - top - math.log(math.fsum(math.exp(value - top) for value in row))
        is_greedy = is_greedy and row[ids[place]] == top
    return total, is_greedy


def check_capitals(samples, folder):
    assert len(samples) == len(CAPITALS)
    for row, sample in zip(CAPITALS, samples):
        assert sample["acc"] == 1.0, sample
        for choice, response in zip(row["choices"], sample["resps"]):
            value, is_greedy = score(row["question"], " " + choice, folder)
            got_value, got_greedy = response[0]
            assert abs(float(got_value) - value) < 1e-4, (row, choice, got_value, value)
            assert got_greedy == str(is_greedy), (row, choice, got_greedy)


def check_texts(samples):
    assert len(samples) == len(TEXTS)
    for row, sample in zip(TEXTS, samples):
        stops = [word for stop in STOPS for word in ("--stop", stop)]
        wanted = generate("--prompt", row["question"], "--temperature", "0", "--max-tokens",
                          str(ANSWER_TOKENS), "--json", *stops)
        assert sample["resps"][0][0] == json.loads(wanted)["text"], (sample["resps"], wanted)
    assert samples[0]["exact_match"] == 1.0, samples[0]


def main():
    if not os.path.exists(LM_EVAL):
        print(f"there is no {LM_EVAL}: make test-lm-eval installs it")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        write_tasks(folder)
        with Serve(PROGRAM, MODEL, "--served-model-name", "mini-v4", "--enable-tokenizer-info-endpoint") as server:
            samples = run_harness(server, folder)
        check_capitals(samples["capitals"], folder)
        check_texts(samples["texts"])
    print(f"{len(CAPITALS)} questions and {len(TEXTS)} texts are as they should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
