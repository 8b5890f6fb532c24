"""Chromium without a window, driven over the pipe of its DevTools protocol: no other package is needed.

https://chromedevtools.github.io/devtools-protocol/: requests and answers are JSON, each ended by a zero byte,
which the browser reads from file descriptor 3 and writes to 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def executable():
    """Where a Chromium is, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def required():
    """Where a Chromium is. Raises FileNotFoundError where there is none."""
    found = executable()
    if found is None:
        raise FileNotFoundError(
            f"none of {', '.join(NAMES)} is on the PATH; install Debian's package chromium"
        )
    return found


class Browser:
    """A browser with one page open."""

    def __init__(self, folder, *, width=1440, height=900, dark=False):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += [
            "--no-first-run",
            f"--user-data-dir={folder}",
            "--remote-debugging-pipe",
            "--hide-scrollbars",
        ]
        # The browser wants its ends under the numbers 3 and 4.
        shell = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, required(), *flags, "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._rest = b""
        self._session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")
        scale = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **scale)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def ask(self, method, **parameters):
        """What the browser answers to a request; an error where it refuses or is silent for long."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _receive(self):
        end = time.monotonic() + 60
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            read = os.read(self._from, 1 << 20)
            if not read:
                raise RuntimeError("the browser has ended")
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, path):
        """Load a file, and wait until the page has put itself together."""
        url = Path(path).resolve().as_uri()
        self.ask("Page.navigate", url=url)
        end = time.monotonic() + 60
        # The part of the address behind # is the page's own to change.
        there = f"location.href.startsWith({json.dumps(url)}) && document.documentElement?.dataset.ready"
        while not self.run(f"{there} || ''"):
            if time.monotonic() > end:
                raise TimeoutError("the page does not get ready")
            time.sleep(0.02)

    def run(self, script):
        """The value of an expression of the page's."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description"))
        return found["result"].get("value")

    def middle(self, selector, number=0):
        """The middle of an element that a selector finds, or of the upper left of a large one, in view."""
        box = self.run(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{number}];"
            "e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
            "return [b.left + Math.min(b.width, 300) / 2, b.top + Math.min(b.height, 120) / 2]; })()"
        )
        return box[0], box[1]

    def point(self, x, y, *, click=False):
        """Move the mouse somewhere, and click there."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, text=""):
        """Press a key."""
        named = {"type": "keyDown", "key": key, "text": text} if text else {"type": "keyDown", "key": key}
        self.ask("Input.dispatchKeyEvent", **named)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path):
        """Keep what the page looks like as a PNG."""
        shot = self.ask("Page.captureScreenshot", format="png")
        Path(path).write_bytes(base64.b64decode(shot["data"]))
