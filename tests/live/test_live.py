"""The live page as a client without a browser sees it.

test_live.py SOURCE BUILD
"""

import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import prometheus
from served import (
    MODELS,
    PROGRAM,
    PYTHON,
    Live,
    check,
    make_latents,
    need_modules,
    parts,
    size_of,
    until,
)

# More than the buffers of the system hold of one client.
MANY_PICTURES = 400


def metrics(live):
    status, headers, body = live.get("/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return prometheus.read(body.decode())


def number(live, name):
    return metrics(live)[0]["gstvae_" + name, ()]


def page(live):
    status, headers, body = live.get("/")
    text = body.decode()
    check(status == 200 and "<title>gst-vae live</title>" in text, "the page")
    outside = re.findall(r"(?:src|href)=\"(?!data:)[^\"]*|https?://|@import", text)
    check(not outside, "nothing is loaded from elsewhere")
    check(
        headers["Content-Security-Policy"].startswith("default-src 'self'"),
        "and the browser is told so",
    )
    check(live.get("/nothing")[0] == 404, "404 for what is not there")
    for method in ("GET", "HEAD", "POST"):
        status = live.ask(method, "ftp://[::1/").status
        check(status == 400, method + ": 400 for what is no URL")
    head = live.ask("HEAD", "/")
    check(head.status == 200 and not head.read(), "HEAD has no body")


def names(live):
    """A site may give its own name the address of this host."""
    port = live.port
    for host in ("127.0.0.1:%d" % port, "LOCALHOST", "[::1]:8", "192.0.2.7",
                 socket.gethostname(), "proxy.example", "proxy.example.:80"):
        check(live.ask("GET", "/", Host=host).status == 200, "this host: " + host)
    for host in ("elsewhere.example:%d" % port, "127.0.0.1.example", "", "[",
                 "proxy.example.example"):
        for method, path in (("GET", "/"), ("GET", "/picture.jpg"),
                             ("HEAD", "/events"), ("POST", "/pause")):
            status = live.ask(method, path, Host=host,
                              Origin="http://" + host).status
            check(status == 421, "%s %s: not for %r" % (method, path, host))
    check(live.state()["playing"], "which changes nothing")


def pictures(live):
    got = list(itertools.islice(parts(live.ask("GET", "/picture")), 8))
    check({size_of(p) for p in got} == {(64, 48)}, "pictures of 64x48")
    check(len(set(got)) > 4, "that move")
    status, headers, one = live.get("/picture.jpg")
    check(status == 200 and size_of(one) == (64, 48), "and a single one")


def events(live):
    states = list(itertools.islice(live.events(), 4))
    check(all(s["playing"] for s in states), "playing")
    live.until(lambda s: s["fps"] > 0 and s["latency"] > 0)
    check(True, "speed and latency")
    s = live.state()
    check(s["models"] == ["demo-tiny", "demo"], "the models")
    check(s["model"] == "demo-tiny", "the first of them is used")
    memory = [n for name, n in s["stats"].items() if name.startswith("bytes-")]
    check(s["stats"]["memory-setting"].startswith("slices of "), "the setting")
    check(sum(memory) == 2 * s["stats"]["bytes-total"], "memory by purpose")
    check(0 <= s["waiting_frames"] <= s["room_frames"], "the queue")


def numbers(live):
    prometheus.check_itself()
    before, kinds = metrics(live)
    until(lambda: number(live, "slices_total") > before["gstvae_slices_total", ()] + 5)
    after, _ = metrics(live)
    check(set(before) == set(after), "the same series")
    check(
        all(name.startswith("gstvae_") for name, _ in after)
        and all(family.startswith("gstvae_") for family in kinds),
        "all named gstvae_",
    )
    until(lambda: number(live, "latency_seconds") > 0)
    check(True, "the latency of the page")
    grows = [
        key
        for key in after
        if key[0].endswith(("_total", "_sum", "_count"))
        and after[key] < before[key]
    ]
    check(not grows, "counters never fall")
    parts_of = sum(
        after["gstvae_%s_seconds_sum" % part, ()]
        for part in ("upload", "compute", "download")
    )
    # One clock is of microseconds.
    slices = after["gstvae_slices_total", ()]
    check(
        parts_of <= after["gstvae_slice_seconds_sum", ()] + 1e-6 * slices,
        "the parts of a slice are in it",
    )
    purposes = {
        dict(labels)["purpose"]
        for name, labels in after
        if name == "gstvae_memory_bytes"
    }
    check(len(purposes) == 7, "memory by seven purposes")
    promtool = shutil.which("promtool")
    if promtool:
        text = live.get("/metrics")[2]
        done = subprocess.run([promtool, "check", "metrics"], input=text)
        check(done.returncode == 0, "promtool agrees")


def several(live):
    """A client that takes nothing, and others."""
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.connect(("127.0.0.1", live.port))
    stuck.send(b"GET /picture HTTP/1.0\r\n\r\n")
    others = [live.ask("GET", "/picture") for _ in range(3)]
    until(lambda: number(live, "viewers") == 4, live.process)
    check(True, "four viewers")
    for other in others[:2]:
        other.close()
    until(lambda: number(live, "viewers") == 2, live.process)
    check(True, "two have left")
    # Frames that are made while the first one's buffers are full reach another.
    first = number(live, "pictures_total")
    until(lambda: number(live, "pictures_total") > first + MANY_PICTURES, live.process)
    late = live.ask("GET", "/picture")
    check(
        len(list(itertools.islice(parts(late), 20))) == 20,
        "one that takes nothing holds nobody up",
    )
    late.close()
    stuck.close()
    others[2].close()
    until(lambda: number(live, "viewers") == 0, live.process)
    check(True, "and the others")


def half_requests(live):
    """Clients that send half a request, a byte at a time."""
    held = os.path.join("/proc", str(live.process.pid), "fd")
    before = len(os.listdir(held))
    clients = [
        socket.create_connection(("127.0.0.1", live.port)) for _ in range(400)
    ]

    def drip():
        for client in clients:
            try:
                client.send(b"G", socket.MSG_NOSIGNAL)
            except OSError:
                pass  # it was closed
        return len(os.listdir(held)) < before + 200

    until(drip, live.process)
    check(live.get("/")[0] == 200, "400 half requests do not keep out others")
    for client in clients:
        client.close()


def many(live, path):
    """More clients of an answer without an end than there are connections."""
    clients = []
    for _ in range(200):
        client = socket.create_connection(("127.0.0.1", live.port))
        client.send(b"GET %s HTTP/1.0\r\n\r\n" % path.encode())
        clients.append(client)
    served = 0
    for client in clients:
        try:
            is_served = client.recv(12) == b"HTTP/1.0 200"
            served += is_served
            while not is_served and client.recv(4096):
                pass  # up to the end of the connection
        except ConnectionResetError:
            pass
    check(served == 64, "64 of 200 clients are served " + path)
    check(live.get("/")[0] == 200, "the page beside them")
    for client in clients:
        client.close()


def gap(live):
    """A client that has waited gets what is made then."""
    viewer = parts(live.ask("GET", "/picture"))
    next(viewer)
    live.post("/pause")
    live.until(lambda s: not s["playing"])
    time.sleep(2)
    live.post("/play")
    check(
        len(list(itertools.islice(viewer, 30))) == 30,
        "after a pause pictures go on",
    )


def controls(live):
    live.post("/pause")
    live.until(lambda s: not s["playing"] and s["fps"] == 0)
    frozen = number(live, "pictures_total")
    viewer = live.ask("GET", "/picture")
    next(parts(viewer))
    until(lambda: number(live, "viewers") == 1, live.process)
    viewer.close()
    until(lambda: number(live, "viewers") == 0, live.process)
    check(
        number(live, "pictures_total") == frozen and number(live, "playing") == 0,
        "paused; who comes sees the last picture, who goes is noticed",
    )
    live.post("/play")
    live.until(lambda s: s["playing"] and s["fps"] > 0)
    check(number(live, "pictures_total") > frozen, "playing again")
    for name in ("demo", "demo-tiny"):
        check(live.post("/model?name=" + name)[0] == 202, "asks for " + name)
        live.until(lambda s: s["model"] == name)
    pictures(live)
    status, words = live.post("/model?name=other")
    check(status == 400 and "demo-tiny" in words, "no other model")
    check(live.post("/format")[0] == 404, "no other order")
    check(
        live.post("/pause", Origin="http://elsewhere.example")[0] == 403,
        "none from another site",
    )
    check(live.post("/pause", Origin="http://[")[0] == 403, "nor from none")
    check(live.state()["playing"], "which changes nothing")


def refused(words, *arguments):
    done = subprocess.run(
        [PYTHON, PROGRAM, "--port", "0", *arguments],
        capture_output=True,
        text=True,
    )
    check(
        done.returncode not in (0, None)
        and words in done.stderr
        and "Traceback" not in done.stderr,
        "refused: " + done.stderr.strip().split("\n")[-1],
    )


def errors(live, folder):
    refused("in use", "--port", str(live.port))
    refused("no such file", folder + "/none.safetensors")
    refused("exclude", "--from", "localhost:1", folder + "/x.safetensors")
    refused("HOST:PORT", "--from", "localhost")
    refused("port 99999, expected 1 to 65535", "--from", "localhost:99999")
    refused("Failed to connect to host 'localhost:1'", "--from", "localhost:1")
    refused("is a text file", os.path.abspath(__file__))
    refused("none.pth: cannot open", "--model", MODELS[0] + "," + folder + "/none.pth")
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 1, 2, 2), }"
    with open(folder + "/bare.npy", "wb") as file:
        file.write(b"\x93NUMPY\1\0v\0" + head.ljust(117).encode() + b"\n" + bytes(256))
    refused("set them by the options --model and --latent-space", folder + "/bare.npy")


