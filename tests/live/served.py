"""Starts the live page for a test, and speaks to it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time

PYTHON = "/usr/bin/python3"
source, build = sys.argv[1:3]
PROGRAM = os.path.join(source, "pipelines", "live", "live.py")
DEMO = os.path.join(source, "pipelines", "demo")
MODELS = [
    os.path.join(DEMO, name + ".safetensors") for name in ("demo-tiny", "demo")
]


def check(condition, words):
    if not condition:
        sys.exit("FAILED: %s" % words)
    print("ok: %s" % words, flush=True)


def skip(words):
    print("skipped: %s" % words)
    sys.exit(77)


def need_modules():
    try:
        found = subprocess.run(
            [PYTHON, "-c", "import gi; gi.require_version('Gst', '1.0')"],
            stderr=subprocess.DEVNULL,
        ).returncode
    except FileNotFoundError:
        found = 1
    if found != 0:
        skip("Debian's python3-gi and gir1.2-gstreamer-1.0 are not here")
    for path in MODELS:
        if not os.path.exists(path):
            skip("no " + path)


def make_latents(path, frames=33, size="64x48", fps=60):
    """Latents of the demo models' space."""
    width, height = size.split("x")
    subprocess.run(
        "gst-launch-1.0 -q videotestsrc pattern=ball num-buffers=%d ! "
        "video/x-raw,width=%s,height=%s,framerate=%d/1 ! "
        "vaeencode model=%s ! latentmux ! filesink location=%s"
        % (frames, width, height, fps, MODELS[1], path),
        shell=True,
        check=True,
    )


def until(condition, alive=None):
    """Waits for it, as long as the process is alive."""
    while not condition():
        if alive and alive.poll() is not None:
            sys.exit("FAILED: the program ended, with %d" % alive.returncode)
        time.sleep(0.02)


class Live:
    """The program with these arguments, at a port of its own."""

    def __init__(self, *arguments, **more):
        self.process = subprocess.Popen(
            [PYTHON, PROGRAM, "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
        line = self.process.stdout.readline()
        found = re.fullmatch(r"live.py: http://127.0.0.1:(\d+)/\n", line)
        if not found:
            sys.exit(
                "FAILED: no address in %r: %s"
                % (line, self.process.stderr.read())
            )
        self.port = int(found[1])
        self.url = "http://127.0.0.1:%d/" % self.port

    def ask(self, method, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, path, headers=headers)
        return connection.getresponse()

    def get(self, path):
        answer = self.ask("GET", path)
        return answer.status, answer.headers, answer.read()

    def post(self, path, **headers):
        answer = self.ask("POST", path, **headers)
        return answer.status, answer.read().decode()

    def events(self):
        """The events of the page, one after the other."""
        stream = self.ask("GET", "/events")
        assert stream.headers["Content-Type"] == "text/event-stream"
        while line := stream.readline():
            if line != b"\n":
                assert line.startswith(b"data: "), line
                yield json.loads(line[6:])

    def state(self):
        return next(self.events())

    def until(self, condition):
        """Waits for a state that is so, and returns it."""
        for state in self.events():
            if condition(state):
                return state
        sys.exit("FAILED: the program ended")

    def end(self, number=signal.SIGINT):
        """(exit status, what was on stderr)"""
        self.process.send_signal(number)
        _, words = self.process.communicate()
        return self.process.returncode, words


def parts(stream):
    """The pictures of a multipart answer."""
    while line := stream.readline():
        assert line == b"--picture\r\n", line
        headers = {}
        while (line := stream.readline()) != b"\r\n":
            name, _, value = line.decode().partition(": ")
            headers[name] = value.strip()
        assert headers["Content-Type"] == "image/jpeg"
        data = stream.read(int(headers["Content-Length"]))
        assert stream.read(2) == b"\r\n"
        yield data


def size_of(jpeg):
    """(width, height) of a whole JPEG picture."""
    assert jpeg[:2] == b"\xff\xd8" and jpeg[-2:] == b"\xff\xd9"
    at = 2
    while jpeg[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    height, width = jpeg[at + 5 : at + 7], jpeg[at + 7 : at + 9]
    return int.from_bytes(width, "big"), int.from_bytes(height, "big")
