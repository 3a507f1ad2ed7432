"""Shared by the tests of the package: small networks, tensors without a framework, files
of tensors, vaetool."""
import array
import os
import random
import subprocess
import sys
import unittest
import warnings

sys.dont_write_bytecode = True
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
VECTORS = os.environ["VAE_TEST_VECTORS"]

import gst_vae
import tensor_files
from tensor_files import Test

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
    kind = {"f": "F32", "d": "F64", "H": "BF16", "B": "U8"}[data.format]
    tensor_files.save(path, {name: (kind, data.shape, data.tobytes())}, metadata)


def read(path):
    """The tensors of a file: {name: (shape, bytes)}."""
    return {name: (tuple(shape), data)
            for name, (_, shape, data) in tensor_files.load(path)[0].items()}


def state(path):
    """The tensors of a file of weights as a dict, and its metadata."""
    found, metadata = tensor_files.load(path)
    formats, made = {"F32": "f", "U8": "B"}, {}
    for name, (kind, shape, data) in found.items():
        raw = array.array(formats[kind], data)
        made[name] = memoryview(raw).cast("B").cast(formats[kind], shape or [len(raw)])
    return made, metadata


def vaetool(*arguments):
    subprocess.run([TOOL, *arguments], check=True, stdout=subprocess.DEVNULL)


class Warned(Test):
    def said(self, work):
        """What the calls of the test itself warn of."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work()
        self.assertEqual({w.filename for w in caught} -
                         {sys.modules[type(self).__module__].__file__}, set())
        return [str(w.message) for w in caught]


def main():
    unittest.main(verbosity=1)
