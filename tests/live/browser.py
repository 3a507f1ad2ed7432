"""A headless Chromium, spoken to by its debugging protocol."""

import base64
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time


def find():
    return shutil.which("chromium")


class Socket:
    """The client's side of a WebSocket, for text."""

    def __init__(self, port, path):
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.stream.sendall(
            (
                "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: %s\r\n\r\n"
                % (path, port, base64.b64encode(os.urandom(16)).decode())
            ).encode()
        )
        self.reader = self.stream.makefile("rb")
        assert b" 101 " in self.reader.readline()
        while self.reader.readline() != b"\r\n":
            pass

    def send(self, text):
        data = text.encode()
        mask = os.urandom(4)
        head = b"\x81"
        if len(data) < 126:
            head += struct.pack(">B", 0x80 | len(data))
        else:
            head += struct.pack(">BQ", 0x80 | 127, len(data))
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.stream.sendall(head + mask + masked)

    def receive(self):
        text = b""
        last = False
        while not last:
            first, size = self.reader.read(2)
            if size == 126:
                (size,) = struct.unpack(">H", self.reader.read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self.reader.read(8))
            text += self.reader.read(size)
            last = bool(first & 0x80)
        return text.decode()


class Browser:
    """One page of a browser with a profile of its own."""

    def __init__(self, width, height, dark):
        # Its helpers write into it until they are gone, too.
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [
                find(),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-port=0",
                "--user-data-dir=" + self.folder.name,
                "about:blank",
            ],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        port_file = os.path.join(self.folder.name, "DevToolsActivePort")
        lines = []
        while len(lines) < 2:
            assert self.process.poll() is None, "the browser has ended"
            time.sleep(0.1)
            if os.path.exists(port_file):
                with open(port_file) as f:
                    lines = f.read().split("\n")
        self.socket = Socket(int(lines[0]), lines[1])
        self.number = 0
        self.session = None
        target = self.order("Target.createTarget", url="about:blank")
        self.session = self.order(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )["sessionId"]
        self.order(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.order(
            "Emulation.setEmulatedMedia",
            features=[
                {
                    "name": "prefers-color-scheme",
                    "value": "dark" if dark else "light",
                }
            ],
        )

    def order(self, method, **params):
        self.number += 1
        order = {"id": self.number, "method": method, "params": params}
        if self.session:
            order["sessionId"] = self.session
        self.socket.send(json.dumps(order))
        while True:
            answer = json.loads(self.socket.receive())
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url):
        self.order("Page.navigate", url=url)
        self.until(
            "location.href === %s && document.readyState === 'complete'"
            % json.dumps(url)
        )

    def value(self, expression):
        """An error of JavaScript."""
        answer = self.order(
            "Runtime.evaluate", expression=expression, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression):
        while not self.value(expression):
            time.sleep(0.1)

    def screenshot(self, path):
        answer = self.order("Page.captureScreenshot", format="png")
        with open(path, "wb") as f:
            f.write(base64.b64decode(answer["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.folder.cleanup()
