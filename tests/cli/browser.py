# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that pages are looked at with, over the pipe of the DevTools protocol."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile


class Browser:
    """One process for many pages; use it in a `with`."""

    def __init__(self):
        # Processes of chromium that end later may still write there.
        self.scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()

        def take_pipes():
            # The protocol is spoken on descriptors 3 and 4; either may be in the way of the other.
            reading, writing = os.dup(to_read), os.dup(to_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self.process = subprocess.Popen(
            [
                shutil.which("chromium"),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--hide-scrollbars",
                f"--user-data-dir={self.scratch.name}",
                "--remote-debugging-pipe",
            ],
            preexec_fn=take_pipes,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.unread = b""
        self.number = 0
        self.session = None
        self.complaints = []  # what the console, the log and failing scripts say
        self.requests = []  # URLs

        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.process.terminate()
        self.process.wait(timeout=20)
        self.scratch.cleanup()

    def _message(self):
        while b"\0" not in self.unread:
            read = os.read(self.from_browser, 1 << 20)
            if not read:
                raise RuntimeError("chromium ended")
            self.unread += read
        text, self.unread = self.unread.split(b"\0", 1)
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(request).encode() + b"\0")
        while (message := self._message()).get("id") != self.number:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return message["result"]

    def open(self, path, width=1200, height=900, scheme="light"):
        """A file, until it and its scripts are done."""
        self.complaints, self.requests = [], []
        self.resize(width, height, scheme)
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def resize(self, width, height=900, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, expression):
        """The value of a JavaScript expression, awaited."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    def press(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key])

    def screenshot(self, path, whole=True):
        image = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(image))
