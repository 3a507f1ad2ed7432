"""Shared by the tests of segments: small clips, and vaetool.

usage of each test: TEST.py SOURCE BUILD [TEST...]
"""
import array
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = sys.argv[1:3]
CLUSTER = os.path.join(SOURCE, "pipelines/cluster")
DEMO = os.path.join(SOURCE, "pipelines/demo/demo.safetensors")
TINY = os.path.join(SOURCE, "pipelines/demo/demo-tiny.safetensors")
TOOL = os.path.join(BUILD, "engine/vaetool")
SEGMENTS = os.path.join(CLUSTER, "segments.py")
PACKAGE = os.path.join(BUILD, "python")
os.environ["PYTHONPATH"] = PACKAGE
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
sys.dont_write_bytecode = True
sys.path[:0] = [CLUSTER, PACKAGE]
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
from tensor_files import load, save


def size(path):
    """The bytes of a file; 0 if there is none. A writer may rename it at any time."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def make_clip(path, latents, height=4, width=6, trim=2, crop=2):
    """A clip of the demo's latents that moves down by a row for each latent. trim: frames
    that are left out at the end; crop: columns of pixels."""
    found, metadata = load(os.path.join(SOURCE, "pipelines/demo/latents.safetensors"))
    data = found["latent"][2]
    rows = [b"".join(data[((k % 9 * 16 + c) * 30 + (y + k) % 30) * 104:][:2 * width]
                     for c in range(16) for y in range(height))
            for k in range(latents)]
    metadata.update({"vae.frames": str(4 * latents - 3 - trim),
                     "vae.width": str(8 * width - crop), "vae.height": str(8 * height)})
    save(path, {"latent": ("F16", [latents, 16, height, width], b"".join(rows))}, metadata)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def vaetool(*arguments):
    subprocess.run([TOOL, *arguments], check=True, stdin=subprocess.DEVNULL)


def gst(*words, **more):
    return subprocess.run(["gst-launch-1.0", *words], capture_output=True, check=True,
                          **more).stdout


def has_elements(*names):
    try:
        return not any(subprocess.run(["gst-inspect-1.0", name], capture_output=True,
                                      check=False).returncode for name in names)
    except FileNotFoundError:
        return False


def times_of(video):
    """The times of a video's pictures in ms, in the order of the file."""
    said = gst("-v", "filesrc", f"location={video}", "!", "parsebin", "!", "fakesink",
               "silent=false", "sync=false", text=True)
    return [1000 * (60 * int(m) + float(s)) for m, s in
            re.findall(r"pts: 0:(\d+):([\d.]+), duration: 0", said)]


SAMPLES = [(x, y) for y in range(1, 32, 3) for x in range(1, 46, 5)]


def luma_of(video):
    """[the luma of SAMPLES] of a video's frames of 46x32."""
    data = gst("-q", "filesrc", f"location={video}", "!", "decodebin", "!",
               "video/x-raw,format=I420", "!", "fdsink")
    return [[data[at + y * 48 + x] for x, y in SAMPLES]
            for at in range(0, len(data), 48 * 32 * 3 // 2)]


def pictures_of(video):
    """The encoded pictures."""
    return gst("-q", "filesrc", f"location={video}", "!", "parsebin", "!", "fdsink")


def luma_of_floats(path):
    """The same of a file of frames, by BT.601."""
    found, metadata = load(path)
    _, shape, data = found["frames"]
    values = array.array("f", data)
    low, high = map(float, metadata["vae.pixel_range"].split())

    def luma(i):
        r, g, b = [min(1, max(0, (v - low) / (high - low))) for v in values[i:i + 3]]
        return 16 + 219 * (0.299 * r + 0.587 * g + 0.114 * b)

    return [[luma(3 * ((k * 32 + y) * 46 + x)) for x, y in SAMPLES]
            for k in range(shape[0])]


class Clips(unittest.TestCase):
    LATENTS, SIZE = 60, (4, 6)

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.clip = os.path.join(cls.folder, "clip.safetensors")
        make_clip(cls.clip, cls.LATENTS, *cls.SIZE)
        cls.whole = os.path.join(cls.folder, "whole.safetensors")
        vaetool("decode", "--threads", "1", "--model", TINY, cls.clip, cls.whole)

    def setUp(self):
        self.work = tempfile.mkdtemp(dir=self.folder)

    def path(self, name):
        return os.path.join(self.work, name)

    def assert_same(self, a, b):
        self.assertTrue(read(a) == read(b), f"{a} and {b} differ")

    def check_video(self, path):
        """The frames of self.whole, each once, in order, at its time, and without a
        seam: no frame differs by much."""
        right = luma_of_floats(self.whole)
        times = times_of(path)
        self.assertEqual(len(times), len(right))
        for k, time in enumerate(times):
            self.assertLess(abs(time - 1000 * k / 16), 1, f"{path}: picture {k}")
        if path.endswith(".mp4") and not any(map(has_elements, ("avdec_h264",
                                                                "openh264dec"))):
            return
        found = luma_of(path)
        self.assertEqual(len(found), len(right))
        for k, (a, b) in enumerate(zip(found, right)):
            difference = sum(abs(x - y) for x, y in zip(a, b)) / len(b)
            self.assertLess(difference, 4, f"{path}: picture {k}")
