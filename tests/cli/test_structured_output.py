#!/usr/bin/env python3
"""Answers of the bundled model that must have a form: valid by another implementation, and the same with drafts.

Usage: test_structured_output.py PROGRAM SOURCE_DIR [COUNT [SEED]]

Random schemas at temperature 1: what the program writes is valid by jsonschema, and with drafts it writes the same
tokens. Regular expressions by re, choices, rules, tool calls: the same.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

SOURCE_DIR = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE_DIR / "tests/text"))
from test_grammar_oracle import Maker  # noqa: E402  pylint: disable=wrong-import-position

PROMPT = "Describe a fox."
MAX_TOKENS = 120
DRAFTS = ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}', "--no-mtp-adaptive"]


def generate(*arguments):
    """The answer as JSON, or the message of a refusal."""
    command = [sys.argv[1], "generate", "--model", str(SOURCE_DIR / "models/mini-v4"), "--max-tokens", str(MAX_TOKENS),
               "--temperature", "1", "--json", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr


def generate_both(*arguments):
    """The answer without drafts, after comparing it with that with drafts."""
    plain = generate(*arguments)
    if isinstance(plain, str):
        return plain
    drafted = generate(*arguments, *DRAFTS)
    if isinstance(drafted, str) or drafted["token_ids"] != plain["token_ids"]:
        sys.exit(f"{arguments}: drafts change {plain['text']!r} to {drafted!r}")
    generate_both.accepted += drafted["drafts"]["accepted"]
    return plain


generate_both.accepted = 0


def check_schemas(directory, count, seed):
    maker = Maker(seed)
    file = directory / "schema.json"
    finished = 0
    for i in range(count):
        schema = maker.object_schema(2)
        file.write_text(json.dumps(schema))
        answer = generate_both("--chat", "--no-thinking", "--prompt", PROMPT, "--seed", str(i), "--json-schema", str(file))
        if isinstance(answer, str):
            if "no text at all" not in answer and '"oneOf"' not in answer and "beside fixed values" not in answer:
                sys.exit(f"{schema}: {answer}")
        elif answer["finish_reason"] == "stop":
            finished += 1
            jsonschema.Draft202012Validator(schema).validate(json.loads(answer["text"]))
    print(f"{count} schemas, {finished} answers finished and valid")
    if finished < count / 3:
        sys.exit("too few answers came to their end to mean anything")


def check_forms(directory):
    chat = ["--chat", "--no-thinking", "--prompt", PROMPT]
    pattern = r"(yes|no)(, (because|since) [a-z ]{3,40}\.)?"
    rules = directory / "rules.gbnf"
    rules.write_text('root ::= sum\nsum ::= item (("+" | "-") item){1,4}\nitem ::= [0-9]{1,3} | "(" sum ")"\n')
    for seed in map(str, range(4)):
        text = generate_both(*chat, "--seed", seed, "--regex", pattern)["text"]
        assert re.fullmatch(pattern, text), text
        text = generate_both(*chat, "--seed", seed, "--choice", "red", "--choice", "reddish", "--choice", "🦊")["text"]
        assert text in ("red", "reddish", "🦊"), text
        answer = generate_both(*chat, "--seed", seed, "--grammar", str(rules))
        assert re.fullmatch(r"[-+()0-9]+", answer["text"]), answer
        if answer["finish_reason"] == "stop":
            eval(re.sub(r"0+(\d)", r"\1", answer["text"]))  # pylint: disable=eval-used
        # With thinking the form begins behind it.
        answer = generate_both("--chat", "--prompt", "What is 17 + 25?", "--seed", seed, "--regex", r"#[0-9]{2}")
        assert answer["finish_reason"] == "length" or re.fullmatch(r"#\d\d", answer["text"]), answer


def check_tools(directory):
    parameters = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12},
                                                   "days": {"type": "integer", "minimum": 1, "maximum": 14}},
                  "required": ["city", "days"], "additionalProperties": False}
    request = directory / "request.json"
    request.write_text(json.dumps({
        "messages": [{"role": "user", "content": PROMPT}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}]}))
    for seed in map(str, range(4)):
        answer = generate_both("--messages", str(request), "--no-thinking", "--seed", seed, "--tool-choice", "required")
        if answer["finish_reason"] != "length":
            assert answer["finish_reason"] == "tool_calls" and answer["tool_calls"], answer
        for call in answer["tool_calls"] if answer["finish_reason"] == "tool_calls" else []:
            assert call["function"]["name"] == "get_weather", call
            jsonschema.Draft202012Validator(parameters).validate(json.loads(call["function"]["arguments"]))


def main():
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    with tempfile.TemporaryDirectory() as directory:
        check_schemas(pathlib.Path(directory), count, seed)
        check_forms(pathlib.Path(directory))
        check_tools(pathlib.Path(directory))
    print(f"{generate_both.accepted} drafts accepted")
    if generate_both.accepted < count:
        sys.exit("too few drafts were accepted to mean anything")


if __name__ == "__main__":
    main()
