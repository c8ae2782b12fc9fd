"""A headless Chromium that tests drive: the DevTools protocol over a pipe, which needs no library.

Protocol: https://chromedevtools.github.io/devtools-protocol/ (with ``--remote-debugging-pipe``
messages are JSON ended by a zero byte, written to descriptor 3 and read from descriptor 4).
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-extensions", "--disable-background-networking", "--hide-scrollbars", "--mute-audio"),
    "--remote-debugging-pipe",
)


def executable():
    """Where the browser is; None: nowhere."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def needs_browser(test):
    """Marks a test; the browser is Debian's package chromium."""
    return pytest.mark.debian(pytest.mark.skipif(executable() is None, reason="no Chromium here")(test))


class Browser:
    """One page of a browser, with all that it complained about."""

    def __init__(self, profile: Path, deadline_s: float = 120.0) -> None:
        program = executable()
        assert program, "CI installs Chromium"
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._deadline = time.monotonic() + deadline_s
        self._number, self._buffer, self._session = 0, b"", None
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def arranged() -> None:
            kept = os.dup(to_read), os.dup(to_write)  # one of them may be 3 or 4
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        self._process = subprocess.Popen(
            [program, *ARGUMENTS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=arranged,
            pass_fds=(3, 4),
        )
        os.close(to_read)
        os.close(to_write)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def window(self, width: int, height: int, dark: bool = False) -> None:
        """Size and colour scheme from here on."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def open(self, path: Path) -> None:
        """Load a file."""
        self.call("Page.navigate", url=path.resolve().as_uri())

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true."""
        while not self.evaluate(condition):
            assert time.monotonic() < self._deadline, (condition, self.complaints)
            time.sleep(0.1)

    def evaluate(self, expression: str):
        """The value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as it looks."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        png = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(png["data"]))

    def call(self, method: str, **parameters):
        """What a method of the protocol answers; events that come before are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._heard(answer)

    def _message(self):
        while b"\0" not in self._buffer:
            left = self._deadline - time.monotonic()
            ready, _, _ = select.select([self._read], [], [], max(left, 0))
            assert ready, "the browser says nothing"
            self._buffer += os.read(self._read, 1 << 20)
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _heard(self, event) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([value.get("value") for value in told["args"]]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
