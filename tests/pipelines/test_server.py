"""A server's life: clients come and go, and models are replaced while they watch. When
the clients are gone, so are their threads and their memory.

usage: test_server.py SOURCE BUILD [TEST...]

VAE_TEST_ROUNDS is the number of rounds, each with CLIENTS clients by RTSP and TCP.
"""
import ctypes
import os
import re
import subprocess
import sys

import streams

streams.need_python("import gi\ngi.require_version('Gst', '1.0')\n"
                    "gi.require_version('GstRtspServer', '1.0')")

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer

CLIENTS = 8
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

    def look(self):
        """Waits until the server has no clients. Returns its threads and KiB."""
        medias = 1
        while medias:
            self.ask("report")
            medias, threads, kib = map(int, self.server.stdout.readline().split())
        return threads, kib

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

    def round(self):
        """Half of the clients are killed while they watch."""
        rtsp, tcp = self.ports
        clients = [streams.launch(
            f"tcpclientsrc port={tcp} ! gdpdepay ! fakesink num-buffers=4" if k % 4 > 1
            else f"rtspsrc protocols=tcp location=rtsp://127.0.0.1:{rtsp}/clip ! "
            f"fakesink num-buffers={9 + 9 * k}") for k in range(CLIENTS)]
        self.finish(clients[0])
        self.ask("replace")
        for client in clients[1::2]:
            client.kill()
            streams.ended(client)
        for client in clients[2::2]:
            self.finish(client)
        return self.look()

    def test_rounds(self):
        self.round()
        before = self.round()
        for _ in range(int(os.environ.get("VAE_TEST_ROUNDS", "3"))):
            after = self.round()
        print("threads and KiB:", before, after)
        # A pool of GLib keeps some threads for the next task.
        self.assertLess(after[0], before[0] + CLIENTS)
        self.assertLess(1024 * (after[1] - before[1]), CLIENTS * NOISE)


if __name__ == "__main__":
    if sys.argv[3:4] == ["serve"]:
        Gst.init(None)
        server = Server(sys.argv[4:6], *sys.argv[6:8])
        GLib.MainLoop().run()
    else:
        streams.main("rtspsrc", "rtpvrawpay", "gdppay", "tcpserversink")
