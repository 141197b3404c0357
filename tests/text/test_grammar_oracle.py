#!/usr/bin/env python3
"""Grammars against other implementations: JSON Schema against jsonschema, patterns against Python's re.

Usage: test_grammar_oracle.py PROBE [COUNT [SEED]]

Random schemas and random values: a value is valid by jsonschema exactly if the grammar accepts it, compact, spaced
and indented, in some order of its keys (the grammar wants declared properties first, in the order of the schema).
Random patterns and random texts: re.fullmatch, and re.search for the keyword "pattern".
"""
import itertools
import json
import random
import re
import subprocess
import sys

import jsonschema

PATTERNS = ["^a+$", "b", "^[^a]*$", "a.b|c", "^(ab|c){1,2}$", "\\d", "^$", "[a-z0-9]é?"]
CHARACTERS = 'ab1 cé"\\\n_\u007f\u20ac\U0001f600/'


def ask(probe, questions):
    lines = "\n".join(json.dumps(question) for question in questions) + "\n"
    run = subprocess.run([probe], input=lines, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0 or len(answers) != len(questions):
        sys.exit(f"the probe failed: code {run.returncode}, {run.stderr}, after {len(answers)} answers of "
                 f"{len(questions)}: {questions[len(answers)] if len(answers) < len(questions) else ''}")
    return answers


class Maker:
    """Random schemas and values."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, share):
        return self.random.random() < share

    def text(self, most=4):
        return "".join(self.random.choice(CHARACTERS) for _ in range(self.random.randrange(most + 1)))

    def number(self):
        if self.chance(0.6):
            return self.random.randrange(-130, 130)
        number = round(self.random.uniform(-12, 12), self.random.randrange(1, 4))
        return number if number != int(number) else int(number) + 0.5

    def value(self, depth=2):
        kind = self.random.randrange(8 if depth > 0 else 6)
        if kind == 6:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        if kind == 7:
            return {key: self.value(depth - 1) for key in self.random.sample("abcxy", self.random.randrange(4))}
        return [None, True, False, self.text(), self.number(), self.random.randrange(5)][kind]

    def bounds(self, schema, low, high, make):
        for keyword in (low, high):
            if self.chance(0.4):
                schema[keyword] = make()

    def number_schema(self):
        schema = {"type": self.random.choice(["integer", "number"])}
        self.bounds(schema, "minimum", "maximum", self.number)
        if self.chance(0.3):
            self.bounds(schema, "exclusiveMinimum", "exclusiveMaximum", self.number)
        return schema

    def string_schema(self):
        schema = {"type": "string"}
        self.bounds(schema, "minLength", "maxLength", lambda: self.random.randrange(4))
        if self.chance(0.4):
            schema["pattern"] = self.random.choice(PATTERNS)
        return schema

    def array_schema(self, depth):
        schema = {"type": "array"}
        self.bounds(schema, "minItems", "maxItems", lambda: self.random.randrange(4))
        if self.chance(0.7):
            schema["items"] = self.schema(depth - 1)
        if self.chance(0.3):
            schema["prefixItems"] = [self.schema(depth - 1) for _ in range(self.random.randrange(1, 3))]
        return schema

    def object_schema(self, depth):
        names = sorted(self.random.sample("abc", self.random.randrange(4)))
        schema = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
        if self.chance(0.6):
            schema["required"] = self.random.sample("abcx", self.random.randrange(3))
        if self.chance(0.6):
            schema["additionalProperties"] = self.schema(depth - 1) if self.chance(0.4) else self.chance(0.3)
        if not names and "required" not in schema:
            self.bounds(schema, "minProperties", "maxProperties", lambda: self.random.randrange(3))
        return schema

    def plain_schema(self, depth):
        kind = self.random.randrange(8 if depth > 0 else 6)
        if kind == 7:
            return self.object_schema(depth)
        return [lambda: True if self.chance(0.7) else {},
                self.number_schema, self.string_schema,
                lambda: {"enum": [self.value(0) for _ in range(self.random.randrange(1, 4))]},
                lambda: {"const": self.value(1)},
                lambda: {"type": self.random.sample(["null", "boolean", "string", "integer"], 2)},
                lambda: self.array_schema(depth)][kind]()

    def schema(self, depth=2):
        if depth == 0 or self.chance(0.75):
            return self.plain_schema(depth)
        keyword = self.random.choice(["anyOf", "anyOf", "allOf", "oneOf"])
        schema = {keyword: [self.schema(depth - 1) for _ in range(self.random.randrange(1, 4))]}
        if self.chance(0.3):
            schema["type"] = self.random.choice(["string", "integer", "object", "array"])
        if self.chance(0.2):
            schema["maxLength"] = 2
        return schema

    def near(self, schema):
        """A value that has a good chance to be valid."""
        if not isinstance(schema, dict) or self.chance(0.15):
            return self.value()
        for keyword in ("anyOf", "oneOf", "allOf"):
            if keyword in schema:
                return self.near(self.random.choice(schema[keyword]))
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "array":
            count = self.random.randrange(schema.get("minItems", 0), 1 + max(schema.get("maxItems", 3), 0) % 4 + 1 +
                                          schema.get("minItems", 0))
            prefix = schema.get("prefixItems", [])
            return [self.near(prefix[i] if i < len(prefix) else schema.get("items", True)) for i in range(count)]
        if kind == "object":
            names = [n for n in schema.get("properties", {}) if n in schema.get("required", []) or self.chance(0.5)]
            value = {name: self.near(schema["properties"][name]) for name in names}
            for name in schema.get("required", []):
                value.setdefault(name, self.near(schema.get("additionalProperties", True)))
            if self.chance(0.2):
                value["x"] = self.near(schema.get("additionalProperties", True))
            return value
        if kind == "string":
            return self.random.choice(["a", "aa", "ab", "ababc", "é", "1", self.text(), "cab"])
        if kind in ("integer", "number"):
            return self.random.choice([self.number(), schema.get("minimum", 0), schema.get("maximum", 0),
                                       schema.get("exclusiveMinimum", 0)])
        return self.value()


def orders(value):
    """The value with its keys in every order, up to a number."""
    if isinstance(value, list):
        for items in itertools.islice(itertools.product(*(list(orders(item)) for item in value)), 300):
            yield list(items)
    elif isinstance(value, dict):
        for keys in itertools.permutations(value):
            for items in itertools.islice(itertools.product(*(list(orders(value[key])) for key in keys)), 300):
                yield dict(zip(keys, items))
    else:
        yield value


def spellings(value):
    yield json.dumps(value, ensure_ascii=False)
    yield json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    yield json.dumps(value, ensure_ascii=False, indent=2)


def check_schema(schema, values, answer, texts):
    """Problems of one schema; `texts` are the spellings asked about, by value."""
    if "error" in answer:
        if "no text at all" in answer["error"]:
            return [f"{schema} is refused as empty, and {value} is valid" for value in values
                    if jsonschema.Draft202012Validator(schema).is_valid(value)]
        is_expected = '"oneOf"' in answer["error"] or "beside fixed values" in answer["error"]
        return [] if is_expected else [f"{schema} is refused: {answer['error']}"]
    problems = []
    accepted = iter(answer["accepted"])
    for value, groups in zip(values, texts):
        got = [[next(accepted) for _ in group] for group in groups]
        is_valid = jsonschema.Draft202012Validator(schema).is_valid(value)
        if any(len(set(group)) > 1 for group in got):
            problems.append(f"{schema}: spellings of {value} differ: {got}")
        if any(group[0] for group in got) != is_valid:
            problems.append(f"{json.dumps(schema)}: {json.dumps(value)} is valid: {is_valid}, accepted: {got}")
    return problems


def check_schemas(probe, maker, count):
    cases = []
    for _ in range(count):
        schema = maker.schema()
        values = [maker.near(schema) for _ in range(8)] + [maker.value() for _ in range(3)]
        texts = [[list(spellings(ordered)) for ordered in itertools.islice(orders(value), 200)] for value in values]
        cases.append((schema, values, texts))
    questions = [{"kind": "json_schema", "text": json.dumps(schema),
                  "instances": [text for groups in texts for group in groups for text in group]}
                 for schema, _, texts in cases]
    problems = []
    refused = 0
    valid = 0
    for (schema, values, texts), answer in zip(cases, ask(probe, questions)):
        refused += "error" in answer
        valid += sum(answer.get("accepted", []))
        problems += check_schema(schema, values, answer, texts)
    print(f"{count} schemas, {refused} of them refused, {valid} spellings accepted")
    if refused > 0.4 * count or valid < count:
        problems.append("too few schemas were compiled, or too few values were valid, to mean anything")
    return problems


def random_pattern(maker, depth=3):
    kind = maker.random.randrange(9 if depth > 0 else 4)
    if kind < 2:
        return maker.random.choice("abc1")
    if kind < 4:
        return maker.random.choice(["[a-b]", "[^b]", ".", "\\d", "\\w", "\\s", "[^\\d]", "é", "\\.", "[é-€]"])
    inner = random_pattern(maker, depth - 1)
    if kind == 4:
        return f"({inner})" + maker.random.choice(["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", ""])
    if kind == 5:
        return f"(?:{inner}|{random_pattern(maker, depth - 1)})"
    if kind == 6 and maker.chance(0.4):
        return maker.random.choice([f"^{inner}", f"{inner}$", f"(?:^{inner}|{inner}$)"])
    return inner + random_pattern(maker, depth - 1)


def check_patterns(probe, maker, count):
    cases = []
    for _ in range(count):
        texts = ["".join(maker.random.choice("aabbc1 é€.\n") for _ in range(maker.random.randrange(6)))
                 for _ in range(20)]
        cases.append((random_pattern(maker), texts + [""]))
    whole = ask(probe, [{"kind": "regex", "text": pattern, "instances": texts} for pattern, texts in cases])
    part = ask(probe, [{"kind": "json_schema", "text": json.dumps({"type": "string", "pattern": pattern}),
                        "instances": [json.dumps(text, ensure_ascii=False) for text in texts]}
                       for pattern, texts in cases])
    problems = []
    accepted = 0
    for (pattern, texts), *answers in zip(cases, whole, part):
        # Python's $ also stands before a last newline
        compiled = re.compile(pattern.replace("$", "\\Z"), re.ASCII)
        for name, match, answer in zip(("fullmatch", "search"), (compiled.fullmatch, compiled.search), answers):
            wanted = [match(text) is not None for text in texts]
            got = answer.get("accepted")
            accepted += sum(wanted)
            if got is None:
                if not ("no text at all" in answer["error"] and not any(wanted)):
                    problems.append(f"{pattern}: {answer['error']}")
            elif got != wanted:
                bad = [(text, w) for text, w, g in zip(texts, wanted, got) if w != g]
                problems.append(f"{pattern}: {name} says {bad}")
    print(f"{count} patterns, {accepted} matches")
    return problems


def main():
    probe = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    maker = Maker(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    problems = check_schemas(probe, maker, count) + check_patterns(probe, maker, count)
    for problem in problems[:10]:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems")


if __name__ == "__main__":
    main()
