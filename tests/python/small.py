"""Shared by the tests of the package: small networks, tensors without a framework, files
of tensors, vaetool."""
import array
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
VECTORS = os.environ["VAE_TEST_VECTORS"]

import gst_vae

TOOL = gst_vae.tool_path()
if "VAE_TEST_BUILD" in os.environ:
    TOOL = os.path.join(os.environ["VAE_TEST_BUILD"], "engine/vaetool")


def weights(name):
    return os.path.join(VECTORS, name, "weights.safetensors")


def product(shape):
    n = 1
    for length in shape:
        n *= length
    return n


def tensor(shape, kind="f", seed=1):
    """A memoryview of pseudorandom numbers: "f" from -1 to 1, "B" bytes."""
    numbers = random.Random(seed)
    count = product(shape)
    data = (array.array("f", [numbers.uniform(-1, 1) for _ in range(count)])
            if kind == "f" else array.array("B", numbers.randbytes(count)))
    return memoryview(data).cast("B").cast(kind, shape)


def wide(data):
    """A copy of a memoryview of "f" as "d"."""
    numbers = array.array("d", data.cast("B").cast("f"))
    return memoryview(numbers).cast("B").cast("d", data.shape)


def part(data, axis, first, end):
    """A copy of a part of a memoryview along one dimension."""
    shape = list(data.shape)
    inner = data.itemsize * product(shape[axis + 1:])
    row = shape[axis] * inner
    raw = data.tobytes()
    cut = b"".join(raw[at + first * inner:at + end * inner]
                   for at in range(0, len(raw), row))
    shape[axis] = end - first
    return memoryview(cut).cast(data.format, shape)


def write(path, name, data, metadata=None):
    header = json.dumps({"__metadata__": metadata or {}, name: {
        "dtype": {"f": "F32", "d": "F64", "H": "BF16", "B": "U8"}[data.format], "shape": list(data.shape),
        "data_offsets": [0, data.nbytes]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data.tobytes())


def read(path):
    """{name: (shape, bytes)} and the metadata of a file."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        entries, data = json.loads(file.read(length)), file.read()
    metadata = entries.pop("__metadata__", {})
    return {name: (tuple(e["shape"]), data[slice(*e["data_offsets"])])
            for name, e in entries.items()}, metadata


def state(path):
    """The tensors of a file of weights as a dict, and its metadata."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        entries, data = json.loads(file.read(length)), file.read()
    metadata = entries.pop("__metadata__", {})
    formats = {"F32": "f", "U8": "B"}
    made = {}
    for name, e in entries.items():
        raw = array.array(formats[e["dtype"]], data[slice(*e["data_offsets"])])
        made[name] = memoryview(raw).cast("B").cast(formats[e["dtype"]], e["shape"]
                                                    or [len(raw)])
    return made, metadata


def vaetool(*arguments):
    subprocess.run([TOOL, *arguments], check=True, stdout=subprocess.DEVNULL)


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)


def main():
    unittest.main(verbosity=1)
