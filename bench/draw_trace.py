#!/usr/bin/env python3
"""Draws a part of a timeline (`--trace FILE`) as SVG: what each rank did when. Results keep such pictures.

    bench/draw_trace.py trace.json --from 0.2 --seconds 0.3 >picture.svg
"""
import argparse
import json
from xml.sax.saxutils import escape

WIDTH, LEFT, LANE, BAR = 1100, 170, 34, 22
STEP_COLOURS = ["#2f6fb3", "#c2612a", "#3c8d40", "#8a5aa8", "#b8912f", "#3a9a9a", "#b04a6f", "#6b6b6b"]
COLOURS = {"draft": "#e0a030", "choose": "#70b8c8", "plan": "#9a9a9a", "send": "#a0c070", "await": None}
COMPUTING = ("step", "choose", "draft")


def read_lanes(path):
    """Names of the tracks, in order, and their events as (start, end, name, group) in seconds from the first one."""
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    lanes = {track: [] for track in sorted(names)}
    begin = min(e["ts"] for e in events if e["ph"] == "X")
    for e in events:
        if e["ph"] == "X":
            start = (e["ts"] - begin) / 1e6
            lanes[e["pid"], e["tid"]].append((start, start + e["dur"] / 1e6, e["name"], e.get("args", {}).get("group", 0)))
    return names, lanes


def colour_of(name, group):
    """None: waiting, which stays white."""
    if name == "step":
        return STEP_COLOURS[group % len(STEP_COLOURS)]
    return None if name.endswith("-wait") else COLOURS.get(name, "#c0c0c0")


def draw(names, lanes, begin, seconds):
    height = LANE * len(lanes) + 60
    scale = (WIDTH - LEFT - 10) / seconds
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    for row, (track, events) in enumerate(lanes.items()):
        y = 10 + row * LANE
        busy = sum(min(end, begin + seconds) - max(start, begin) for start, end, name, _ in events
                   if name in COMPUTING and end > begin and start < begin + seconds)
        out.append(f'<text x="6" y="{y + 15}">{escape(names[track])}, {100 * busy / seconds:.0f} % busy</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{seconds * scale:.1f}" height="{BAR}" fill="none" stroke="#dddddd"/>')
        for start, end, name, group in events:
            fill = colour_of(name, group)
            if fill is None or end < begin or start > begin + seconds:
                continue
            left, right = max(start, begin), min(end, begin + seconds)
            out.append(f'<rect x="{LEFT + (left - begin) * scale:.2f}" y="{y}" width="{max((right - left) * scale, 0.3):.2f}" '
                       f'height="{BAR}" fill="{fill}"><title>{escape(name)}, group {group}: {1e3 * (end - start):.3f} ms</title></rect>')
    y = 10 + len(lanes) * LANE
    for tick in range(11):
        x = LEFT + tick * seconds / 10 * scale
        out.append(f'<text x="{x:.0f}" y="{y + 16}" text-anchor="middle">{1e3 * tick * seconds / 10:g}</text>')
    out.append(f'<text x="{LEFT}" y="{y + 38}">milliseconds; steps by their group\'s colour, light: sending, choosing, drafting; '
               'white: waiting</text></svg>')
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="what --trace wrote")
    parser.add_argument("--from", dest="begin", type=float, default=0.0, help="seconds after the first event")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of the part")
    arguments = parser.parse_args()
    if arguments.seconds <= 0:
        parser.error("--seconds must be more than 0")
    print(draw(*read_lanes(arguments.trace), arguments.begin, arguments.seconds))


main()
