"""Chromium without a window, driven through its DevTools protocol over two pipes: the standard library alone."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
KEYS = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "ArrowRight": ("ArrowRight", 39, ""),
        "ArrowLeft": ("ArrowLeft", 37, "")}


class Chromium:
    """One page at a time. What went wrong in it, and what it requested, stands in `faults` and `requests`."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="whisker_chromium_")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def pipes():  # the protocol's are 3 and 4; both may be among the numbers to move
            one, two = os.dup(to_browser), os.dup(from_browser)
            one, two = (os.dup(number) if number in (3, 4) else number for number in (one, two))
            os.dup2(one, 3)
            os.dup2(two, 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=pipes, close_fds=False, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder})
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.faults, self.requests, self.loaded = [], [], False
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.buffer:
            if not select.select([self.read_end], [], [], 60)[0]:
                raise RuntimeError("chromium does not answer")
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise RuntimeError("chromium ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, values = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.faults.append(str(values["exceptionDetails"].get("exception", values)))
        elif method == "Runtime.consoleAPICalled" or method == "Log.entryAdded":
            self.faults.append(str(values))
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True
        return message

    def call(self, name, **values):
        self.number += 1
        message = {"id": self.number, "method": name, "params": values}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{name}: {answer['error']}")
                return answer["result"]

    def open(self, path, width=1280, height=800, dark=False, printed=False):
        """Opens a file; `requests` then has all that the page asked for besides itself."""
        self.view(width, height, dark, printed)
        self.faults, self.requests, self.loaded = [], [], False
        url = path.resolve().as_uri()
        self.call("Page.navigate", url=url)
        while not self.loaded:
            self.receive()
        self.requests = [one for one in self.requests if one != url and not one.startswith("data:")]

    def view(self, width, height=800, dark=False, printed=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media="print" if printed else "",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def value(self, script):
        """What a JavaScript expression gives, as JSON."""
        answer = self.call("Runtime.evaluate", expression=f"JSON.stringify({script})", awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return json.loads(answer["result"].get("value", "null"))

    def click(self, script):
        """At the middle of the element that the expression gives, as a mouse would."""
        x, y = self.value("(e => { e.scrollIntoView({block: 'center', inline: 'center'}); const r = "
                          "e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + Math.min(r.height / 2, 12)]; })"
                          f"({script})")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, *keys):
        for key in keys:
            name, code, text = KEYS.get(key) or (key, ord(key.upper()) if key.isalnum() else 0, key)
            self.call("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, text=text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def screenshot(self, file):
        time.sleep(0.1)
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
