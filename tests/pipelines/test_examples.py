"""Compares pipelines/examples/ with the elements: they must give the same frames, and
clear errors. Tests the C example with the plugin of the build folder and with an
installed one.

usage: test_examples.py SOURCE BUILD [TEST...]
"""
import os
import shlex
import subprocess
import sys
import unittest

import streams
from streams import FRAME, FRAMES, HEIGHT, WIDTH

import vaesend
import vaesend_file

EXAMPLES = os.path.join(streams.PIPELINES, "examples")
PROGRAM = os.path.join(streams.BUILD, "pipelines/examples/decode-latents")


def python_with_gi():
    """Returns a Python that has gi and numpy, or None."""
    for name in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([name, "-c", "import gi, numpy\n"
                           "gi.require_version('GstVideo', '1.0')"],
                          stderr=subprocess.DEVNULL, check=False,
                          ).returncode == 0:
            return name
    return None


class Example(streams.Streams):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.array, _ = vaesend_file.open_latents(cls.clip)
        # Caps without a visible size give whole latents.
        whole = cls.path("whole.rgb")
        cls.play(f"filesrc location={cls.clip} ! latentdemux ! capssetter "
                 "caps=video/x-vae-latent,width=64 ! "
                 f"{streams.DECODE} ! filesink location={whole}")
        cls.whole = cls.read(whole)

    def run_it(self, *arguments, **more):
        return subprocess.run(arguments, check=False, stderr=subprocess.PIPE,
                              stdout=subprocess.PIPE, **more)


class InC(Example):
    def decode(self, program, *arguments, latents=None, env=None):
        data = self.array.data if latents is None else latents
        return self.run_it(program, *arguments, input=bytes(data), env=env)

    def check_whole(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        # Nothing states the length of the clip, so the last group is complete, too.
        frame = 64 * HEIGHT * 3
        self.assertEqual(len(done.stdout) // frame, 4 * streams.LATENTS - 3)
        self.assertEqual(done.stdout[:len(self.whole)], self.whole)

    def test_build_folder(self):
        self.check_whole(self.decode(PROGRAM, "gst-vae-demo", "8x6"))

    def test_installed(self):
        """Compiles the example as its comment says, and uses an installed plugin."""
        with open(os.path.join(EXAMPLES, "decode-latents.c"),
                  encoding="utf-8") as file:
            self.assertIn("$(pkg-config --cflags --libs gstreamer-app-1.0 "
                          "\\\n *       gstreamer-video-1.0)", file.read())
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "gstreamer-app-1.0",
             "gstreamer-video-1.0"], stdout=subprocess.PIPE, check=True,
            text=True).stdout
        program = self.path("decode")
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run(compiler + [os.path.join(EXAMPLES, "decode-latents.c"),
                                   "-o", program] + shlex.split(flags),
                       check=True)
        root = self.path("root")
        subprocess.run(["meson", "install", "-C", streams.BUILD, "--no-rebuild",
                        "--quiet", "--destdir", root], check=True)
        plugins = [folder for folder, _, files in os.walk(root)
                   if "libgstvae.so" in files]
        self.assertEqual(len(plugins), 1)
        env = dict(os.environ, GST_PLUGIN_PATH_1_0=plugins[0],
                   GST_PLUGIN_PATH="",
                   GST_REGISTRY_1_0=self.path("registry.bin"))
        done = self.decode(program, "gst-vae-demo", "8x6", env=env)
        self.check_whole(done)
        said = self.run_it("gst-inspect-1.0", "vaedecode", env=env).stdout
        self.assertIn(root.encode(), said)

    def test_errors(self):
        usage = self.decode(PROGRAM, "gst-vae-demo", "8")
        self.assertEqual(usage.returncode, 2)
        self.assertIn(b"usage:", usage.stderr)
        for arguments, text in (
                (("no-such-space", "8x6"), b'"no-such-space"'),
                (("gst-vae-demo", "8x6", "/none"), b"/none"),
                (("wan2.1", "8x6", os.path.join(streams.PIPELINES, "demo",
                                                "demo.safetensors")),
                 b"latent-space")):
            done = self.decode(PROGRAM, *arguments)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(text, done.stderr)
        # The error comes although the program still waits for latents.
        ours, theirs = os.pipe()
        done = self.run_it(PROGRAM, "gst-vae-demo", "8x6", "/none", stdin=ours)
        os.close(ours)
        os.close(theirs)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"/none", done.stderr)

    def test_ends(self):
        done = self.decode(PROGRAM, "gst-vae-demo", "8x6", latents=b"")
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        done = self.decode(PROGRAM, "gst-vae-demo", "8x6",
                           latents=self.array.data[:4000])
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"928 bytes, expected 3072", done.stderr)
        self.assertEqual(len(done.stdout), 64 * HEIGHT * 3)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "gst-vae-demo", "8x6"],
                                  input=bytes(self.array.data), stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write", done.stderr)


PYTHON = python_with_gi()


