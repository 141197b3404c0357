#!/usr/bin/env python3
"""/openapi.json: replies are as it says, and requests made at random of its schemas never upset the server."""
import json
import random
import sys

import jsonschema

from http_client import Reply, request
from serve_program import PATIENCE, Serve, story

PROGRAM = sys.argv[1]
MODEL = sys.argv[2] + "/models/mini-v4"
CHANCE = random.Random(23)

WORDS = ["", "a", "Once upon a time", "\u0000", "\ud83d\ude0a\u4e16", "<\uff5cend\u2581of\u2581sentence\uff5c>", "x" * 3000, "*"]
ODD = [None, True, False, 0, -1, 1, 2**31, 2**63, -2**63, 1e308, 0.5, "", "abc", [], {}, [[]], [None], {"a": None},
       [[[[1]]]], "9" * 400]


class Document:
    """The document, and what its schemas say of values."""

    def __init__(self, text):
        self.root = json.loads(text)
        assert self.root["openapi"] == "3.1.0"
        self.schemas = self.root["components"]["schemas"]
        for name, schema in self.schemas.items():
            jsonschema.Draft202012Validator.check_schema(schema)
        for reference in self.references(self.root):
            assert reference.split("/")[-1] in self.schemas, reference

    def references(self, value):
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            for inner in value.values():
                yield from self.references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from self.references(inner)

    def check(self, name, value):
        jsonschema.validate(value, {"$ref": f"#/components/schemas/{name}", "components": {"schemas": self.schemas}},
                            cls=jsonschema.Draft202012Validator)

    def make(self, schema, depth=0):
        """A value that the schema allows; now and then one that it does not."""
        if CHANCE.random() < 0.03:
            return CHANCE.choice(ODD)
        if "$ref" in schema:
            return self.make(self.schemas[schema["$ref"].split("/")[-1]], depth)
        if "anyOf" in schema:
            return self.make(CHANCE.choice(schema["anyOf"]), depth)
        if "enum" in schema:
            return CHANCE.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        if kind == "object":
            return self.make_object(schema, depth)
        if kind == "array":
            count = max(schema.get("minItems", 0), CHANCE.choice([0, 1, 1, 2, 3])) if depth < 6 else 0
            return [self.make(schema["items"], depth + 1) for _ in range(count)]
        if kind in ("integer", "number"):
            lowest = schema.get("minimum", schema.get("exclusiveMinimum", -5))
            highest = schema.get("maximum", lowest + CHANCE.choice([1, 10, 5000]))
            value = CHANCE.uniform(lowest, highest)
            return round(value) if kind == "integer" else value
        if kind == "boolean":
            return CHANCE.random() < 0.5
        return CHANCE.choice(WORDS) if kind == "string" else CHANCE.choice(ODD)

    def make_object(self, schema, depth):
        value = {}
        for name, inner in schema.get("properties", {}).items():
            share = 0.97 if name in schema.get("required", []) else 0.12
            if CHANCE.random() < share:
                value[name] = self.make(inner, depth + 1)
        if CHANCE.random() < 0.02:
            value["unheard_of"] = CHANCE.choice(ODD)
        return value


def operations(document):
    for path, methods in document.root["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def schema_name(operation, status):
    response = operation["responses"].get(str(status), operation["responses"]["default"])
    schema = response.get("content", {}).get("application/json", {}).get("schema")
    return schema["$ref"].split("/")[-1] if schema else None


def send(server, method, path, body=None):
    text = b"" if body is None else json.dumps(body).encode()
    return request(server.address, f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                   f"Content-Length: {len(text)}\r\n\r\n".encode() + text, PATIENCE)


def test_replies(server, document):
    """Each path answers as its entry says, in its good case and in a bad one."""
    chat = story(3)
    bodies = {"createChatCompletion": chat, "createCompletion": {"prompt": "Once", "max_tokens": 3},
              "createMessage": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3},
              "countTokens": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3},
              "createResponse": {"input": "Hello", "max_output_tokens": 3},
              "tokenize": {"prompt": "Hello", "return_token_strs": True}, "detokenize": {"tokens": [11, 12]}}
    kept = json.loads(send(server, "POST", "/v1/responses", bodies["createResponse"]).body)["id"]
    ids = {"getModel": MODEL, "getResponse": kept, "cancelResponse": kept, "deleteResponse": kept}
    late = []
    for path, method, operation in operations(document):
        if method == "DELETE":
            late.append((path, method, operation))
            continue
        check_operation(server, document, (path, method, operation), bodies, ids)
    for entry in late:
        check_operation(server, document, entry, bodies, ids)


def check_operation(server, document, entry, bodies, ids):
    path, method, operation = entry
    name = operation["operationId"]
    if "requestBody" in operation:
        document.check(schema_of_body(operation), bodies[name])
        bad = send(server, method, path, {"messages": 1, "prompt": {}, "input": 1, "tokens": "x"})
        assert bad.status == 400, (path, bad.body)
        document.check(schema_name(operation, 400), json.loads(bad.body))
    if "{id}" in path:
        bad = send(server, method, path.replace("{id}", "nothing"))
        assert bad.status == 404, (path, bad.body)
        document.check(schema_name(operation, 404), json.loads(bad.body))
    reply = send(server, method, path.replace("{id}", ids.get(name, "")), bodies.get(name))
    allowed = (200, 400) if name == "cancelResponse" else (200, 404) if name == "getTokenizerInfo" else (200,)
    assert reply.status in allowed, (path, reply.status, reply.body)
    schema = schema_name(operation, reply.status)
    if schema is not None:
        document.check(schema, json.loads(reply.body))
    other = send(server, "PATCH", path.replace("{id}", "x"))
    assert other.status == 405 and method in other.headers["allow"], (path, other.status)


def schema_of_body(operation):
    return operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]


def test_random(server, document, count):
    """Nothing that a schema allows, or nearly, ends in a fault of the server; errors have their shape."""
    seen = {}
    entries = [entry for entry in operations(document) if "requestBody" in entry[2]]
    for _ in range(count):
        path, method, operation = CHANCE.choice(entries)
        body = document.make(document.schemas[schema_of_body(operation)])
        if isinstance(body, dict):
            for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
                if name in document.schemas[schema_of_body(operation)]["properties"] and CHANCE.random() < 0.95:
                    body[name] = CHANCE.choice([1, 2, 5])
        reply = send(server, method, path, body)
        seen[reply.status] = seen.get(reply.status, 0) + 1
        where = (path, json.dumps(body)[:2000], reply.status, reply.body[:500])
        assert reply.status in (200, 400, 404), where
        if reply.status != 200:
            document.check(schema_name(operation, reply.status), json.loads(reply.body))
        elif reply.headers["content-type"].startswith("text/event-stream"):
            assert b"data: " in reply.body, where
        else:
            document.check(schema_name(operation, 200), json.loads(reply.body))
    assert seen.get(200, 0) > count // 20 and seen.get(400, 0) > count // 20, seen
    assert json.loads(server.get("/live").body)["workers"]["restarts"] == 0, "a worker died of a request"
    assert json.loads(server.get("/load").body) == {"server_load": 0}


def main():
    with Serve(PROGRAM, MODEL, "--max-model-len", "1024") as server:
        document = Document(server.get("/openapi.json").body)
        test_replies(server, document)
        test_random(server, document, 300)
    print("all passed")


main()
