"""Shared by the tests in Python: .safetensors files, and tests with a folder."""
import json
import os
import struct
import tempfile
import unittest


def pack(header, data=b""):
    """The bytes of a file. header: its JSON as bytes, or the dict."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def save(path, tensors, metadata=None):
    """Writes tensors, by name (type, shape, bytes). Returns the path."""
    header, at = {"__metadata__": metadata or {}}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape),
                        "data_offsets": [at, at + len(data)]}
        at += len(data)
    with open(path, "wb") as file:
        file.write(pack(header, b"".join(data for _, _, data in tensors.values())))
    return path


def load(path):
    """Returns the tensors, by name (type, shape, bytes), and the metadata of a file."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        entries, data = json.loads(file.read(length)), file.read()
    metadata = entries.pop("__metadata__", {})
    return {name: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])])
            for name, e in entries.items()}, metadata


class Test(unittest.TestCase):
    """Has a folder of its own, which it removes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)
