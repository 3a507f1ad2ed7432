"""Streams of the package gst_vae on packed bytes, as the scripts of this folder need
them."""
import os
import re
import sys

try:
    import gst_vae
    from gst_vae import Error, _engine
except ImportError as missing:
    class Error(Exception):
        """As gst_vae.Error."""

    class Missing:
        """Without the package, only --help works; its first use says what to install."""
        words = (f"gst_vae is missing ({missing}): install the Python package of gst-vae, or "
                 "add its folder to PYTHONPATH")

        def __getattr__(self, name):
            raise Error(self.words)
    gst_vae = _engine = Missing()

BACKENDS = ["auto", "cuda", "cpu", "ref"]
PRECISIONS = ["auto", "fp32", "tf32", "fp16", "bf16"]
LAYOUTS = ["auto", "cthw", "tchw", "bcthw", "btchw"]
NORMALIZATIONS = ["normalized", "raw", "comfyui"]
DECODE, ENCODE = "decode", "encode"
RGB, RGBA, I420 = "rgb", "rgba", "i420"
RGB_F32, RGBA_F32 = "rgb_f32", "rgba_f32"
# Of packed pixels: the type and the channels.
PACKED = {RGB: ("uint8", 3), RGBA: ("uint8", 4), RGB_F32: ("float32", 3),
          RGBA_F32: ("float32", 4)}


def spelled(text):
    """The package's sentence with options instead of keyword arguments."""
    text = re.sub(r"\b(batch_index|framerate|latent_space|layout|normalization|tensor|"
                  r'variant)=("[^"]*"(?: or "[^"]*")?)?',
                  lambda found: f"--{found[1]} {found[2] or ''}".replace('"', "").rstrip(),
                  text)
    return (text.replace("slice_size", "--slice").replace("memory_limit", "--memory-limit")
            .replace("latent_space", "latent-space").replace("batch_index", "batch-index"))


def sentence(error):
    """The sentence of an error; with the file for an error of the system."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return spelled(str(error))


def counted(n, word):
    return f"{n} {word}{'' if n == 1 else 's'}"


def frame_bytes(pixels, width, height):
    if pixels == I420:
        return width * height + 2 * ((width + 1) // 2) * ((height + 1) // 2)
    kind, channels = PACKED[pixels]
    return width * height * channels * (1 if kind == "uint8" else 4)


def pictures(data, n, pixels, width, height):
    """n packed frames as Tensors, or as tuples of planes."""
    if pixels != I420:
        kind, channels = PACKED[pixels]
        return list(_engine.typed(data, kind, (n, height, width, channels)))
    half, rows, at = (width + 1) // 2, (height + 1) // 2, 0
    frames, data = [], memoryview(data)
    for _ in range(n):
        planes = []
        for shape in ((height, width), (rows, half), (rows, half)):
            end = at + shape[0] * shape[1]
            planes.append(_engine.typed(data[at:end], "uint8", shape))
            at = end
        frames.append(tuple(planes))
    return frames


told = set()


def warn(text):
    """Prints each warning once. text: may be "" or None."""
    text = spelled(text or "")
    if text and text not in told:
        told.add(text)
        print(f"warning: {text}", file=sys.stderr)


def tell(stream):
    """Prints the warnings of the engine."""
    for kind, text in stream.lines():
        if kind != "log":
            warn(_engine.spell(text))


class Stream:
    """One direction at one size. settings: those of gst_vae. colour: of I420."""

    def __init__(self, vae, width, height, direction=DECODE, pixels=RGB_F32, colour=None,
                 **settings):
        self.vae, self.direction, self.pixels = vae, direction, pixels
        self.size, self.frames = (width, height), b""
        colour = colour or {"matrix": 0 if height < 720 else 1}
        self.stream = _engine.new_stream(vae.model, {
            **settings, "restarts": True, "direction": direction, "width": width,
            "height": height, "pixels": pixels}, (colour["matrix"], *(
                colour.get(name, False)
                for name in ("full_range", "site_center", "site_top"))))
        self.plan = self.stream.plan
        self.latent = (vae.info.latent_channels, *(
            self.plan["padded_" + name] // vae.info.spatial
            for name in ("height", "width")))

    def start(self, unit, warm_up=0):
        """The next step is that of latent `unit`, without context. warm_up: the steps
        whose results are not wanted."""
        self.stream.reset()
        self.stream.restart(unit, warm_up)

    def history_cost(self):
        """The latents that take as long as those that the network looks back to."""
        return self.stream.warm_up_cost(self.vae.model.history(self.direction))

    def decode(self, kind, latents, n, wanted):
        """n packed latents to packed frames, which stay until the next call, or to None
        if they are not wanted."""
        taken, given = self.stream.count(n)
        if taken != n:
            raise Error(f"{n} latents are no whole steps")
        size = given * frame_bytes(self.pixels, *self.size)
        if wanted and len(self.frames) < size:
            self.frames = bytearray(size)
        frames = memoryview(self.frames)[:size]
        self.stream.decode(
            _engine.typed(latents, kind, (n, *self.latent)),
            pictures(frames, given, self.pixels, *self.size) if wanted else [None] * given)
        tell(self.stream)
        return frames if wanted else None

    def encode(self, frames, n):
        """Packed frames of n steps to [n][outputs][C, h, w] of float32: the latent and,
        of networks with a posterior, mean and logvar."""
        taken, given = self.stream.count(n)
        outputs = 3 if self.vae.info.has_posterior else 1
        channels, height, width = self.latent
        made = _engine.empty((given, outputs, channels, height, width), "float32")
        rooms = list(made.moved(1, 0, 2, 3, 4))
        self.stream.encode(pictures(frames, taken, self.pixels, *self.size),
                           *(rooms + [None, None])[:3])
        tell(self.stream)
        return made.tobytes()

    def save(self, path):
        self.stream.save(path, True, 0)

    def load(self, path):
        """Returns the index of the latent that comes next."""
        return self.stream.load(path)[0]
