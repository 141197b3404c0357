#!/usr/bin/env python3
"""The page in a browser: test_page.py PRINT_PAGE CHROMEDRIVER CHROMIUM PROGRAM MODEL [SCREENSHOT_DIRECTORY]

Over a server that plays a script (page_backend.py), and once over `sluice serve`. Whatever happens, the page may ask for nothing elsewhere,
break no rule of its security policy, write no error to the console, and never scroll sideways.
"""
import base64
import hashlib
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from html.parser import HTMLParser

from page_backend import TOOL_CALL, PageBackend
from serve_program import Serve
from web_driver import WebDriver

WIDTHS = (360, 768, 1280)
SCHEMES = ("light", "dark")
POLICY = {"default-src": "'none'", "img-src": "data:", "connect-src": "'self'", "base-uri": "'none'",
          "form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'"}

# Failures of requests that a test asks for are on the console, and no fault of the page.
EXPECTED_ON_CONSOLE = re.compile(r"status of (400|401|429|404) ")

# Text on what it stands on, by the formula of WCAG 2: all that is below the ratio its size needs.
CONTRAST = """
function channels(color) { return color.match(/[\\d.]+/g).map(Number); }
function luminance(c) {
  const [r, g, b] = c.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function over(top, below) {
  const alpha = top[3] ?? 1;
  return [0, 1, 2].map((i) => top[i] * alpha + below[i] * (1 - alpha));
}
function ground(node) {
  if (node === null) return channels(getComputedStyle(document.body).backgroundColor).slice(0, 3);
  return over(channels(getComputedStyle(node).backgroundColor), ground(node.parentElement));
}
const poor = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let count = 0;
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (walker.currentNode.data.trim() === '' || !node.checkVisibility({visibilityProperty: true}) ||
      ['SCRIPT', 'STYLE', 'OPTION'].includes(node.tagName) || node.closest('.sr-only, .skip-link')) continue;
  count++;
  const style = getComputedStyle(node);
  const below = ground(node);
  const a = luminance(over(channels(style.color), below)), b = luminance(below);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const isLarge = parseFloat(style.fontSize) >= 24;
  if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} ${walker.currentNode.data.trim()}`);
}
return [count, poor];
"""

UNNAMED = """
return [...document.querySelectorAll('input, select, textarea, button, meter, dialog, aside, [role]')]
  .filter((node) => !(node.labels?.length || node.getAttribute('aria-label') || node.textContent.trim() ||
                      document.getElementById(node.getAttribute('aria-labelledby') ?? '') ||
                      ['status', 'alert'].includes(node.getAttribute('role'))))
  .map((node) => node.outerHTML.slice(0, 120));
"""

REPEATED_IDS = """
const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
return ids.filter((id, i) => ids.indexOf(id) !== i);
"""


# A heading is at most one level below the one before it.
SKIPPED_HEADINGS = """
const levels = [...document.querySelectorAll('h1, h2, h3, h4, h5')].filter((node) => node.checkVisibility() && !node.closest('.answer'))
  .map((node) => Number(node.tagName[1]));
return levels.filter((level, i) => i > 0 && level > levels[i - 1] + 1);
"""


class PageParts(HTMLParser):
    """What the file holds: texts of style and script, and all that could make a browser ask for something."""

    def __init__(self, page):
        super().__init__()
        self.texts = {"style": [], "script": []}
        self.references = []
        self.inside = None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.inside = tag if tag in self.texts else None
        for name, value in attributes:
            if name in ("src", "srcset", "href", "action", "data", "poster", "style") or name.startswith("on"):
                self.references.append((tag, name, value))

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside].append(data)

    def handle_endtag(self, tag):
        self.inside = None


