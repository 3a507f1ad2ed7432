"""The latents or frames of a file that are decoded or encoded, and how their results are
written."""
import hashlib
import json
import os
import struct

from streams import (DECODE, ENCODE, I420, PACKED, RGB, RGB_F32, RGBA_F32, Error,
                     frame_bytes, gst_vae, warn)

# The ends of names of outputs: the pixels that workers give, and the video.
KINDS = {".safetensors": (RGB_F32, None), ".rgb": (RGB, None), ".mp4": (I420, ".mp4"),
         ".webm": (I420, ".webm")}


def end_of(path):
    return os.path.splitext(path)[1]


def range_of(info):
    return "{:g} {:g}".format(*info.pixel_range)


def safetensors_header(tensors, metadata):
    """tensors: [(name, type, dims, bytes)]. As vaetool writes it."""
    at, entries = 0, {"__metadata__": metadata}
    for name, kind, dims, size in tensors:
        entries[name] = {"dtype": kind, "shape": dims, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


class Decoding:
    """The latents of a file, and how their frames are written."""
    direction = DECODE

    def __init__(self, model, path, out, tensor=None, batch_index=None,
                 normalization=None, layout="auto", space=None, rate=None):
        self.model, self.path = model, path
        self.pixels, self.video = KINDS.get(end_of(out), (None, None))
        if self.pixels is None:
            raise Error(f"{out}: the name must end in {', '.join(KINDS)}")
        self.clip = gst_vae.Latents(path, tensor, batch_index, layout, normalization,
                                    rate, latent_space=space).of_model(model.info)
        warn(self.clip.clip.doubt)
        warn(self.clip.clip.lost(out))
        clip, info = self.clip.info, model.info
        if info.out_channels == 4 and self.pixels == RGB_F32:
            self.pixels = RGBA_F32
        if clip.sequences > 1:
            raise Error(f"{path}: has {clip.sequences} sequences, and segments are of "
                        "one; vaetool decode takes them")
        for said in self.clip.overrides(normalization, info.space):
            warn(said)
        if not info.has_decoder:
            raise Error(f"{model.info.path}: has no decoder")
        if info.look_ahead:
            raise Error(f"{model.info.path}: its decoder looks ahead, and segments are for "
                        "causal decoders")
        self.steps = self.clip.clip.latents.moved(1, 0, 2, 3)
        self.latents, channels, *grid = self.steps.shape
        if channels != info.latent_channels:
            raise Error(f"{path}: the latents have {channels} channels, the model "
                        f"{model.info.path} expects {info.latent_channels}")
        if clip.space and info.space and clip.space != info.space:
            raise Error(f"{path}: the latent space is {clip.space}, the "
                        f"model {model.info.path} expects {info.space}")
        self.width = clip.size[0] * info.scale or grid[1] * info.spatial
        self.height = clip.size[1] * info.scale or grid[0] * info.spatial
        expected = [-(-self.height // info.spatial), -(-self.width // info.spatial)]
        if grid != expected:
            raise Error(f"{path}: the latents have a grid of {grid[1]}x{grid[0]}"
                        f", expected {expected[1]}x{expected[0]} for pictures of "
                        f"{self.width}x{self.height} by the model {model.info.path}")
        if self.video == ".mp4":
            warn(gst_vae.pipeline.cut_of((self.width, self.height), out)[2])
        self.aspect = clip.pixel_aspect_ratio or (1, 1)
        self.frames = model.frames_of(self.latents)
        if clip.frames:
            self.frames = min(self.frames, clip.frames)
        self.normalization = normalization or clip.normalization
        self.rate = clip.framerate if clip.framerate[0] else info.framerate
        self.frame = frame_bytes(self.pixels, self.width, self.height)
        self.header = self.make_header() if end_of(out) == ".safetensors" else b""
        self.size = self.frames * self.frame

    def make_header(self):
        info, clip = self.model.info, self.clip.info
        metadata = {"vae.pixel_range": range_of(info)}
        if clip.framerate[0]:
            metadata["vae.framerate"] = "{}/{}".format(*clip.framerate)
        if clip.pixel_aspect_ratio:
            metadata["vae.pixel_aspect_ratio"] = "{}/{}".format(*self.aspect)
        dims = [self.frames, self.height, self.width, info.out_channels]
        return safetensors_header([("frames", "F32", dims, self.frames * self.frame)],
                                  metadata)

    def job(self):
        """The settings for a worker."""
        return {"direction": DECODE, "width": self.width, "height": self.height,
                "normalization": self.normalization, "pixels": self.pixels,
                "kind": self.steps.dtype, "video": self.video, "rate": self.rate,
                "aspect": self.aspect}

    def inputs(self, first, end):
        return self.steps.part(first, end).tobytes()

    def units(self, latents):
        """Frames of the latents before this one, as far as they are kept."""
        return min(self.frames, self.model.frames_of(latents))

    def places(self, first, end, data):
        """[(offset, bytes)] of the frames of these latents. Frames past the end of the
        clip are left out."""
        begin = self.units(first)
        return [(begin * self.frame,
                 memoryview(data)[:(self.units(end) - begin) * self.frame])]

    def identity(self):
        """A hash of all latents."""
        digest = hashlib.sha256()
        for k in range(self.latents):
            digest.update(self.steps[k].tobytes())
        return f"{self.latents} latents, {digest.hexdigest()[:16]}"


class Encoding:
    """The frames of a file, and how their latents are written."""
    direction = ENCODE
    video = None

    def __init__(self, model, frames, normalization="normalized", posterior="mean",
                 seed=0):
        self.model, self.frames_file, self.path = model, frames, frames.path
        self.settings = {"posterior": posterior, "seed": seed}
        info = model.info
        if not info.has_encoder:
            raise Error(f"{model.info.path}: has no encoder")
        self.frames, self.height, self.width = frames.shape
        if not self.frames:
            raise Error(f"{self.path}: has no frames")
        self.pixels = frames.pixels
        expected = range_of(info)
        floats = PACKED.get(self.pixels, ("",))[0] == "float32"
        if floats and (frames.range or expected) != expected:
            raise Error(f"{self.path}: the frames have the range {frames.range}, the "
                        f"model {model.info.path} expects {expected}")
        self.rate = frames.rate
        self.normalization = normalization
        self.latents = model.latents_of(self.frames)
        self.frame = frame_bytes(self.pixels, self.width, self.height)
        self.header, self.plane, self.outputs = self.make_header()
        self.size = self.outputs * self.latents * self.plane * info.latent_channels

    def make_header(self):
        info = self.model.info
        grid = [-(-self.height // info.spatial), -(-self.width // info.spatial)]
        plane = 4 * grid[0] * grid[1]
        names = ["latent", "mean", "logvar"][:3 if info.has_posterior else 1]
        dims = [info.latent_channels, self.latents, *grid]
        metadata = {"vae.normalization": self.normalization,
                    "vae.layout": "cthw", "vae.width": str(self.width),
                    "vae.height": str(self.height), "vae.frames": str(self.frames),
                    "vae.temporal_factor": str(info.temporal),
                    **self.frames_file.stated}
        if self.rate:
            metadata["vae.framerate"] = self.rate
        if info.space:
            metadata["vae.latent_space"] = info.space
        size = info.latent_channels * self.latents * plane
        return (safetensors_header([(n, "F32", dims, size) for n in names], metadata),
                plane, len(names))

    def job(self):
        return {"direction": ENCODE, "width": self.width, "height": self.height,
                "normalization": self.normalization, "pixels": self.pixels,
                "colour": self.frames_file.colour, **self.settings}

    def inputs(self, first, end):
        """The frames of these latents; after the last frame, copies of it."""
        first_in, _, step_in, _ = self.model.info.encode_steps

        def frame_of(k):
            if self.model.info.chunk:
                return self.model.frames_of(k)
            return first_in + (k - 1) * step_in if k else 0

        here = [min(i, self.frames - 1) for i in range(frame_of(first), frame_of(end))]
        data = self.frames_file.read(here[0], here[-1] + 1)
        return data + data[-self.frame:] * (len(here) - 1 - here[-1] + here[0])

    def units(self, latents):
        return min(self.frames, self.model.frames_of(latents))

    def places(self, first, end, data):
        """A latent's channels are `latents` planes apart in the file."""
        data, plane = memoryview(data), self.plane
        channels = self.model.info.latent_channels
        for k in range(end - first):
            for row in range(self.outputs * channels):
                here = (k * self.outputs * channels + row) * plane
                yield ((row * self.latents + first + k) * plane,
                       data[here:here + plane])

    def identity(self):
        digest = hashlib.sha256()
        for k in range(self.frames):
            digest.update(self.frames_file.read(k, k + 1))
        return f"{self.frames} frames, {digest.hexdigest()[:16]}"
