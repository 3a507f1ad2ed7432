"""A server's life: eight streams in one process, whose clients come and go, and whose
models are replaced meanwhile. When the clients are gone, so are their threads and their
memory.

usage: test_server.py SOURCE BUILD [TEST...]

VAE_TEST_ROUNDS is the number of rounds.
"""
import ctypes
import functools
import http.server
import os
import re
import subprocess
import sys
import threading
import time

import streams

streams.need_python("import gi\ngi.require_version('Gst', '1.0')\n"
                    "gi.require_version('GstRtspServer', '1.0')")

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer

CLIENTS = 6  # of each kind
STREAMS = CLIENTS + 2  # one for each client of RTSP, one of HLS, one of TCP
MIB = 1 << 20
# As in soak.c, for a stream: what libraries allocate for a time, and the gaps of the heap.
NOISE_HELD, NOISE_PAGES = MIB // 4, 2 * MIB
VIDEO = "videotestsrc is-live=true ! video/x-raw,width=80,height=48,framerate=16/1"


class Allocated(ctypes.Structure):
    """mallinfo2 of glibc."""
    _fields_ = [(name, ctypes.c_size_t) for name in
                ("arena", "ordblks", "smblks", "hblks", "mapped", "usmblks", "fsmblks",
                 "used", "fordblks", "keepcost")]


def fail(_, message):
    print(*message.parse_error(), file=sys.stderr, flush=True)
    os._exit(1)


