#!/usr/bin/env python3
"""--trace where ranks or engines are processes: one file with the tracks of all. test_traces.py PROGRAM SOURCE_DIR"""
import json
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[2] + "/tests/server")
from serve_program import PATIENCE, Serve, story  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = sys.argv[1]
MODEL = sys.argv[2] + "/models/mini-v4"
SLACK = 0.002  # microseconds are written with three decimals


def run(*words):
    """Returns when it began and ended on the clock that traces are in."""
    began = time.monotonic() * 1e6
    subprocess.run([PROGRAM, *words], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    return began, time.monotonic() * 1e6


def read(path):
    """Events by (process, rank), and the names of tracks."""
    with open(path, encoding="ascii") as file:
        events = json.load(file)["traceEvents"]
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tracks = {key: [event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) == key] for key in names}
    assert sum(map(len, tracks.values())) == sum(event["ph"] == "X" for event in events), "events without a track"
    return tracks, names


def steps(track):
    return {event["args"]["tick"]: event for event in track if event["name"] == "step"}


def test_ranks(path):
    """Two stages that are processes: the second begins a tick when the first has ended it, on one clock."""
    began, ended = run("generate", "-m", MODEL, "--prompt", "Once upon", "--max-tokens", "40", "-pp", "2",
                       "--distributed-executor-backend", "mp", "--trace", path)
    tracks, names = read(path)
    assert names == {(0, 0): "rank 0, stage 0", (0, 1): "rank 1, stage 1"}, names
    first, second = steps(tracks[0, 0]), steps(tracks[0, 1])
    assert first.keys() == second.keys() and len(first) >= 40, (len(first), len(second))
    for tick, step in first.items():
        assert began < step["ts"] and second[tick]["ts"] + second[tick]["dur"] < ended
        assert second[tick]["ts"] >= step["ts"] + step["dur"] - SLACK, tick
        # Of one sequence there is one tick at a time.
        assert tick + 1 not in first or first[tick + 1]["ts"] >= second[tick]["ts"] + second[tick]["dur"] - SLACK, tick
    assert {event["name"] for event in tracks[0, 1]} == {"await", "receive-wait", "step", "choose"}
    assert {event["name"] for event in tracks[0, 0]} == {"plan", "step", "send-wait", "send", "feedback-wait"}


def test_replicas(path):
    """
    Processes of all replicas and their leaders are in it. Those of a stage begin the same ticks, the idle one without
    rows; a leader runs no step.
    """
    run("generate", "-m", MODEL, "--prompt", "Once upon", "--max-tokens", "20", "-dp", "2", "-pp", "2",
        "--enable-expert-parallel", "--distributed-executor-backend", "mp", "--trace", path)
    tracks, names = read(path)
    assert [name.split(", ")[-1] for _, name in sorted(names.items())] == 2 * ["stage 0", "stage 1", "leader"], names
    leaders = [key for key, name in names.items() if name == "leader"]
    # The idle one plans nothing of its own.
    assert [{event["name"] for event in tracks[key]} for key in leaders] == 2 * [{"plan", "feedback-wait"}], leaders
    ticks = [steps(track) for key, track in sorted(tracks.items()) if key not in leaders]
    assert len(ticks[0]) >= 20 and all(of_rank.keys() == ticks[0].keys() for of_rank in ticks), [len(t) for t in ticks]
    rows = [{event["args"]["rows"] for event in of_rank.values()} for of_rank in ticks]
    assert rows[2] == rows[3] == {0} and rows[0] == rows[1] and 0 not in rows[0], rows


def test_engines(path):
    """Engines of one run, one after the other and several at once, are processes of one picture."""
    run("bench", "-m", MODEL, "--concurrency", "1,2", "--drafts", "0,1", "--request-tokens", "8", "--gen-tokens", "4",
        "--repeats", "1", "--trace", path)
    tracks, _ = read(path)
    assert [process for process, _ in sorted(tracks)] == [0, 1, 2, 3] and all(tracks.values()), tracks.keys()


def test_workers(path):
    """Replicas of a server add to one file when it stops."""
    with open(path, "w", encoding="ascii") as file:
        file.write("what was there before")
    with Serve(PROGRAM, MODEL, "-dp", "2", "-pp", "2", "--trace", path) as server:
        for _ in range(4):
            assert server.post("/v1/chat/completions", story(5)).status == 200
    tracks, names = read(path)
    assert sorted(names) == [(0, 0), (0, 1), (1, 0), (1, 1)], names
    assert sum(len(steps(track)) for key, track in tracks.items() if key[1] == 0) >= 20


with tempfile.TemporaryDirectory() as folder:
    for test in (test_ranks, test_replicas, test_engines, test_workers):
        test(folder + "/trace.json")
print("all passed")
