"""Runs the recipes of docs/recipes.md. A recipe is skipped, by name, if an element, a
program or a module that it uses is not installed.

usage: test_recipes.py SOURCE BUILD [TEST...]
"""
import http.server
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import streams

streams.need_python("import gi, numpy\ngi.require_version('Gst', '1.0')")

from streams import BUILD, FRAMES, SOURCE

SIZE = 80 * 48
with open(os.path.join(SOURCE, "docs/recipes.md"), encoding="utf-8") as page:
    RECIPES = {title: blocks for title, body in
               re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page.read(), re.M | re.S)
               if (blocks := re.findall(r"^```(\w*)\n(.*?)^```$", body, re.M | re.S))}
PROGRAMS = {re.match(r"# (\w+\.py)\n", text)[1]: text for blocks in RECIPES.values()
            for kind, text in blocks if kind == "python"}
# No test has a display.
INSTEAD = {"autovideosink sync=false": "filesink location=shown.raw",
           "autovideosink": "fakesink sync=true",
           "gst-play-1.0": "gst-play-1.0 --no-interactive "
                           "--videosink='filesink location=shown.raw'",
           "python3 ": sys.executable + " "}


class Store(http.server.BaseHTTPRequestHandler):
    """Keeps what PUT sends in pieces."""
    protocol_version = "HTTP/1.1"
    stored = {}

    def do_PUT(self):
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        self.stored[self.path] = data
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Recipes(streams.Streams):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["PATH"] = (os.path.join(BUILD, "engine") + os.pathsep +
                              os.environ["PATH"])
        video = (f"videotestsrc num-buffers={FRAMES} ! "
                 "video/x-raw,width=80,height=48,framerate=16/1 ! ")
        cls.play(f"{video} vaeencode ! latentmux ! "
                 f"filesink location={cls.path('latents.safetensors')}")
        cls.play(f"{video} vp8enc ! webmmux ! filesink location={cls.path('clip.webm')}")
        cls.play(f"{video} pngenc ! multifilesink location={cls.path('in-%04d.png')}")
        cls.play("audiotestsrc num-buffers=9 ! wavenc ! "
                 f"filesink location={cls.path('sound.wav')}")
        header = ("{'descr': '<f4', 'fortran_order': False, "
                  "'shape': (16, 3, 6, 10), }").ljust(117) + "\n"
        with open(cls.path("latents.npy"), "wb") as file:
            file.write(b"\x93NUMPY\1\0" + struct.pack("<H", 118) + header.encode() +
                       bytes(4 * 16 * 3 * 6 * 10))
        for name, place in (("model", "pipelines/demo/demo"),
                            ("taef2", "tests/golden/data/taef2/weights")):
            os.symlink(os.path.join(SOURCE, place + ".safetensors"),
                       cls.path(name + ".safetensors"))

    def sh(self, command, **more):
        return subprocess.run(command, shell=True, cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False, **more)

    def need(self, kind, text):
        """Skips the test if something that the block uses is not installed."""
        elements = set(re.findall(r"(?:! |gst-launch-1\.0 (?:-q )?)(?:\\\n +)?"
                                  r"([a-z]\w+)(?=[ \n\"])", text))
        missing = [name for name in sorted(elements - {"autovideosink"})
                   if not streams.has(name)]
        if kind == "python":
            done = self.sh(sys.executable + " -", input=text.split("\n\n")[0])
            missing += done.stdout.split("\n")[-2:-1] if done.returncode else []
        else:
            programs = re.findall(r"(?:^|\| (?:\\\n +)?)([a-z][^ \n]*)", text, re.M)
            missing += [name for name in programs if not shutil.which(name)]
        if missing:
            self.skipTest("not installed: " + ", ".join(missing))

    def start(self, command, port):
        """Starts a program. Waits for the port of a server."""
        server = subprocess.Popen(command, shell=True, cwd=self.folder,
                                  start_new_session=True, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(os.killpg, server.pid, signal.SIGKILL)
        while "filesink" not in command and server.poll() is None:
            try:
                return socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                time.sleep(0.05)
        self.assertIn("filesink", command)

    def cook(self, title, port=None):
        """Runs a recipe. port: that of a server which runs."""
        blocks = RECIPES.pop(title)
        for block in blocks:
            self.need(*block)
        port = port or streams.free_port()
        for kind, text in blocks:
            for word, other in INSTEAD.items():
                text = text.replace(word, other)
            text = re.sub(r"(127\.0\.0\.1:|http\.server |service=\")[0-9]+",
                          rf"\g<1>{port}", text)
            if kind == "python":
                name = re.match(r"# (\w+\.py)\n", text)[1]
                with open(self.path(name), "w", encoding="utf-8") as file:
                    file.write(text)
                text = f"{sys.executable} {name}" if kind == blocks[-1][0] else ""
            for command in filter(None, text.replace("\\\n", " ").split("\n")):
                if command.endswith(" &"):
                    self.start("exec " + command[:-2], port)
                    continue
                done = self.sh(command)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertNotIn("ERROR", done.stdout)
        return done.stdout

    def shown(self, clips=1):
        """Checks that a player showed all frames, in RGB or I420."""
        size = os.path.getsize(self.path("shown.raw"))
        os.remove(self.path("shown.raw"))
        self.assertIn(size / SIZE / FRAMES / clips, (3, 1.5))

    def count(self, pattern):
        return len([name for name in os.listdir(self.folder)
                    if re.fullmatch(pattern, name)])

    def pictures(self, path, kind):
        """The number of compressed pictures in a file."""
        self.play(f"filesrc location={self.path(path)} ! parsebin ! video/{kind} ! "
                  f"multifilesink location={self.path('packet-%d')}")
        names = [name for name in os.listdir(self.folder) if name.startswith("packet-")]
        for name in names:
            os.remove(self.path(name))
        return len(names)

    def latents(self, data):
        """Checks a file of latents of the clip."""
        self.assertIn(b'"vae.frames":"19"', data[:4096].replace(b" ", b""))

    def test_play(self):
        self.cook("Play over HTTP")
        self.shown()

    def test_no_file(self):
        """A program whose file is missing names it and ends."""
        for name, file in (("memory.py", "clip.webm"), ("frames.py", "clip.webm"),
                           ("loop.py", "latents.safetensors"),
                           ("whip.py", "latents.safetensors")):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.need("python", PROGRAMS[name])
                with open(os.path.join(folder, name), "w", encoding="utf-8") as program:
                    program.write(PROGRAMS[name].replace("autovideosink", "fakesink"))
                done = subprocess.run(
                    [sys.executable, name], cwd=folder, text=True, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, check=False, timeout=20)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(f'No such file "{file}"', done.stdout)
                self.assertNotIn("CRITICAL", done.stdout)

    def test_upload(self):
        server = http.server.HTTPServer(("127.0.0.1", 0), Store)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.cook("Upload by HTTP PUT", server.server_port)
        self.latents(Store.stored["/clip.safetensors"])

    def test_memory(self):
        self.assertRegex(self.cook("Write to memory"), r"\d{4,} bytes")

    def test_arrays(self):
        self.cook("Arrays of numpy")
        import numpy
        self.assertEqual(numpy.load(self.path("frames.npy")).shape, (9, 48, 80, 3))
        self.assertGreater(os.path.getsize(self.path("again.safetensors")), 4 * 2880)

    def test_tensors(self):
        shapes = self.cook("Frames of a pipeline as tensors").split("\n")
        self.assertEqual(shapes[:6], [f"(16, {n}, 6, 10)" for n in (1, 0, 0, 0, 1, 0)])
        self.assertEqual(len(shapes), FRAMES + 2)

    def test_latents(self):
        self.cook("Tensors into a pipeline")
        self.assertIn(os.path.getsize(self.path("shown.raw")) / SIZE, (27, 13.5))
        os.remove(self.path("shown.raw"))

    def test_rtsp(self):
        self.cook("Serve RTSP")
        self.assertGreater(os.path.getsize(self.path("shown.raw")), SIZE)
        os.remove(self.path("shown.raw"))

    def test_whip(self):
        self.need("sh", "! nicesrc ")
        port, got = streams.free_port(), self.path("whip.raw")
        server = streams.program("whip_server.py")
        self.start(f"exec {sys.executable} {server} {port} {got}", port)
        self.cook("Send WebRTC by WHIP", port)
        self.assertTrue(os.path.exists(got))

    def test_hls(self):
        self.cook("Make a playlist for HLS")
        playlist = self.read(self.path("clip.m3u8")).decode()
        self.assertIn("#EXT-X-ENDLIST", playlist)
        self.assertEqual(sum(self.pictures(name, "x-h264") for name in
                             re.findall("^clip.*ts$", playlist, re.M)), FRAMES)

    def test_gapless(self):
        self.cook("Play clips without a gap")
        self.shown(2)

    def test_loop(self):
        self.cook("Loop without a gap")

    def test_record(self):
        self.cook("Record while watching")
        self.shown()
        self.assertEqual(self.pictures("recording.webm", "x-vp8"), FRAMES)

    def test_follow(self):
        self.cook("Watch a recording while it is written")
        self.shown()

    def test_follow_killed(self):
        """A player waits for the first latent and for a living recorder, and ends after
        a killed one."""
        file, latents = self.path("killed.safetensors"), self.path("latents")
        with open(file, "wb"):
            pass
        player = streams.launch(
            f"filesrc location={file} ! latentdemux follow=true ! "
            f"filesink location={latents} buffer-mode=unbuffered", quiet=False)
        self.addCleanup(player.kill)
        streams.wait_for(lambda: os.path.exists(latents), player)
        recorder = streams.launch(
            "videotestsrc is-live=true ! video/x-raw,width=80,height=48,framerate=16/1 ! "
            f"vaeencode ! latentmux ! filesink location={file} buffer-mode=unbuffered")
        self.addCleanup(recorder.kill)
        streams.wait_for(lambda: os.path.getsize(latents), player, recorder)
        recorder.kill()
        streams.ended(recorder)
        status, said = streams.ended(player)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, f"WARNING.*{file}: the recording was cut")
        count = int(re.search(r"It has (\d+) complete latent", said)[1])
        self.assertEqual(os.path.getsize(latents), count * 16 * 10 * 6 * 4)

    def test_parts(self):
        self.assertNotIn("CRITICAL", self.cook("Write and play a clip in parts"))
        self.assertGreater(self.count(r"part\d+\.safetensors"), 1)
        self.shown()

    def test_sound(self):
        self.cook("Add sound")
        self.assertEqual(self.pictures("video.webm", "x-vp8"), FRAMES)
        self.assertIn(b"A_OPUS", self.read(self.path("video.webm")))

    def test_png(self):
        self.cook("PNG")
        self.assertEqual(self.count(r"out-\d+\.png"), FRAMES)

    def test_exr(self):
        if shutil.which("ffmpeg"):
            self.sh("ffmpeg -v error -i in-%04d.png -start_number 0 in-%04d.exr")
        self.cook("EXR and PNG of 16 bits")
        self.assertEqual(self.count(r"out-\d+\.exr"), FRAMES)
        head = self.read(self.path("out16-0001.png"))[16:26]
        self.assertEqual(struct.unpack(">IIBB", head), (80, 48, 16, 2))

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        assert not RECIPES or sys.argv[3:], f"no test runs {list(RECIPES)}"


if __name__ == "__main__":
    streams.main("vp8enc", "webmmux", "pngenc", "wavenc", "parsebin")
