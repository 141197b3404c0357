"""What clients sent once, to be sent again where they are not: recorded_requests.json."""
import json

from http_client import request

# All else that clients say about themselves is of no account to the server.
KEPT_HEADERS = ("content-type", "anthropic-version", "accept")

REQUEST_BYTES_MAX = 20000  # longer ones are not recorded


def fields_of(value, path=""):
    """The paths of all fields of a JSON value; a list's elements count as one."""
    if isinstance(value, dict):
        return set().union({path}, *(fields_of(item, f"{path}.{name}") for name, item in value.items()))
    if isinstance(value, list):
        return set().union({path}, *(fields_of(item, path + "[]") for item in value))
    return {path}


class Recorder:
    """A hook for what an HTTP client received."""

    def __init__(self, key):
        self.key = key
        self.entries = []

    def response(self, response):
        request = response.request
        is_stream = response.headers["content-type"].startswith("text/event-stream")
        # A stream is the client's to read: its fields are not known here.
        body = "" if is_stream else response.read().decode()
        if len(request.read()) > REQUEST_BYTES_MAX:
            return
        reply_id = json.loads(body).get("id") if body else None
        self.entries.append({
            "method": request.method, "path": request.url.path,
            "headers": {name: request.headers[name] for name in KEPT_HEADERS if name in request.headers},
            "body": request.read().decode(), "is_stranger": self.key not in str(request.headers.raw),
            "status": response.status_code, "id": reply_id,
            "fields": sorted(fields_of(json.loads(body)) if body else ())})

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.entries, file, indent=1, ensure_ascii=False)
            file.write("\n")


def send_again(entry, server, key, ids):
    """The reply; ids that the server made for replies of the recording are replaced by those of today."""
    path, body = entry["path"], entry["body"]
    for old, new in ids.items():
        path, body = path.replace(old, new), body.replace(old, new)
    lines = "".join(f"{name}: {value}\r\n" for name, value in entry["headers"].items())
    lines += f"Authorization: Bearer {'wrong' if entry['is_stranger'] else key}\r\n"
    data = body.encode()
    return request(server.address, f"{entry['method']} {path} HTTP/1.1\r\nHost: x\r\n{lines}"
                   f"Content-Length: {len(data)}\r\n\r\n".encode() + data, 30.0)


def check_stream(body):
    """Events of JSON with nothing after the end."""
    data = [line[6:] for line in body.split("\n") if line.startswith("data: ")]
    assert data, "the stream is empty"
    ends = [json.loads(text).get("type") for text in data if text != "[DONE]"]
    assert data[-1] == "[DONE]" or ends[-1] in ("message_stop", "response.completed"), data[-1]


def replay(path, server, key):
    with open(path, encoding="utf-8") as file:
        entries = json.load(file)
    ids = {}
    for entry in entries:
        reply = send_again(entry, server, key, ids)
        place = f"{entry['method']} {entry['path']} {entry['body'][:200]}"
        assert reply.status == entry["status"], f"{place}: {reply.status} {reply.body[:300]}"
        if reply.headers["content-type"].startswith("text/event-stream"):
            check_stream(reply.body.decode())
            continue
        value = json.loads(reply.body)
        missing = set(entry["fields"]) - fields_of(value)
        assert not missing, f"{place}: no fields {sorted(missing)}"
        if entry["id"] is not None:
            ids[entry["id"]] = value["id"]
    print(f"{len(entries)} requests were answered as recorded")
