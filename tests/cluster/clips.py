"""What the tests of segments share: small clips, and vaetool.

usage of each test: TEST.py SOURCE BUILD [TEST...]
"""
import json
import os
import shutil
import struct
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
os.environ["VAE_LIBRARY"] = os.path.join(BUILD, "engine/libvae.so.0")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, CLUSTER)


def tensors(path):
    """{name: (entry, bytes)} and the metadata of a safetensors file."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        entries, data = json.loads(file.read(length)), file.read()
    metadata = entries.pop("__metadata__", {})
    return {n: (e, data[slice(*e["data_offsets"])]) for n, e in entries.items()}, metadata


def write(path, name, kind, shape, data, metadata):
    text = json.dumps({"__metadata__": metadata, name: {
        "dtype": kind, "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def make_clip(path, latents, height=4, width=6, trim=2):
    """A clip of the demo's latents that moves down by a row for each latent."""
    found, metadata = tensors(os.path.join(SOURCE, "pipelines/demo/latents.safetensors"))
    data = found["latent"][1]
    rows = [b"".join(data[((k % 9 * 16 + c) * 30 + (y + k) % 30) * 104:][:2 * width]
                     for c in range(16) for y in range(height))
            for k in range(latents)]
    metadata.update({"vae.frames": str(4 * latents - 3 - trim),
                     "vae.width": str(8 * width - 2), "vae.height": str(8 * height)})
    write(path, "latent", "F16", [latents, 16, height, width], b"".join(rows), metadata)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def vaetool(*arguments):
    subprocess.run([TOOL, *arguments], check=True, stdin=subprocess.DEVNULL)


class Clips(unittest.TestCase):
    LATENTS = 60

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.clip = os.path.join(cls.folder, "clip.safetensors")
        make_clip(cls.clip, cls.LATENTS)
        cls.whole = os.path.join(cls.folder, "whole.safetensors")
        vaetool("decode", "--threads", "1", "--model", TINY, cls.clip, cls.whole)

    def setUp(self):
        self.work = tempfile.mkdtemp(dir=self.folder)

    def path(self, name):
        return os.path.join(self.work, name)

    def assert_same(self, a, b):
        self.assertTrue(read(a) == read(b), f"{a} and {b} differ")
