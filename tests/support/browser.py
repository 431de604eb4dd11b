"""A headless Chromium, spoken to over a pipe in its DevTools protocol: no driver, no library.

``find`` looks where a Chromium may be: the path that PODTIDE_CHROMIUM names, the usual commands, Playwright's cache. A page
records what the console said, what threw, and every request that left it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "PODTIDE_CHROMIUM"
COMMANDS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_S: Final = 60.0

KEYS: Final = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


class BrowserError(Exception):
    """The browser refused, or said nothing for too long."""


def find() -> str | None:
    """A Chromium on this machine, if there is one."""
    if named := os.environ.get(VARIABLE):
        return named
    for command in COMMANDS:
        if path := shutil.which(command):
            return path
    caches = [Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright")]
    names = ("chrome-linux*/headless_shell", "chrome-linux*/chrome", "chrome-mac*/*.app/Contents/MacOS/*")
    found = [path for cache in caches for name in names for path in cache.glob(f"chromium*/{name}")]
    return str(sorted(found)[-1]) if found else None


class Browser:
    """One process of the browser; close it, or use it as a context."""

    def __init__(self, path: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [
            path,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]

        # The browser reads commands from descriptor 3 and writes answers to descriptor 4; a shell cannot be relied on to
        # move descriptors beyond 9 there.
        script = (
            "import fcntl, os, sys; "
            "one, other = (fcntl.fcntl(int(place), fcntl.F_DUPFD, 10) for place in sys.argv[1:3]); "
            "os.dup2(one, 3); os.dup2(other, 4); os.execv(sys.argv[3], sys.argv[3:])"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._serial = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrowserError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """A command and its answer; events on the way are kept."""
        self._serial += 1
        message = {"id": self._serial, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        for one in self._messages():
            if one.get("id") == self._serial:
                if "error" in one:
                    raise BrowserError(f"{method}: {one['error']}")
                return dict(one["result"])
            self.events.append(one)
        raise BrowserError(f"{method}: no answer")

    def until(self, method: str, session: str) -> dict[str, Any]:
        """Wait for an event."""
        for index, one in enumerate(self.events):
            if one.get("method") == method and one.get("sessionId") == session:
                return self.events.pop(index)
        for one in self._messages():
            if one.get("method") == method and one.get("sessionId") == session:
                return one
            self.events.append(one)
        raise BrowserError(f"{method} did not happen")

    def page(self, **size: int) -> Page:
        """A page of its own."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, **size)

    def _messages(self) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            while b"\0" in self._rest:
                message, _, self._rest = self._rest.partition(b"\0")
                yield json.loads(message)
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise BrowserError("the browser has gone")
            self._rest += chunk


class Page:
    """One page: what it shows, what it says, and a keyboard and a pointer."""

    def __init__(self, browser: Browser, session: str, width: int = 1280, height: int = 900) -> None:
        self._browser, self._session = browser, session
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command to this page."""
        return self._browser.call(method, self._session, **params)

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """The window, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def media(self, kind: str = "", **features: str) -> None:
        """Emulate a medium ("print") and preferences (``prefers_color_scheme="dark"``)."""
        told = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", media=kind, features=told)

    def open(self, path: Path) -> None:
        """Load a file and wait until all of it is there."""
        self.call("Page.navigate", url=path.as_uri())
        self._browser.until("Page.loadEventFired", self._session)

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript, evaluated by the browser and not by the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"].get("exception", {}).get("description")))
        return answer["result"].get("value")

    def press(self, key: str, times: int = 1, *, shift: bool = False) -> None:
        """Press a key."""
        for _ in range(times):
            for kind in ("rawKeyDown", "keyUp"):
                self.call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    code=key,
                    windowsVirtualKeyCode=KEYS[key],
                    modifiers=8 if shift else 0,
                )

    def point(self, x: float, y: float) -> None:
        """Move the pointer there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def middle(self, selector: str) -> tuple[float, float]:
        """Where an element is, once it is in sight."""
        found = self.ask(
            f"(() => {{const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect(); "
            "return [b.left + b.width / 2, b.top + b.height / 2]})()"
        )
        return float(found[0]), float(found[1])

    def picture(self, path: Path, *, whole: bool = False) -> bytes:
        """A screenshot, written to a file."""
        shot = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **(self._all() if whole else {})
        )
        data = base64.b64decode(shot["data"])
        path.write_bytes(data)
        return data

    def printed(self, path: Path) -> bytes:
        """The page as a PDF."""
        answer = self.call(
            "Page.printToPDF", printBackground=True, preferCSSPageSize=True, paperWidth=8.27, paperHeight=11.69
        )
        data = base64.b64decode(answer["data"])
        path.write_bytes(data)
        return data

    def said(self) -> list[str]:
        """What the console and the browser's log said, and what threw, so far."""
        self.ask("1")  # whatever was said before it has arrived with its answer
        lines = []
        for one in self._browser.events:
            if one.get("sessionId") != self._session:
                continue
            params = one.get("params", {})
            match one["method"]:
                case "Runtime.consoleAPICalled":
                    lines.append(f"console: {params['args']}")
                case "Runtime.exceptionThrown":
                    lines.append(f"threw: {params['exceptionDetails']}")
                case "Log.entryAdded":
                    lines.append(f"log: {params['entry']['text']}")
                case "Page.javascriptDialogOpening":
                    lines.append(f"dialog: {params['message']}")
                case _:
                    pass
        return lines

    def requests(self) -> list[str]:
        """Every URL that was asked for, the page itself and what is inside it (data:) left out."""
        self.ask("1")
        asked = (
            one["params"]["request"]["url"]
            for one in self._browser.events
            if one.get("sessionId") == self._session and one["method"] == "Network.requestWillBeSent"
        )
        return [url for url in asked if not url.startswith("data:")]

    def stopped(self) -> list[str]:
        """By what requests were stopped before they left: "csp" for the page's own policy."""
        self.ask("1")
        return [
            str(one["params"].get("blockedReason"))
            for one in self._browser.events
            if one.get("sessionId") == self._session and one["method"] == "Network.loadingFailed"
        ]

    def _all(self) -> dict[str, Any]:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