def test_file(page, policy):
    """The policy allows exactly the file's own style and script, and the file names no other source."""
    parts = PageParts(page.decode())
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for name in ("style", "script"):
        assert len(parts.texts[name]) == 1, f"one <{name}> is expected"
        digest = base64.b64encode(hashlib.sha256(parts.texts[name][0].encode()).digest()).decode()
        assert rules.pop(f"{name}-src") == f"'sha256-{digest}'", name
    assert rules == POLICY, rules
    for tag, name, value in parts.references:
        assert name == "href" and (value.startswith("data:image/svg+xml,") or value.startswith("#")), (tag, name, value)
    assert not re.search(r"@import|url\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|@(STYLE|SCRIPT)@",
                         parts.texts["style"][0] + parts.texts["script"][0])


def png_colors(data):
    """How many colours a picture has: a page that shows nothing has one or two."""
    offset, pixels, header = 8, b"", None
    while offset < len(data):
        length, kind = struct.unpack(">I4s", data[offset:offset + 8])
        body = data[offset + 8:offset + 8 + length]
        header = struct.unpack(">IIBBBBB", body) if kind == b"IHDR" else header
        pixels += body if kind == b"IDAT" else b""
        offset += length + 12
    size = {2: 3, 6: 4}[header[3]]
    rows, stride = zlib.decompress(pixels), header[0] * size + 1
    assert len(rows) == stride * header[1]
    return len({rows[row * stride + 1:(row + 1) * stride] for row in range(header[1])})


