"""Shared code of the tests that send latents between programs: pipelines in
separate processes, a small clip, and the right frames of this clip."""
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, BUILD = sys.argv[1:3]
PIPELINES = os.path.join(SOURCE, "pipelines")
os.environ["PYTHONPATH"] = os.path.join(BUILD, "python")  # for the scripts of cluster/
VAESEND = os.path.join(PIPELINES, "vaesend.py")
sys.dont_write_bytecode = True
sys.path.insert(0, PIPELINES)
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))

# The width is no multiple of the model's, and the frames fill no whole group.
WIDTH, HEIGHT, FRAMES, LATENTS = 60, 48, 19, 6
FRAME = WIDTH * HEIGHT * 3
DECODE = "vaedecode ! video/x-raw,format=RGB"


def program(name):
    return os.path.join(SOURCE, "tests", "pipelines", "programs", name)


def has(*elements):
    return all(subprocess.run(
        ["gst-inspect-1.0", "--exists", "--atleast-version=0.0", name],
        check=False).returncode == 0 for name in elements)


def launch(*pipeline, quiet=True, **more):
    """Starts gst-launch-1.0. After its end, ended() reads its messages from .said.
    pipeline: separate words, or one string. quiet: also hides warnings."""
    words = pipeline[0].split() if len(pipeline) == 1 else list(pipeline)
    said = tempfile.TemporaryFile()
    process = subprocess.Popen(["gst-launch-1.0"] + ["-q"] * quiet + words, stdout=said,
                               stderr=subprocess.STDOUT, **more)
    process.said = said
    return process


def ended(process):
    """Waits for the end. Returns the exit status and the messages."""
    status = process.wait()
    process.said.seek(0)
    text = process.said.read().decode(errors="replace")
    process.said.close()
    return status, text


def wait_for(happened, *processes):
    """Waits for a condition that these processes of launch() bring about. GStreamer
    1.22 may hang after an error at the start, so an error counts as an end."""
    while not happened():
        for process in processes:
            descriptor = process.said.fileno()
            text = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(
                errors="replace")
            if process.poll() is not None or "ERROR" in text:
                process.kill()
                raise AssertionError(f"ended too early: {text}")
        time.sleep(0.05)


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def floats(count, first=0):
    return struct.pack(f"<{count}f", *range(first, first + count))


def packets(data):
    """Returns [(kind, payload, pts, duration, offset, flags)]."""
    found = []
    while data:
        major, minor, crc, _, kind, length, pts, duration, offset, _, flags = \
            struct.unpack_from(">BBBBHIQQQQH", data)
        assert (major, minor, crc) == (1, 0, 0)
        found.append((kind, data[62:62 + length], pts, duration, offset,
                      flags))
        data = data[62 + length:]
    return found


class Streams(unittest.TestCase):
    """self.clip is a file of latents. self.frames are its decoded frames."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.clip = cls.path("clip.safetensors")
        cls.play(f"videotestsrc horizontal-speed=3 num-buffers={FRAMES} ! "
                 f"video/x-raw,width={WIDTH},height={HEIGHT},framerate=16/1 ! "
                 f"vaeencode ! latentmux ! filesink location={cls.clip}")
        out = cls.path("right.rgb")
        cls.play(f"filesrc location={cls.clip} ! latentdemux ! {DECODE} ! "
                 f"filesink location={out}")
        cls.frames = cls.read(out)
        assert len(cls.frames) == FRAMES * FRAME

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @staticmethod
    def play(pipeline):
        status, said = ended(launch(pipeline))
        assert status == 0, said
        return said

    @staticmethod
    def read(path):
        with open(path, "rb") as file:
            return file.read()

    def finish(self, process):
        status, said = ended(process)
        self.assertEqual(status, 0, said)
        return said

    def assert_frames(self, path, expected=None):
        """Checks that the file has these frames, to the byte. expected None: all."""
        expected = self.frames if expected is None else expected
        found = self.read(path)
        self.assertEqual(len(found) / FRAME, len(expected) / FRAME, "frames")
        differ = [i for i in range(len(found) // FRAME)
                  if found[i * FRAME:(i + 1) * FRAME] !=
                  expected[i * FRAME:(i + 1) * FRAME]]
        self.assertEqual(differ, [], "frames that differ")


def need_python(modules):
    """Continues with a Python that has these modules. Debian's packages install
    modules only for Debian's Python."""
    for name in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([name, "-c", modules], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0:
            if name != sys.executable:
                os.execv(name, [name] + sys.argv)
            return
    print("skipped: no Python with", modules)
    sys.exit(77)


def main(*elements):
    """Runs the tests of the program. Exits with 77 if an element is missing."""
    missing = [name for name in elements if not has(name)]
    if missing:
        print("skipped: no element", *missing)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