@unittest.skipUnless(PYTHON, "no Python with gi and numpy")
class InPython(Example):
    def python(self, *arguments, **variables):
        """Runs an example, without a display."""
        variables = {**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": "", **variables}
        return self.run_it(PYTHON, "-B", *arguments, text=True, cwd=EXAMPLES, env=variables)

    def test_file(self):
        done = self.python("decode_file.py", self.clip, "", self.path("v.npy"))
        self.assertEqual(done.stderr, "")
        self.assertIn(f" {FRAMES} {HEIGHT} {WIDTH} 3", done.stdout)
        found = self.read(self.path("v.npy"))
        self.assertEqual(found[-FRAMES * FRAME:], self.frames)
        done = self.python("decode_file.py", "/none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/none", done.stderr)
        done = self.python("decode_file.py", self.clip, "/none.safetensors")
        self.assertIn("/none.safetensors", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_arrays(self):
        """Decodes arrays of numpy. An exception of the caller's iterator arrives."""
        with open(self.path("clip.raw"), "wb") as file:
            file.write(self.array.data)
        program = f"""
import sys, numpy, decode_arrays
latents = numpy.fromfile({self.path("clip.raw")!r}, "<f4")
latents = latents.reshape({tuple(self.array.shape)})
for frame in decode_arrays.decode(iter(latents), "gst-vae-demo"):
    sys.stdout.buffer.write(frame.tobytes())
def broken():
    yield latents[0]
    raise KeyError("mine")
try:
    frames = list(decode_arrays.decode(broken(), "gst-vae-demo"))
except KeyError:
    print("raised", file=sys.stderr)
try:
    list(decode_arrays.decode(iter(latents[:, :8]), "gst-vae-demo"))
except RuntimeError as error:
    print(error, file=sys.stderr)
"""
        done = self.run_it(PYTHON, "-B", "-c", program, cwd=EXAMPLES)
        self.assertEqual(done.stdout[:len(self.whole)], self.whole,
                         done.stderr)
        self.assertEqual(len(done.stdout) // (64 * HEIGHT * 3),
                         4 * streams.LATENTS - 3)
        self.assertIn(b"raised", done.stderr)
        self.assertIn(b"channels = 8", done.stderr)

    def test_live_images(self):
        """Live pictures through the latents. A slow step does not keep up, and says
        so; an exception of step() arrives."""
        model = os.path.join(streams.SOURCE, "tests/golden/data/taef2/weights.safetensors")
        options = ["--size=64x48", "--frames=12", "--sink=fakesink"]
        done = self.python("live_images.py", model, *options)
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"all: [\d.]+ of 16 frames/s; latency \d+ ms "
                         r"\(encode \d+, step \d+, decode \d+\)")
        program = (
            "import sys, time, live_images\n"
            "def step(latent):\n"
            "    assert latent.shape == (128, 3, 4) and latent.dtype == 'float32'\n"
            "    {}\n"
            "    return latent\n"
            "live_images.step = step\n"
            f"sys.exit(live_images.main({[model] + options}))\n")
        done = self.python("-c", program.format("time.sleep(0.2)"))
        self.assertRegex(done.stdout, r"all: [0-5]\.\d of 16 .* step \d{3,}, .* does not "
                         "keep up\n$")
        done = self.python("-c", program.format("raise KeyError('mine')"))
        self.assertIn("KeyError: 'mine'", done.stderr)

    def test_live_images_refuses(self):
        for arguments, text in (([], "make-weights taesd"),
                                (["/none", "--size=9"], "WIDTHxHEIGHT"),
                                (["/none", "--sink=fakesink"], "/none"),
                                (["/none"], "no display: neither DISPLAY nor"),
                                ([os.path.join(streams.SOURCE, "pipelines/demo/demo.safetensors"),
                                  "--size=64x48", "--sink=fakesink"],
                                 "network of videos, with 4 frames for a latent")):
            done = self.python("live_images.py", *arguments)
            self.assertIn(text, " ".join(done.stderr.split()))
            self.assertNotIn("Traceback", done.stderr)
            self.assertNotEqual(done.returncode, 0)

    def test_needs(self):
        """Without PyGObject or numpy, each program says what it needs."""
        for module in "gi", "numpy":
            with open(self.path(module + ".py"), "w", encoding="utf-8") as file:
                file.write("raise ImportError('none')\n")
            for name in "decode_file.py", "decode_arrays.py", "live_images.py":
                done = self.python(name, "x", PYTHONPATH=self.path(""))
                self.assertRegex(done.stderr, f"{name}: none; needed.* python3-gi, .*numpy$")
            os.remove(self.path(module + ".py"))

    def test_usage(self):
        for name in "decode_file.py", "decode_arrays.py":
            done = self.python(name, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"usage: {name} [-h] ", done.stdout)
            done = self.python(name, "a", "b", "c", "d")
            self.assertEqual(done.returncode, 2)
            self.assertIn("usage: ", done.stderr)

    def test_noise(self):
        done = self.python("decode_arrays.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("(96, 160, 3) mean"), 17)


if __name__ == "__main__":
    streams.main("vaedecode", "latentdemux", "capssetter")