class PageTest:
    def __init__(self, browser, backend, picture_directory):
        self.browser = browser
        self.backend = backend
        self.picture_directory = picture_directory

    def open(self, width=1280, height=800, **media):
        self.browser.set_size(width, height)
        self.browser.set_media(**({"prefers_color_scheme": "light"} | media))
        self.backend.key = None
        self.backend.is_ready = True
        self.backend.requests.clear()
        self.backend.left.clear()
        self.backend.may_go_on.set()
        self.browser.open(self.backend.url)
        self.browser.run("sessionStorage.clear(); localStorage.clear();")
        self.browser.open(self.backend.url)
        self.browser.wait_for("return document.querySelector('#state').dataset.kind === 'ready'")

    def answers(self):
        return self.browser.run("return document.querySelectorAll('.turn.model[aria-busy=false]').length")

    def send(self, text):
        self.browser.type("#prompt", text)
        self.browser.press("enter")

    def ask(self, text):
        """Sends and waits for the end; the whole answer's text."""
        count = self.answers()
        self.send(text)
        self.wait_for_answers(count + 1)
        return self.last("")

    def wait_for_answers(self, count):
        self.browser.wait_for("return document.querySelectorAll('.turn.model[aria-busy=false]').length "
                              "=== arguments[0] && !document.querySelector('.turn.model[aria-busy=true]')", count)

    def last(self, selector):
        return self.browser.run("return [...document.querySelectorAll('.turn')].at(-1)"
                                + (f".querySelector({selector!r})?.innerText ?? ''" if selector else ".innerText"))

    def buttons(self):
        return self.browser.run("return ['send', 'stop'].filter((id) => document.getElementById(id).checkVisibility())")

    def test_streaming(self):
        """Words are there before the answer ends; the last state is the whole text."""
        self.open()
        self.backend.may_go_on.clear()
        self.send("Grüße, 世界")
        self.browser.wait_for("return document.querySelector('.turn.model[aria-busy=true]')")
        assert self.buttons() == ["stop"]
        self.backend.may_go_on.set()
        self.browser.wait_for("return /You s/.test(document.querySelector('.answer').innerText)")
        self.wait_for_answers(1)
        assert self.last(".answer") == "You said: Grüße, 世界"
        assert "12 tokens" in self.last(".turn-notes") and "16 from cache" in self.last(".turn-notes")
        assert self.backend.requests == [{"model": "mini-v4", "stream": True, "stream_options": {"include_usage": True},
                                          "messages": [{"role": "user", "content": "Grüße, 世界"}]}]
        assert self.browser.run("return document.activeElement.id") == "prompt"
        assert self.browser.text("#announcer") == "The model says: You said: Grüße, 世界"
        self.ask("again")
        assert [message["role"] for message in self.backend.requests[1]["messages"]] == ["user", "assistant", "user"]

    def test_growing(self):
        """A stream's text grows on the screen."""
        self.open()
        self.send("endless")
        self.browser.wait_for("return document.querySelector('.answer').innerText.length > 20")
        length = len(self.last(".answer"))
        self.browser.wait_for("return document.querySelector('.answer').innerText.length > arguments[0]", length)
        self.browser.click("#stop")

    def test_stop(self):
        """Stop ends the request at the server too; what came stays. Escape does the same."""
        self.open()
        for stop in (lambda: self.browser.click("#stop"), lambda: self.browser.press("escape")):
            self.backend.left.clear()
            count = self.answers()
            self.send("endless")
            self.browser.wait_for("return [...document.querySelectorAll('.answer')].at(-1).innerText.length > 20")
            stop()
            self.wait_for_answers(count + 1)
            assert self.backend.left.wait(10), "the server did not see the client leave"
            assert self.last(".answer").startswith("0 1 2 ") and "stopped" in self.last(".turn-notes")
            assert self.buttons() == ["send"]
        self.ask("next")
        assert self.backend.requests[-1]["messages"][1]["content"].startswith("0 1 2 ")

    def test_thinking(self):
        self.open()
        self.ask("think")
        assert self.last("summary").startswith("Thought for ") and self.last(".answer") == "It is 85 – precisely."
        assert not self.browser.run("return document.querySelector('details').open"), "thinking is folded"
        self.browser.click("summary")
        assert self.last(".thoughts") == "37 + 48: 30 + 40 = 70, 7 + 8 = 15."

    def test_markdown(self):
        """Markdown becomes structure; what looks like HTML stays text, and pictures are not fetched."""
        self.open()
        text = self.ask("markdown")
        count = "return document.querySelectorAll('.answer ' + arguments[0]).length"
        expected = {"h4": 1, "em": 1, "strong": 1, "a": 1, "ol > li": 2, "ol ul > li": 2, "td": 2, "th": 2, "pre": 1,
                    "blockquote": 1, "img": 0, "b": 0, ":not(pre) > code": 1, "script": 0}
        found = {selector: self.browser.run(count, selector) for selector in expected}
        assert found == expected, found
        assert "<img src=x onerror=alert(1)>" in text and "<b>not bold</b>" in text
        assert self.browser.run("return document.querySelector('.answer a').href") == "https://example.org/locks"
        assert self.last("pre") == "while (level < upper) {\n    fill(); /* <b>not bold</b> */\n}"

    def test_tools(self):
        """Calls are shown; the user gives their results, and they go back under the call's id."""
        self.open()
        self.ask("tool")
        assert self.last(".call-head") == f"Calls {TOOL_CALL['name']}"
        assert self.last(".call pre") == '{\n  "city": "Rome"\n}'
        assert self.browser.label(".call-reply textarea") == f"Result of {TOOL_CALL['name']}"
        self.browser.type(".call-reply textarea", "sunny")
        self.browser.click(".send-results")
        self.wait_for_answers(2)
        assert self.last(".answer") == "thanks"
        call, result = self.backend.requests[-1]["messages"][-2:]
        assert call["tool_calls"] == [{"id": "call_1", "type": "function", "function": {
            "name": TOOL_CALL["name"], "arguments": "".join(TOOL_CALL["pieces"])}}]
        assert result == {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}

    def test_failures(self):
        """Each failure is a sentence, for screen readers too, and the conversation goes on."""
        self.open()
        sentences = {"refuse": "'temperature' must be from 0 to 2, but is 3.",
                     "busy": "Too many requests are waiting. Try again in 7 s.",
                     "broken": "The connection ended before the answer did.", "failing": "The worker was lost."}
        for text, sentence in sentences.items():
            self.ask(text)
            assert self.last("[role=alert]") == sentence, self.last("")
        self.ask("long")
        assert "cut off at the token limit" in self.last(".turn-notes")
        self.browser.click(".retry")
        self.wait_for_answers(5)
        assert self.backend.requests[-1] == self.backend.requests[-2], "the same was asked again"
        self.browser.click("#new-chat")
        self.ask("fresh")
        assert len(self.backend.requests[-1]["messages"]) == 1

    def test_key(self):
        """The key is asked for, tried, kept for the tab alone, and sent."""
        self.open()
        self.backend.key = "secret"
        self.send("hello")
        self.browser.wait_for("return document.querySelector('#key-dialog').open")
        assert self.browser.label("#key") == "API key"
        for key, problem in (("wrong", "That key does not fit."), ("secret", "")):
            self.browser.run("document.querySelector('#key-problem').textContent = ''")
            self.browser.type("#key", key)
            self.browser.press("enter")
            if problem:
                self.browser.wait_for("return document.querySelector('#key-problem').textContent === arguments[0]",
                                      problem)
        self.wait_for_answers(1)
        assert self.last(".answer") == "You said: hello"
        kept = self.browser.run("return [sessionStorage.length, Object.values(localStorage).join().includes('secret')]")
        assert kept == [1, False], kept

    def test_settings(self):
        """Fields go into the request under the API's names, wrong ones are refused, and they outlive the page."""
        self.open()
        self.browser.click("#open-settings")
        for field, text in (("temperature", "3"), ("system", "Be brief."), ("max_tokens", "9"), ("seed", "7")):
            self.browser.type(f"#{field}", text)
        self.browser.run("document.querySelector('#thinking').value = 'off'; "
                         "document.querySelector('#model').value = 'second'")
        self.browser.click("#settings .primary")
        assert self.browser.text("#settings-problem").startswith("Temperature: ")
        assert self.browser.run("return document.activeElement.id") == "temperature"
        self.browser.run("document.querySelector('#temperature').value = '0.5'")
        self.browser.type("#tools", "{}")
        self.browser.click("#settings .primary")
        assert self.browser.text("#settings-problem") == "Tools: this must be an array: [ … ]."
        self.browser.run("document.querySelector('#tools').value = '[]'")
        self.browser.click("#settings .primary")
        self.browser.open(self.backend.url)
        self.browser.wait_for("return document.querySelector('#welcome-model').innerText === 'second'")
        self.ask("hello")
        assert self.backend.requests == [{
            "model": "second", "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 9,
            "temperature": 0.5, "seed": 7, "chat_template_kwargs": {"thinking": False}, "tools": [],
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]}]

    def test_live(self):
        """Rates are differences of the counters over those of the time."""
        self.open()
        self.browser.wait_for("return document.querySelector('#rate').innerText !== '–'")
        numbers = {name: self.browser.text(f"#{name}") for name in
                   ("running", "waiting", "prefill", "rows", "accepted", "hits", "pages", "live-note")}
        assert numbers == {"running": "3", "waiting": "2", "prefill": "25", "rows": "3.5", "accepted": "60 %",
                           "hits": "75 %", "pages": "42 %", "live-note": "1 of 1 worker ready, 1 restart"}, numbers
        assert self.browser.text("#rate") in ("40", "60", "80")
        assert self.browser.text("#lanes").split() == "planning 5 % layers 60 % drafts 20 %".split()
        # Both stages: bars of what they work and, above it, wait; as words for who does not see them.
        assert self.browser.text("#stages").split() == "stage 0 55 % stage 1 60 %".split(), self.browser.text("#stages")
        assert self.browser.text("#bubbles") == "bubbles 28 %"
        assert self.browser.text("#links") == "Links: 0 to 1 2.8 MB/s, 1 to 0 12 kB/s, inside 1 640 B/s"
        labels, bars = self.browser.run("""
            const lanes = [...document.querySelectorAll('#stages svg')];
            const last = (svg, part) => [...svg.querySelectorAll(`.bar-${part}`)].at(-1);
            return [lanes.map((svg) => svg.getAttribute('aria-label')), lanes.map((svg) => ['busy', 'wait'].map((part) =>
              ['y', 'height'].map((name) => Number(last(svg, part).getAttribute(name)))))]""")
        assert labels == [f"Stage {i} of 2: works for {work} % and waits for others for {wait} % of the last seconds"
                          for i, work, wait in ((0, 55, 25), (1, 60, 20))], labels
        assert bars == [[[9, 11], [4, 5]], [[8, 12], [4, 4]]], bars
        self.backend.is_ready = False
        self.browser.wait_for("return document.querySelector('#live-note').innerText === "
                              "'The model cannot answer yet: 0 of 1 worker ready, 1 restart.'")
        assert self.browser.text("#state") == "not ready"

    def test_looks(self):
        """At each width in each scheme: nothing beyond the edge, enough contrast, a picture that is not blank."""
        for scheme in SCHEMES:
            for width in WIDTHS:
                self.open(width, 740 if width < 500 else 900, prefers_color_scheme=scheme)
                self.look(f"empty-{width}-{scheme}")
                for text in ("think", "markdown", "busy", "tool"):
                    self.ask(text)
                self.look(f"chat-{width}-{scheme}")
                if width < 1024:
                    self.browser.click("#show-live")
                self.browser.wait_for("return document.querySelector('#rate').innerText !== '–'")
                self.look(f"live-{width}-{scheme}")
                self.browser.click("#open-settings")
                self.look(f"settings-{width}-{scheme}")

    def look(self, name):
        wide = self.browser.run("return [document.documentElement.scrollWidth - innerWidth, "
                                "...[...document.querySelectorAll('.scroller, .live, dialog[open]')]"
                                ".map((node) => node.scrollWidth - node.clientWidth)]")
        assert max(wide) <= 0, f"{name}: {wide} pixels beyond the edge"
        count, poor = self.browser.run(CONTRAST)
        assert count > 5 and poor == [], f"{name}: too little contrast: {poor}"
        assert self.browser.run(UNNAMED) == [], name
        assert self.browser.run(REPEATED_IDS) == [], name
        assert self.browser.run(SKIPPED_HEADINGS) == [], name
        picture = self.browser.screenshot()
        assert png_colors(picture) > 50, f"{name}: the page looks blank"
        if self.picture_directory:
            with open(os.path.join(self.picture_directory, name + ".png"), "wb") as file:
                file.write(picture)

    def test_keyboard(self):
        """All controls by Tab, each with a visible focus; dialogs give the focus back."""
        self.open()
        self.browser.run("document.querySelector('.skip-link').focus()")
        seen = []
        for _ in range(9):
            seen.append(self.browser.run(
                "const node = document.activeElement;"
                "const style = getComputedStyle(node.closest('.composer-box') ?? node);"
                "return [node.id || node.className || node.innerText, style.outlineStyle !== 'none']"))
            self.browser.press("tab")
        assert all(is_visible for _, is_visible in seen), seen
        names = [name for name, _ in seen]
        assert names[:4] == ["skip-link", "new-chat", "open-settings", "scroller"], names
        assert names[-2:] == ["prompt", "send"] and "Write a haiku about a canal." in names, names
        self.browser.run("document.querySelector('#open-settings').focus()")
        self.browser.press("enter")
        self.browser.wait_for("return document.querySelector('#settings').open")
        self.browser.press("escape")
        self.browser.wait_for("return document.activeElement.id === 'open-settings'")

    def test_stillness(self):
        """Nothing moves by itself while an answer comes and numbers change; no animation if none is wanted."""
        self.open(prefers_reduced_motion="reduce")
        self.browser.run("window.shift = 0; new PerformanceObserver((list) => list.getEntries().forEach("
                         "(entry) => { window.shift += entry.value; })).observe({type: 'layout-shift', buffered: true})")
        self.send("endless")
        self.browser.wait_for("return document.querySelector('.answer')?.innerText.length > 200")
        assert self.browser.run("return getComputedStyle(document.querySelector('.answer'), '::after').animationName") == "none"
        self.browser.click("#stop")
        self.wait_for_answers(1)
        shift = self.browser.run("return window.shift")
        assert shift < 0.02, f"layout shift {shift}"

    def test_real_server(self, program, model):
        """The page as `sluice serve` sends it: the key is asked for, the model thinks, answers, and is seen at it."""
        with Serve(program, model, "--api-key", "open-sesame", "-pp", "2", "--speculative-config",
                   '{"method": "mtp", "num_speculative_tokens": 2}') as server:
            self.browser.set_size(1280, 900)
            self.browser.open(f"http://127.0.0.1:{server.address}/")
            self.browser.run("localStorage.setItem('sluice.settings', JSON.stringify({temperature: 0}))")
            self.browser.open(f"http://127.0.0.1:{server.address}/")
            self.browser.wait_for("return document.querySelector('#key-dialog').open")
            self.browser.type("#key", "open-sesame")
            self.browser.press("enter")
            self.browser.wait_for("return document.querySelector('#state').dataset.kind === 'ready'")
            self.browser.click("#ideas button")
            self.wait_for_answers(1)
            assert "Rosa has 58 figs." in self.last(".answer"), self.last("")
            self.browser.click("summary")
            assert "41 + 17 = 58" in self.last(".thoughts"), self.last("")
            self.ask("Tell me a story about a fox.")
            assert len(self.last(".answer")) > 100 and re.search(r"\d+ tokens · [\d.]+ tokens/s · prompt \d+",
                                                                 self.last(".turn-notes")), self.last("")
            self.browser.wait_for("return Number(document.querySelector('#spark-peak').innerText.slice(5)) > 0")
            self.browser.wait_for("return parseInt(document.querySelector('#accepted').innerText) > 0")
            assert self.browser.text("#live-note") == "1 of 1 worker ready, 0 restarts"
            assert re.fullmatch(r"stage 0\s+\d+ %\s+stage 1\s+\d+ %", self.browser.text("#stages")), self.browser.text("#stages")
            self.browser.wait_for("return parseInt(document.querySelector('#bubbles').innerText.slice(8)) > 0")
            assert re.match(r"Links: 0 to 1 [\d.]+ k?M?B/s, 1 to 0 ", self.browser.text("#links")), self.browser.text("#links")
            self.look("served")

    def check_console(self):
        for entry in self.browser.console():
            is_expected = entry["source"] == "network" and EXPECTED_ON_CONSOLE.search(entry["message"])
            assert is_expected, f"on the console: {entry['message']}"


def run(test, name, *arguments):
    start = time.monotonic()
    getattr(test, name)(*arguments)
    test.check_console()
    print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)


def main():
    print_page, driver, browser, program, model = sys.argv[1:6]
    policy, page = subprocess.run([print_page], stdout=subprocess.PIPE, check=True).stdout.split(b"\n", 1)
    test_file(page, policy.decode())
    with tempfile.TemporaryDirectory() as folder, PageBackend(page, policy.decode()) as backend, \
            WebDriver(driver, browser, folder) as web:
        test = PageTest(web, backend, sys.argv[6] if len(sys.argv) > 6 else None)
        for name in dir(PageTest):
            if name.startswith("test_") and name != "test_real_server":
                run(test, name)
        assert set(backend.paths) == {"/", "/v1/models", "/v1/chat/completions", "/live"}, set(backend.paths)
        run(test, "test_real_server", program, model)


main()
