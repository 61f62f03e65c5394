# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over the pipe of its DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

LIFETIME_S = 300  # a browser that hangs is ended then


class Browser:
    """One browser with one page. Messages that the page logs are kept in `log`."""

    def __init__(self, program: str) -> None:
        self.log: list[str] = []
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours, theirs = os.pipe(), os.pipe()  # requests, answers
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--hide-scrollbars", "--disable-background-networking",
                   f"--user-data-dir={self._folder.name}", "--remote-debugging-pipe", "about:blank"]
        # Chromium reads requests from descriptor 3 and writes answers to descriptor 4.
        script = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]}'
        self._process = subprocess.Popen(["bash", "-c", script, *command], pass_fds=(ours[0], theirs[1]),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        self._limit = threading.Timer(LIFETIME_S, self._process.kill)
        self._limit.start()
        os.close(ours[0])
        os.close(theirs[1])
        self._requests = os.fdopen(ours[1], "wb")
        self._answers = os.fdopen(theirs[0], "rb")
        self._unread = b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._limit.cancel()
        self._process.kill()
        self._process.wait()
        self._requests.close()
        self._answers.close()
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and waits for its result."""
        number = next(self._numbers)
        request = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            request["sessionId"] = self._session
        self._requests.write(json.dumps(request).encode() + b"\0")
        self._requests.flush()
        while True:
            message = self._read()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._events.append(message)
            self._note(message)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            part = self._answers.read1(1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._unread += part
        message, self._unread = self._unread.split(b"\0", 1)
        return json.loads(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Log.entryAdded":
            self.log.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.log.append(parameters["exceptionDetails"]["text"])
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith("file:"):
                self.log.append(f"request of {url}")

    def open(self, page: Path, width: int, dark: bool) -> None:
        """Loads a page at a width, in a colour scheme."""
        self.log.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            message = self._read()
            self._events.append(message)
            self._note(message)

    def run(self, script: str) -> Any:
        """Returns the value of an expression, and of a promise when it is kept."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowLeft": 37}[key])

    def screenshot(self, file: Path) -> None:
        """Writes the whole page, also what lies below the window, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        file.write_bytes(base64.b64decode(shot["data"]))
