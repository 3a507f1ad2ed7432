"""Programs that know nothing of latents play a file of them, where its latent
space is the bundled model's or has an installed one.

usage: test_players.py SOURCE BUILD [TEST...]
"""
import os
import shutil
import subprocess
import unittest

import streams
from streams import FRAME, FRAMES, HEIGHT, LATENTS, WIDTH

RAW = "videoconvert ! video/x-raw,format=RGB ! filesink location="


class Players(streams.Streams):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        out = cls.path("converted.rgb")
        cls.play(f"filesrc location={cls.clip} ! latentdemux ! vaedecode ! "
                 f"video/x-raw,format=I420 ! {RAW}{out}")
        cls.converted = cls.read(out)

    def setUp(self):
        self.out = self.path("out.rgb")
        self.uri = "uri=file://" + self.clip

    def check(self):
        """Some of them link what follows before the decoder chooses a format,
        some after; the first choice stays."""
        found = self.read(self.out)
        self.assert_frames(self.out, self.converted
                           if found[:FRAME] == self.converted[:FRAME] else None)

    def plays(self, pipeline):
        self.assertEqual(self.play(pipeline), "")
        self.check()

    def test_decodebin(self):
        for name in ("decodebin", "decodebin3"):
            self.plays(f"filesrc location={self.clip} ! {name} ! "
                       f"{RAW}{self.out}")

    def test_uridecodebin(self):
        for name in ("uridecodebin", "uridecodebin3"):
            self.plays(f"{name} {self.uri} ! {RAW}{self.out}")

    def test_playbin(self):
        for name in ("playbin", "playbin3"):
            status, said = streams.ended(streams.launch(
                name, self.uri, f"video-sink={RAW}{self.out}"))
            self.assertEqual((status, said), (0, ""))
            self.check()

    def test_video_sink(self):
        """What autovideosink would choose on a machine with a display wants
        what fakevideosink wants."""
        self.assertEqual(self.play(f"filesrc location={self.clip} ! decodebin "
                                   "! fakevideosink sync=false"), "")

    @unittest.skipUnless(shutil.which("gst-discoverer-1.0"), "not installed")
    def test_discoverer(self):
        # Its limit of time is 10 s, which a busy machine may need.
        said = subprocess.run(
            ["gst-discoverer-1.0", "-v", "-t", "3600", self.clip], check=True,
            stdout=subprocess.PIPE, text=True).stdout
        for text in ("video/x-vae-latent", "gst-vae-demo", f"Width: {WIDTH}",
                     f"Height: {HEIGHT}", "Frame rate: 16/1",
                     "Duration: 0:00:01.187500000", "Seekable: yes"):
            self.assertIn(text, said)

    @unittest.skipUnless(shutil.which("gst-play-1.0"), "not installed")
    def test_play(self):
        said = subprocess.run(
            ["gst-play-1.0", "--no-interactive", "--audiosink=fakesink",
             f"--videosink={RAW}{self.out}", self.clip], check=True,
            stdout=subprocess.PIPE, text=True).stdout
        self.assertIn("Reached end of play list", said)
        self.check()

    def test_installed_model(self):
        """Latents of wan2.1, whose model is a file in the user's folder."""
        weights = os.path.join(streams.SOURCE, "tests", "golden", "data",
                               "wan21", "weights.safetensors")
        clip = self.path("wan21.safetensors")
        self.play(f"videotestsrc num-buffers={FRAMES} ! "
                  f"video/x-raw,width={WIDTH},height={HEIGHT} ! "
                  f"vaeencode model={weights} ! latentmux ! "
                  f"filesink location={clip}")
        home = self.path("home")
        env = dict(os.environ, XDG_DATA_HOME=home, XDG_DATA_DIRS=home)
        play = (f"filesrc location={clip} ! decodebin ! {RAW}{self.out}")
        status, said = streams.ended(streams.launch(play, env=env))
        self.assertEqual(status, 1)
        self.assertIn("wan2.1.safetensors", said)
        models = os.path.join(home, "gst-vae", "models")
        os.makedirs(models)
        shutil.copy(weights, os.path.join(models, "wan2.1.safetensors"))
        status, said = streams.ended(streams.launch(play, env=env))
        self.assertEqual((status, said), (0, ""))
        self.assertEqual(len(self.read(self.out)), len(self.frames))
        self.assertEqual(LATENTS, 1 + -(-(FRAMES - 1) // 4))

    def test_weights_are_no_latents(self):
        demo = os.path.join(streams.PIPELINES, "demo", "demo.safetensors")
        status, said = streams.ended(streams.launch(
            f"filesrc location={demo} ! decodebin ! fakesink"))
        self.assertEqual(status, 1)
        self.assertIn("looks like model weights", said)


if __name__ == "__main__":
    streams.main("playbin3", "vaedecode", "latentdemux")
