"""Shared by the tests that read files as people have them: vaetool, vaesend, a script and
the elements, each with a file."""
import array
import json
import math
import os
import random
import struct
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import streams
import tensor_files
from streams import VAESEND, floats
from tensor_files import pack, save

GOLDEN = os.path.join(streams.SOURCE, "tests", "golden", "data")
VAETOOL = os.path.join(streams.BUILD, "engine", "vaetool")
DEMO = os.path.join(streams.PIPELINES, "demo", "demo.safetensors")
COMFYUI_MARK = {"latent_format_version_0": ("F32", [0], b"")}


def golden(network, name="weights"):
    return os.path.join(GOLDEN, network, name + ".safetensors")


def load(path, name):
    """The shape and the numbers of a tensor of floats."""
    kind, shape, data = tensor_files.load(path)[0][name]
    if kind == "F16":
        return shape, array.array("f", struct.unpack(f"<{len(data) // 2}e", data))
    return shape, array.array("f", data)


def safetensors(metadata=None, data=floats(96), **entry):
    """The bytes of a file of latents. entry: fields of the tensor's entry."""
    whole = {"dtype": "F32", "shape": [16, 1, 2, 3], "data_offsets": [0, len(data)], **entry}
    return pack({"__metadata__": metadata or {}, "latents": whole}, data)


def noise(seed, shape, spread=0.8):
    """Numbers with the spread that latents of a diffusion model have."""
    numbers = random.Random(seed)
    return [numbers.gauss(0, spread) for _ in range(math.prod(shape))]


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False)


def send(*arguments):
    """The bytes that the program writes, and what it says."""
    done = subprocess.run([sys.executable, VAESEND, *arguments], capture_output=True,
                          check=True)
    return done.stdout, done.stderr.decode()


def statistics(network):
    """The mean and the deviation of each channel of the latents."""
    model = json.loads(run(VAETOOL, "info", "--json", golden(network)).stdout)["model"]
    return model["mean"], model["std"]


class Reading(tensor_files.Test):
    play, read = staticmethod(streams.Streams.play), staticmethod(streams.Streams.read)

    def file(self, data, name="clip.safetensors"):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def clip(self, shape, numbers=None, metadata=None, name="latent", **more):
        """A file of latents; numbers None: zeros. more: other tensors of the file."""
        numbers = numbers or bytes(4 * math.prod(shape))
        return save(self.path("clip.safetensors"), {
            name: ("F32", shape, array.array("f", numbers).tobytes()), **more}, metadata)

    def good(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def tool(self, *arguments):
        return run(VAETOOL, *arguments)

    def decode(self, network, latents, *options):
        """The frames of latents, and what vaetool says."""
        out = self.path("frames.safetensors")
        done = self.good(self.tool("decode", "--backend", "ref", "--model", golden(network),
                                   *options, latents, out))
        return load(out, "frames")[1], done.stderr

    def encode(self, network, frames, *options):
        """Writes latents.safetensors. Returns what vaetool says."""
        return self.good(self.tool("encode", "--backend", "ref", "--model", golden(network),
                                   *options, frames,
                                   self.path("latents.safetensors"))).stderr

    def script(self, *options):
        return run(os.path.join(streams.PIPELINES, "latents-to-video.sh"), *options,
                   self.path("video.y4m"))

    def refused(self, *arguments):
        """Returns the error of vaesend, which must be one line."""
        done = run(sys.executable, VAESEND, *arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"\Avaesend: .*\n\Z")
        return done.stderr
