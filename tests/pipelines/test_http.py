"""Players seek in latents on an HTTP server. Each seek is exact.

usage: test_http.py SOURCE BUILD [TEST...]
"""
import hashlib
import http.server
import json
import re
import subprocess
import sys
import threading

import streams

streams.need_python("import gi\ngi.require_version('Gst', '1.0')")

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from streams import FRAMES

Gst.init(None)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the bytes in `content` by path, in ranges if `ranges` is set."""

    protocol_version = "HTTP/1.1"
    content = {}
    ranges = True

    def do_GET(self):
        data = self.content[self.path]
        wanted = self.ranges and re.match(r"bytes=(\d+)-(\d*)$",
                                          self.headers.get("Range", ""))
        first = int(wanted[1]) if wanted else 0
        end = min(int(wanted[2]) + 1 if wanted and wanted[2] else len(data),
                  len(data))
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range",
                             f"bytes {first}-{end - 1}/{len(data)}")
        self.send_header("Accept-Ranges", "bytes" if self.ranges else "none")
        self.send_header("Content-Length", str(end - first))
        self.end_headers()
        self.wfile.write(data[first:end])

    def log_message(self, *_):
        pass


class Plain(Handler):
    ranges = False


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """A player that seeks breaks the connection."""


def play(player, uri):
    """Prints whether the player can seek, and what it shows after each seek."""
    # A sink that prefers a format would get it from vaedecode or from a converter.
    # That depends on whether playbin3 links the sink before the first frame.
    pipeline = Gst.parse_launch(f"{player} uri={uri} video-sink=fakesink")
    pipeline.set_state(Gst.State.PAUSED)

    def wait():
        message = pipeline.get_bus().timed_pop_filtered(
            Gst.CLOCK_TIME_NONE,
            Gst.MessageType.ASYNC_DONE | Gst.MessageType.ERROR)
        if message.type == Gst.MessageType.ERROR:
            sys.exit(str(message.parse_error()))

    wait()
    query = Gst.Query.new_seeking(Gst.Format.TIME)
    assert pipeline.query(query)
    seekable = query.parse_seeking()[1]
    print(seekable)
    for frame in (15, 0, 9, FRAMES - 1) if seekable else ():
        assert pipeline.seek_simple(
            Gst.Format.TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.ACCURATE,
            frame * Gst.SECOND // 16 + 1)
        wait()
        buffer = pipeline.get_property("sample").get_buffer()
        data = buffer.extract_dup(0, buffer.get_size())
        print(buffer.pts, hashlib.md5(data).hexdigest())
    pipeline.set_state(Gst.State.NULL)


def by_channel(whole):
    """Returns a file of latents in the order [C, T, h, w], made of one in the order
    [T, C, h, w]."""
    size = int.from_bytes(whole[:8], "little")
    header, data = json.loads(whole[8:8 + size]), whole[8 + size:]
    steps, channels, *sides = header["latent"]["shape"]
    header["latent"]["shape"] = [channels, steps, *sides]
    del header["__metadata__"]["vae.layout"]
    plane = len(data) // steps // channels
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(
        data[at:at + plane] for c in range(channels)
        for at in range(c * plane, len(data), channels * plane))


class Http(streams.Streams):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        whole = cls.read(cls.clip)
        Handler.content = {"/tchw": whole, "/cthw": by_channel(whole)}
        cls.servers = [Server(("127.0.0.1", 0), each)
                       for each in (Handler, Plain)]
        for server in cls.servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers:
            server.shutdown()
            server.server_close()
        super().tearDownClass()

    @staticmethod
    def shown(player, uri):
        return subprocess.run(
            [sys.executable, __file__, *sys.argv[1:3], player, uri],
            check=True, stdout=subprocess.PIPE, text=True).stdout

    def test_seeks(self):
        ranges, plain = (f"http://127.0.0.1:{server.server_port}"
                         for server in self.servers)
        for player in ("playbin", "playbin3"):
            expected = self.shown(player, "file://" + self.clip)
            self.assertEqual(len(set(expected.split("\n"))), 6, expected)
            for uri in (ranges + "/tchw", ranges + "/cthw", plain + "/cthw"):
                self.assertEqual(self.shown(player, uri), expected,
                                 f"{player} {uri}")
            self.assertEqual(self.shown(player, plain + "/tchw"), "False\n")


if __name__ == "__main__":
    if sys.argv[3:4] and sys.argv[3].startswith("playbin"):
        play(*sys.argv[3:])
    else:
        streams.main("souphttpsrc", "playbin", "playbin3")