class Server:
    """Has an RTSP server with a pipeline for each client, a pipeline that sends latents
    to all clients of TCP, and one that writes a playlist of HLS into a folder. Obeys the
    words on stdin."""

    def __init__(self, models, port, tcp_port, folder):
        self.models, self.medias, self.n_replaced = models, set(), 0
        frames = (f"{VIDEO} ! vaeencode model={models[0]} ! vaedecode name=d "
                  f"model={models[0]} ! videoconvert")
        self.server = GstRtspServer.RTSPServer(service=str(port))
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_launch(f"{frames} ! rtpvrawpay name=pay0")
        factory.connect("media-configure", self.configure)
        self.server.get_mount_points().add_factory("/clip", factory)
        self.server.attach()
        # A client that is gone before it plays leaves a session, which ends after a time.
        GLib.timeout_add_seconds(
            1, lambda: self.server.get_session_pool().cleanup() or True)
        self.playlist = Gst.parse_launch(
            f"{frames} ! x264enc tune=zerolatency key-int-max=16 ! mpegtsmux ! "
            f"hlssink target-duration=1 location={folder}/%05d.ts "
            f"playlist-location={folder}/live.m3u8")
        self.play(self.playlist)
        self.latents = Gst.parse_launch(
            f"{VIDEO} ! vaeencode model={models[0]} key-int-max=4 ! gdppay ! "
            f"tcpserversink port={tcp_port} buffers-max=99")
        self.play(self.latents)
        self.latents.get_state(Gst.CLOCK_TIME_NONE)
        GLib.io_add_watch(sys.stdin, GLib.PRIORITY_DEFAULT,
                          GLib.IO_IN | GLib.IO_HUP, self.obey)
        print("ready", flush=True)

    @staticmethod
    def play(pipeline):
        """Reads the bus, as gst-rtsp-server does for its pipelines: a bus keeps each
        message until then."""
        bus = pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message::latency", lambda *_: pipeline.recalculate_latency())
        bus.connect("message::error", fail)
        pipeline.set_state(Gst.State.PLAYING)

    def configure(self, _, media):
        self.medias.add(media)
        media.connect("unprepared", self.medias.discard)

    def replace(self):
        self.n_replaced += 1
        streaming = [media.get_element() for media in self.medias]
        for pipeline in streaming + [self.playlist]:
            decoder = pipeline.get_by_name("d")
            decoder.set_property("model", self.models[self.n_replaced % 2])
            decoder.emit("restart")

    def report(self):
        ctypes.CDLL(None).malloc_trim(0)
        count = ctypes.CDLL(None).mallinfo2
        count.restype = Allocated
        allocated = count()
        with open("/proc/self/status", encoding="utf-8") as file:
            status = dict(re.findall(r"(\w+):\s+(\d+)", file.read()))
        print(len(self.medias), status["Threads"],
              (allocated.mapped + allocated.used) // 1024, status["RssAnon"], flush=True)

    def obey(self, *_):
        word = sys.stdin.readline().strip()
        if not word:
            os._exit(0)
        getattr(self, word)()
        return True


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Life(streams.Streams):
    def ask(self, word):
        self.server.stdin.write(word + "\n")
        self.server.stdin.flush()

    def look(self, limit):
        """Waits until the server has no clients, and the threads that served them have
        ended: the pools of GLib keep some for a while. Returns
        their number and KiB: what malloc() gave, and what the process has."""
        while True:
            self.ask("report")
            medias, threads, *kib = map(int, self.server.stdout.readline().split())
            if not medias and threads <= limit:
                return threads, *kib
            time.sleep(0.05)

    def setUp(self):
        self.ports = streams.free_port(), streams.free_port()
        model = os.path.join(streams.PIPELINES, "demo", "demo.safetensors")
        os.symlink(model, self.path("other.safetensors"))
        self.server = subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:3], "serve", model,
             self.path("other.safetensors"), *map(str, self.ports), self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.server.communicate)
        self.assertEqual(self.server.stdout.readline(), "ready\n")
        while not os.path.exists(self.path("live.m3u8")):
            time.sleep(0.05)
        self.web = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Files, directory=self.folder))
        threading.Thread(target=self.web.serve_forever, daemon=True).start()
        self.addCleanup(self.web.server_close)
        self.addCleanup(self.web.shutdown)

    def watch(self, name, source):
        """Starts a client that watches until it is killed. (If a client of RTSP stopped,
        the server might close the connection first.)"""
        path = self.path(name)
        with open(path, "wb"):
            return path, streams.launch(
                f"{source} ! filesink buffer-mode=unbuffered location={path}")

    @staticmethod
    def more(watching):
        """Waits until each client has got more."""
        sizes = {path: os.path.getsize(path) for path, _ in watching}
        for path, client in watching:
            streams.wait_for(lambda: os.path.getsize(path) > sizes[path], client)

    def receive(self, k):
        """Starts a client of TCP, which ends after some latents."""
        return streams.launch(f"tcpclientsrc port={self.ports[1]} ! gdpdepay ! "
                              f"fakesink num-buffers={4 + k}")

    def round(self):
        rtsp = f"rtspsrc protocols=tcp location=rtsp://127.0.0.1:{self.ports[0]}/clip"
        hls = (f"souphttpsrc location=http://127.0.0.1:{self.web.server_port}/live.m3u8 ! "
               "hlsdemux ! tsdemux")
        watching = [self.watch(f"{kind}{k}", source) for k in range(CLIENTS)
                    for kind, source in (("rtsp", rtsp), ("hls", hls))]
        receiving = [self.receive(k) for k in range(CLIENTS)]
        self.more(watching)
        for _ in range(2):  # to the other model, and back
            self.ask("replace")
            self.more(watching)
        for path, client in watching:
            client.kill()
            streams.ended(client)
            os.remove(path)
        for client in receiving:
            self.finish(client)

    def test_rounds(self):
        self.ask("report")
        limit = int(self.server.stdout.readline().split()[1]) + 2 * CLIENTS
        self.round()
        _, held, pages = self.look(limit)
        print(f"{held} KiB held, {pages} KiB of pages", flush=True)
        for _ in range(int(os.environ.get("VAE_TEST_ROUNDS", "3"))):
            self.round()
            threads, held_now, pages_now = self.look(limit)
            print(f"{time.strftime('%X')} {threads} threads of at most {limit}, "
                  f"{held_now} KiB held, {pages_now} KiB of pages", flush=True)
        self.assertLess(1024 * (held_now - held), STREAMS * NOISE_HELD)
        self.assertLess(1024 * (pages_now - pages), STREAMS * NOISE_PAGES)


if __name__ == "__main__":
    if sys.argv[3:4] == ["serve"]:
        Gst.init(None)
        server = Server(sys.argv[4:6], *sys.argv[6:9])
        GLib.MainLoop().run()
    else:
        streams.main("rtspsrc", "rtpvrawpay", "gdppay", "tcpserversink", "x264enc",
                     "hlssink", "hlsdemux", "souphttpsrc")
