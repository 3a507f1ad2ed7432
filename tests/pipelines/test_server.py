"""A server's life: clients come and go, and models are replaced while they watch. When
the clients are gone, so are their threads and their memory.

usage: test_server.py SOURCE BUILD [TEST...]

VAE_TEST_ROUNDS is the number of rounds.
"""
import ctypes
import os
import re
import subprocess
import sys
import time

import streams

streams.need_python("import gi\ngi.require_version('Gst', '1.0')\n"
                    "gi.require_version('GstRtspServer', '1.0')")

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer

CLIENTS = 4  # of each kind
MIB = 1 << 20
NOISE = 2 * MIB  # as in soak.c: what libraries allocate in a pipeline for a time
VIDEO = "videotestsrc is-live=true ! video/x-raw,width=80,height=48,framerate=16/1"


class Server:
    """Has an RTSP server with a pipeline for each client, and a pipeline that sends
    latents to all clients of TCP. Obeys the words on stdin."""

    def __init__(self, models, port, tcp_port):
        self.models, self.medias, self.n_replaced = models, set(), 0
        self.server = GstRtspServer.RTSPServer(service=str(port))
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_launch(f"{VIDEO} ! vaeencode model={models[0]} ! vaedecode name=d "
                           f"model={models[0]} ! videoconvert ! rtpvrawpay name=pay0")
        factory.connect("media-configure", self.configure)
        self.server.get_mount_points().add_factory("/clip", factory)
        self.server.attach()
        # A client that is gone before it plays leaves a session, which ends after a time.
        GLib.timeout_add_seconds(
            1, lambda: self.server.get_session_pool().cleanup() or True)
        self.latents = Gst.parse_launch(
            f"{VIDEO} ! vaeencode model={models[0]} key-int-max=4 ! gdppay ! "
            f"tcpserversink port={tcp_port} buffers-max=99")
        self.latents.set_state(Gst.State.PLAYING)
        self.latents.get_state(Gst.CLOCK_TIME_NONE)
        GLib.io_add_watch(sys.stdin, GLib.PRIORITY_DEFAULT,
                          GLib.IO_IN | GLib.IO_HUP, self.obey)
        print("ready", flush=True)

    def configure(self, _, media):
        self.medias.add(media)
        media.connect("unprepared", self.medias.discard)

    def replace(self):
        self.n_replaced += 1
        for media in list(self.medias):
            decoder = media.get_element().get_by_name("d")
            decoder.set_property("model", self.models[self.n_replaced % 2])
            decoder.emit("restart")

    def report(self):
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/status", encoding="utf-8") as file:
            status = dict(re.findall(r"(\w+):\s+(\d+)", file.read()))
        print(len(self.medias), status["Threads"], status["RssAnon"], flush=True)

    def obey(self, *_):
        word = sys.stdin.readline().strip()
        if not word:
            os._exit(0)
        getattr(self, word)()
        return True


class Life(streams.Streams):
    def ask(self, word):
        self.server.stdin.write(word + "\n")
        self.server.stdin.flush()

    def look(self, limit):
        """Waits until the server has no clients, and the threads that served them have
        ended: the pools of GLib keep some for a while. Returns KiB."""
        while True:
            self.ask("report")
            medias, threads, kib = map(int, self.server.stdout.readline().split())
            if not medias and threads <= limit:
                return kib
            time.sleep(0.05)

    def setUp(self):
        self.ports = streams.free_port(), streams.free_port()
        model = os.path.join(streams.PIPELINES, "demo", "demo.safetensors")
        os.symlink(model, self.path("other.safetensors"))
        self.server = subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:3], "serve", model,
             self.path("other.safetensors"), *map(str, self.ports)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.server.communicate)
        self.assertEqual(self.server.stdout.readline(), "ready\n")

    def watch(self, k):
        """Starts a client of RTSP, which watches until it is killed. (If it stopped, the
        server might close the connection first.)"""
        return streams.launch(
            f"rtspsrc protocols=tcp location=rtsp://127.0.0.1:{self.ports[0]}/clip ! "
            f"filesink buffer-mode=unbuffered location={self.path(str(k))}")

    def receive(self, k):
        """Starts a client of TCP, which ends after some latents."""
        return streams.launch(f"tcpclientsrc port={self.ports[1]} ! gdpdepay ! "
                              f"fakesink num-buffers={4 + k}")

    def round(self):
        watching = [self.watch(k) for k in range(CLIENTS)]
        receiving = [self.receive(k) for k in range(CLIENTS)]
        for k, client in enumerate(watching):
            while not (os.path.exists(self.path(str(k))) and
                       os.path.getsize(self.path(str(k)))):
                time.sleep(0.05)
            if k == 0:
                self.ask("replace")
            client.kill()
            streams.ended(client)
            os.remove(self.path(str(k)))
        for client in receiving:
            self.finish(client)

    def test_rounds(self):
        self.ask("report")
        threads = int(self.server.stdout.readline().split()[1]) + 2 * CLIENTS
        self.round()
        before = self.look(threads)
        for _ in range(int(os.environ.get("VAE_TEST_ROUNDS", "3"))):
            self.round()
        after = self.look(threads)
        print(f"at most {threads} threads, {before} and {after} KiB")
        self.assertLess(1024 * (after - before), CLIENTS * NOISE)


if __name__ == "__main__":
    if sys.argv[3:4] == ["serve"]:
        Gst.init(None)
        server = Server(sys.argv[4:6], *sys.argv[6:8])
        GLib.MainLoop().run()
    else:
        streams.main("rtspsrc", "rtpvrawpay", "gdppay", "tcpserversink")
