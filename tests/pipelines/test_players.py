"""Programs that know nothing about latents play a file of latents, if there is a
bundled or an installed model for its latent space.

usage: test_players.py SOURCE BUILD [TEST...]
"""
import os
import shutil
import subprocess
import unittest

import streams
from streams import FRAME, FRAMES, HEIGHT, LATENTS, WIDTH

# Without the last word encodebin uses videorate, which repeats the last frame in
# GStreamer 1.28.
LATENTS_PROFILE = ("application/x-safetensors:video/x-vae-latent|"
                   "variable-framerate=true")
RAW = "videoconvert ! video/x-raw,format=RGB ! filesink location="


def failed(play, env=None):
    """Returns the exit status and messages of a pipeline that must fail.

    decodebin filters errors until just after a demuxer has started. If the demuxer
    posts its error in this time, decodebin drops the error and the pipeline waits
    forever. It is then started again."""
    for attempt in range(5):
        process = streams.launch(play, env=env)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            continue
        return streams.ended(process)
    raise AssertionError(f"no error in {attempt + 1} runs: {play}")


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
        """Checks the frames. Some programs link the next element before the decoder
        chooses a format, others after. Its first choice stays, so the frames are
        converted or not."""
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
        """fakevideosink has the same requests as the sinks that autovideosink chooses
        on a machine with a display."""
        self.assertEqual(self.play(f"filesrc location={self.clip} ! decodebin "
                                   "! fakevideosink sync=false"), "")

    def screen(self):
        """The environment of programs that show something on a virtual screen."""
        if not shutil.which("Xvfb"):
            self.skipTest("not installed: xvfb")
        number, write = os.pipe()
        self.addCleanup(os.close, number)
        server = subprocess.Popen(["Xvfb", "-displayfd", str(write)], pass_fds=[write],
                                  stderr=subprocess.DEVNULL)
        os.close(write)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        return dict(os.environ, DISPLAY=":" + os.read(number, 9).decode().strip())

    def test_gl(self):
        """A texture has the bytes of its frame, and a window shows the clip."""
        env, texture = self.screen(), "glupload ! gldownload"
        status, said = streams.ended(streams.launch(
            f"videotestsrc num-buffers=1 ! {texture} ! fakesink", env=env))
        if status:
            self.skipTest(said)
        status, said = streams.ended(streams.launch(
            f"filesrc location={self.clip} ! latentdemux ! {streams.DECODE} ! {texture} ! "
            f"video/x-raw,format=RGB ! filesink location={self.out}", env=env))
        self.assertEqual(status, 0, said)
        self.assert_frames(self.out)
        status, said = streams.ended(streams.launch(
            f"filesrc location={self.clip} ! latentdemux ! vaedecode ! glimagesink",
            env=env))
        self.assertEqual(status, 0, said)

    @unittest.skipUnless(shutil.which("gst-discoverer-1.0"), "not installed")
    def test_discoverer(self):
        # The default timeout of 10 s is too short on a busy machine.
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
        """The model of wan2.1 is a file in the user's folder."""
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
        status, said = failed(play, env)
        self.assertEqual(status, 1)
        self.assertIn("wan2.1.safetensors", said)
        self.assertNotIn("missing a plug-in", said)
        models = os.path.join(home, "gst-vae", "models")
        os.makedirs(models)
        installed = os.path.join(models, "wan2.1.safetensors")
        with open(installed, "wb") as out:
            out.write(b"GGUF" + bytes(60))
        status, said = failed(play, env)
        self.assertEqual(status, 1)
        self.assertIn("is a GGUF file", said)
        self.assertNotIn("missing a plug-in", said)
        shutil.copy(weights, installed)
        status, said = streams.ended(streams.launch(play, env=env))
        self.assertEqual((status, said), (0, ""))
        self.assertEqual(len(self.read(self.out)), len(self.frames))
        self.assertEqual(LATENTS, 1 + -(-(FRAMES - 1) // 4))

    def test_no_latent_space(self):
        """The error says which property to set. It does not say that a plug-in is
        missing."""
        clip = self.path("bare.npy")
        shape = b"{'descr': '<f4', 'fortran_order': False, " \
            b"'shape': (16, 1, 6, 8), }"
        shape += b" " * (-(len(shape) + 11) % 64) + b"\n"
        with open(clip, "wb") as out:
            out.write(b"\x93NUMPY\x01\x00" + len(shape).to_bytes(2, "little")
                      + shape + bytes(16 * 6 * 8 * 4))
        for play in (f"filesrc location={clip} ! decodebin ! fakesink",
                     f"playbin uri=file://{clip} video-sink=fakesink"):
            status, said = failed(play)
            self.assertEqual(status, 1)
            self.assertIn("latentdemux latent-space=", said)
            self.assertNotIn("missing a plug-in", said)

    def encoded(self):
        """Writes a video of the clip's frames. Returns its path, and one for latents."""
        video, out = self.path("video.avi"), self.path("encoded.safetensors")
        self.play(f"filesrc location={self.clip} ! latentdemux ! vaedecode ! "
                  f"videoconvert ! jpegenc ! avimux ! filesink "
                  f"location={video}")
        return video, out

    def test_encodebin(self):
        video, out = self.encoded()
        self.play(f"filesrc location={video} ! decodebin ! encodebin "
                  f"profile={LATENTS_PROFILE} ! filesink location={out}")
        self.play(f"filesrc location={out} ! decodebin ! {RAW}{self.out}")
        self.assertEqual(len(self.read(self.out)), len(self.frames))

    @unittest.skipUnless(shutil.which("gst-transcoder-1.0"), "not installed "
                         "(gstreamer1.0-plugins-bad-apps)")
    def test_transcoder(self):
        """Encodes to latents, by a profile and by the name of the file, and back."""
        video, out = self.encoded()
        profiles = os.path.join(streams.SOURCE, "gst", "encoding-profiles")
        env = dict(os.environ, GST_ENCODING_TARGET_PATH=profiles)
        back = self.path("back.avi")
        for words in ([video, out, LATENTS_PROFILE],
                      [video, self.path("named.safetensors")],
                      [out, back, "video/x-msvideo:image/jpeg"]):
            subprocess.run(["gst-transcoder-1.0"] + words, check=True, env=env,
                           stdout=subprocess.DEVNULL)
        self.assertEqual(self.read(self.path("named.safetensors")),
                         self.read(out))
        self.play(f"filesrc location={back} ! decodebin ! {RAW}{self.out}")
        self.assertEqual(len(self.read(self.out)), len(self.frames))

    @unittest.skipUnless(shutil.which("gst-transcoder-1.0"), "not installed "
                         "(gstreamer1.0-plugins-bad-apps)")
    def test_transcoder_times(self):
        """The encoding target for the file name keeps each frame and its time if the
        caps state another rate."""
        video, out = self.path("slow.mkv"), self.path("slow.safetensors")
        self.play(f"videotestsrc num-buffers=13 ! video/x-raw,width={WIDTH},"
                  f"height={HEIGHT},framerate=13/2 ! jpegenc ! capssetter "
                  "caps=image/jpeg,framerate=16/1 ! matroskamux ! "
                  f"filesink location={video}")
        profiles = os.path.join(streams.SOURCE, "gst", "encoding-profiles")
        subprocess.run(["gst-transcoder-1.0", video, out], check=True,
                       env=dict(os.environ, GST_ENCODING_TARGET_PATH=profiles),
                       stdout=subprocess.DEVNULL)
        self.play(f"filesrc location={out} ! decodebin ! {RAW}{self.out}")
        self.assertEqual(len(self.read(self.out)), 13 * FRAME)

    def test_camerabin(self):
        """A camera with a profile for latents records a file of latents."""
        if subprocess.run(["gst-inspect-1.0", "--exists", "camerabin"],
                          check=False).returncode:
            self.skipTest("no element camerabin")
        out = self.path("camera.safetensors")
        status = subprocess.run(["/usr/bin/python3", streams.program("camera.py"), out],
                                check=False).returncode
        if status == 77:
            self.skipTest("no PyGObject with GstPbutils")
        self.assertEqual(status, 0)
        self.play(f"filesrc location={out} ! decodebin ! fakesink")

    def test_weights_are_no_latents(self):
        demo = os.path.join(streams.PIPELINES, "demo", "demo.safetensors")
        status, said = failed(f"filesrc location={demo} ! decodebin ! fakesink")
        self.assertEqual(status, 1)
        self.assertIn("looks like model weights", said)


if __name__ == "__main__":
    streams.main("playbin3", "vaedecode", "latentdemux")
