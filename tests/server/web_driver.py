"""A browser over WebDriver, with Python's standard library alone."""

import base64
import json
import os
import re
import subprocess
import time
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"enter": "\ue007", "escape": "\ue00c", "tab": "\ue004"}


class WebDriver:
    """Chromium, without a window; ends with the `with` block."""

    def __init__(self, driver_program, browser_program, profile_directory):
        # Its own home: the driver and the browser leave files there.
        environment = dict(os.environ, HOME=profile_directory, TMPDIR=profile_directory)
        self.process = subprocess.Popen([driver_program, "--port=0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=environment, text=True)
        self.url = f"http://127.0.0.1:{self.read_port()}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--disable-background-networking", "--disable-component-update",
                     f"--user-data-dir={profile_directory}/profile"]
        options = {"binary": browser_program, "args": arguments}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.url += f"/session/{session['sessionId']}"

    def read_port(self):
        for line in self.process.stdout:
            match = re.search(r"started successfully on port (\d+)", line)
            if match:
                return int(match.group(1))
        raise AssertionError("chromedriver ended before it was ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait(10)
            self.process.stdout.close()

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise AssertionError(f"{method} {path}: {value['error']}: {value['message']}") from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """Runs the body of a function; what it returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, key):
        """A key for whatever has the focus."""
        actions = [{"type": kind, "value": KEYS[key]} for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def label(self, selector):
        """The name that a screen reader says."""
        return self.call("GET", f"/element/{self.find(selector)}/computedlabel")

    def wait_for(self, script, *arguments, seconds=15):
        """Until the body of a function returns something true: that."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            assert time.monotonic() < end, f"{script} {arguments}: not within {seconds} s\n{self.text('body')}"
            time.sleep(0.02)

    def screenshot(self):
        return base64.b64decode(self.call("GET", "/screenshot"))

    def set_size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=False)

    def set_media(self, **features):
        """prefers_color_scheme="dark" and the like."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", features=named)

    def console(self):
        """What came on the console since it was last asked."""
        return self.call("POST", "/se/log", {"type": "browser"})