def warns(latents):
    live = Live("--model", MODELS[0], "--normalization", "raw", latents)
    live.get("/picture.jpg")
    _, words = live.end()
    check(words.count("overrides it") == 1, "a warning: " + repr(words))
    live = Live("--model", MODELS[0], "--normalization", "auto", latents)
    live.get("/picture.jpg")
    check("overrides it" not in live.end()[1], "auto: as the latents state")


def end(live):
    viewer = live.ask("GET", "/picture")
    next(parts(viewer))
    status, words = live.end()
    check(status == 0 and words == "", "Ctrl-C ends it: " + repr(words))


def shows_and_ends(live, what):
    status, _, one = live.get("/picture.jpg")
    check(status == 200 and size_of(one) == (64, 48), what)
    _, words = live.process.communicate()
    check(live.process.returncode == 0 and words == "", "ends with the stream")


def streams(folder, latents):
    """Latents of another process, as gdppay makes them."""
    path = os.path.join(folder, "clip.gdp")
    subprocess.run(
        "gst-launch-1.0 -q filesrc location=%s ! latentdemux ! gdppay ! "
        "filesink location=%s" % (latents, path),
        shell=True,
        check=True,
    )
    with open(path, "rb") as f:
        shows_and_ends(
            Live("--model", MODELS[0], "-", stdin=f), "the standard input"
        )
    listener = socket.create_server(("127.0.0.1", 0))
    address = "127.0.0.1:%d" % listener.getsockname()[1]
    live = Live("--model", MODELS[0], "--from", address)
    sender, _ = listener.accept()
    with open(path, "rb") as f, sender:
        sender.sendfile(f)
    shows_and_ends(live, "TCP")


def slow(folder):
    """No decoder reaches this rate: the pictures move, and the page says it."""
    latents = os.path.join(folder, "slow.safetensors")
    make_latents(latents, fps=10000)
    live = Live("--model", MODELS[0], latents)
    got = list(itertools.islice(parts(live.ask("GET", "/picture")), 8))
    check(len(set(got)) > 4, "a slow decoder's pictures move")
    live.until(lambda s: "times slower than real time" in s["note"])
    check(True, "and the page says how slow it is")
    live.end()


def main():
    need_modules()
    with tempfile.TemporaryDirectory() as folder:
        latents = os.path.join(folder, "clip.safetensors")
        make_latents(latents)
        live = Live("--model", MODELS[0], "--model", MODELS[1], "--name",
                    "Proxy.example", latents)
        try:
            for test in (page, names, pictures, events, numbers, several,
                         half_requests, gap, controls):
                test(live)
            for path in ("/events", "/picture"):
                many(live, path)
            errors(live, folder)
            end(live)
            warns(latents)
            streams(folder, latents)
            slow(folder)
        finally:
            if live.process.poll() is None:
                live.end(signal.SIGKILL)


main()
