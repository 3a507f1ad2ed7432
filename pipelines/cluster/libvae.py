"""libvae by ctypes: models, clips of latents and streams, as the scripts of this
folder need them."""
import ctypes
import os
from ctypes import (POINTER, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_int64, c_size_t, c_uint64, c_void_p)

BACKENDS = ["auto", "cuda", "cpu", "ref"]
PRECISIONS = ["auto", "fp32", "tf32", "fp16", "bf16"]
LAYOUTS = ["auto", "cthw", "tchw"]
NORMALIZATIONS = ["normalized", "raw", "comfyui"]
TYPES = ["F32", "F16", "BF16", "U8"]
DECODE, ENCODE = 0, 1
RGB_F32, RGB, I420 = 0, 1, 4  # VaePixels


class Error(RuntimeError):
    """One sentence that names what was found."""


def sentence(error):
    """The sentence of an error; with the file for an error of the system."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


class Sized(ctypes.Structure):
    """A struct that begins with struct_size."""

    def __init__(self, **members):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **members)


class VaeError(ctypes.Structure):
    _fields_ = [("status", c_int), ("message", c_char * 1024),
                ("tensor", c_char * 256), ("found", c_char * 256),
                ("expected", c_char * 256)]


class Steps(ctypes.Structure):
    _fields_ = [(name, c_int) for name in
                ("first_in", "first_out", "step_in", "step_out")]


class ModelInfo(ctypes.Structure):
    _fields_ = [
        ("arch", c_char_p), ("space", c_char_p), ("names", c_char_p),
        ("reason", c_char_p), ("path", c_char_p),
        ("latent_channels", c_int), ("spatial", c_int), ("temporal", c_int),
        ("has_decoder", c_bool), ("has_encoder", c_bool), ("has_posterior", c_bool),
        ("decode", Steps), ("encode", Steps),
        ("mean", POINTER(c_float)), ("std", POINTER(c_float)),
        ("takes_normalized", c_bool), ("pixel_low", c_float), ("pixel_high", c_float),
        ("fps_n", c_int), ("fps_d", c_int), ("weights_type", c_int),
        ("tensor_count", c_size_t), ("weights_bytes", c_uint64),
        ("decoder_tensors", c_size_t), ("encoder_tensors", c_size_t),
        ("decoder_bytes", c_uint64), ("encoder_bytes", c_uint64),
        ("look_ahead", c_int), ("delay", c_int), ("chunk", c_int),
        ("scale", c_int)]


class ModelOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("variant", c_char_p)]


class LatentOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("tensor", c_char_p), ("layout", c_int),
                ("batch_index", c_int)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("supported", c_bool),
                ("type_name", c_char_p), ("n_dims", c_int), ("dims", c_int64 * 8),
                ("offset", c_uint64), ("bytes", c_uint64), ("data", c_void_p)]


class LatentClip(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("type", c_int), ("t", c_int), ("channels", c_int),
        ("height", c_int), ("width", c_int), ("batch", c_int64), ("offset", c_uint64),
        ("t_stride", c_uint64), ("c_stride", c_uint64), ("data", c_void_p),
        ("tensor", c_char_p), ("space", c_char_p), ("normalization", c_int),
        ("normalization_stated", c_bool), ("fps_n", c_int), ("fps_d", c_int),
        ("width_px", c_int), ("height_px", c_int), ("frames", c_int64),
        ("file", c_char_p), ("stored", c_int)]


class Params(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("direction", c_int), ("backend", c_int),
        ("precision", c_int), ("width", c_int), ("height", c_int),
        ("slice_size", c_int), ("frames_at_once", c_int), ("threads", c_int),
        ("device", c_int), ("deterministic", c_bool), ("restarts", c_bool),
        ("normalization", c_int), ("posterior", c_int), ("spill", c_int),
        ("seed", c_uint64), ("nan_policy", c_int), ("pixels", c_int),
        ("memory_limit", c_size_t), ("dump", c_void_p), ("dump_user", c_void_p),
        ("log", c_void_p), ("warn", c_void_p), ("log_user", c_void_p),
        ("memory_share", c_double)]


class Plan(Sized):
    _fields_ = [("struct_size", c_size_t)] + [(name, c_uint64) for name in (
        "weights", "carries", "spilled", "arena", "scratch", "staging", "fallback",
        "library", "total", "loading", "peak")] + [
        ("flop_first", c_double), ("flop_step", c_double), ("slice_size", c_int),
        ("frames_at_once", c_int), ("backend", c_int), ("precision", c_int),
        ("threads", c_int), ("padded_width", c_int), ("padded_height", c_int),
        ("delay", c_int), ("copied_step", c_uint64), ("bus_step", c_uint64),
        ("strips", c_int), ("tiles", c_int), ("tile_width", c_int),
        ("tile_height", c_int), ("tile_overlap", c_int), ("tiled", c_uint64),
        ("device", c_char_p)]


class LatentIn(ctypes.Structure):
    _fields_ = [("type", c_int), ("data", c_void_p)]


class LatentOut(ctypes.Structure):
    _fields_ = [("type", c_int), ("data", c_void_p), ("mean", c_void_p),
                ("logvar", c_void_p)]


class Picture(ctypes.Structure):
    _fields_ = [
        ("pixels", c_int), ("width", c_int), ("height", c_int), ("matrix", c_int),
        ("full_range", c_bool), ("limited_rgb", c_bool), ("site_center", c_bool),
        ("site_top", c_bool), ("on_device", c_bool), ("data", c_void_p * 3),
        ("stride", ctypes.c_ssize_t * 3), ("ready", c_void_p)]


class CheckpointParams(Sized):
    _fields_ = [("struct_size", c_size_t), ("path", c_char_p), ("carries", c_bool),
                ("frames", c_uint64), ("own", c_void_p), ("n_own", c_size_t)]


class Checkpoint(Sized):
    _fields_ = [("struct_size", c_size_t), ("latents", c_uint64), ("begin", c_uint64),
                ("frames", c_uint64), ("carries", c_bool)]


def candidates():
    """The places to look for libvae: VAE_LIBRARY, a build or prefix with the plugin,
    those of the loader."""
    if os.environ.get("VAE_LIBRARY"):
        return [os.environ["VAE_LIBRARY"]]
    found = []
    for name in ("GST_PLUGIN_PATH_1_0", "GST_PLUGIN_PATH"):
        for folder in filter(None, os.environ.get(name, "").split(":")):
            found += [os.path.join(folder, "..", "engine", "libvae.so.0"),
                      os.path.join(folder, "..", "libvae.so.0")]
    return [path for path in found if os.path.exists(path)] + [
        "libvae.so.0", "/usr/local/lib/libvae.so.0"]


def declare(lib):
    """The types of the functions; all others return a VaeStatus."""
    lib.vae_version.restype = c_char_p
    lib.vae_model_info.restype = POINTER(ModelInfo)
    lib.vae_stream_get_plan.restype = POINTER(Plan)
    for name in ("vae_model_frames_of", "vae_model_latents_of"):
        getattr(lib, name).restype = c_int64
        getattr(lib, name).argtypes = [c_void_p, c_int64]
    for name in ("vae_model_info", "vae_stream_get_plan", "vae_stream_reset"):
        getattr(lib, name).argtypes = [c_void_p]
    lib.vae_stream_restart.argtypes = [c_void_p, c_uint64, c_void_p]
    lib.vae_stream_warm_up.argtypes = [c_void_p, c_int]
    lib.vae_stream_warm_up_cost.argtypes = [c_void_p, c_int]
    lib.vae_stream_count.argtypes = [c_void_p, c_int, POINTER(c_int), POINTER(c_int)]
    lib.vae_latent_clip_read.argtypes = [c_void_p, c_int, c_void_p]
    lib.vae_model_is_from.restype = c_bool
    lib.vae_model_is_from.argtypes = [c_void_p, c_char_p]
    return lib


def load():
    if load.library is None:
        said = None
        for path in candidates():
            try:
                load.library = declare(ctypes.CDLL(path))
                return load.library
            except OSError as error:
                said = said or error
        raise Error(f"libvae is missing ({said}): install gst-vae, or set VAE_LIBRARY "
                    "to the path of libvae.so.0")
    return load.library


load.library = None


def call(name, *arguments):
    """Calls a function whose last argument is a VaeError."""
    error = VaeError()
    if getattr(load(), name)(*arguments, byref(error)) != 0:
        raise Error(error.message.decode(errors="replace"))


class Model:
    def __init__(self, path, variant=None):
        self.handle = c_void_p()
        options = ModelOptions(variant=variant.encode() if variant else None)
        call("vae_model_open", os.fsencode(path), byref(options), byref(self.handle))
        self.path = path
        self.info = load().vae_model_info(self.handle).contents

    def __del__(self):
        if self.handle:
            load().vae_model_free(byref(self.handle))

    def fingerprint(self):
        text = ctypes.create_string_buffer(65)
        call("vae_model_fingerprint", self.handle, text)
        return text.value.decode()

    def is_from(self, path):
        """True if the path leads to a file of the model."""
        return load().vae_model_is_from(self.handle, os.fsencode(path))

    def history(self, direction):
        steps = c_int()
        call("vae_model_history", self.handle, direction, byref(steps))
        return steps.value

    def frames_of(self, latents):
        return load().vae_model_frames_of(self.handle, latents) if latents else 0

    def latents_of(self, frames):
        return load().vae_model_latents_of(self.handle, frames)


class Clip:
    """The latents of a file."""

    def __init__(self, path, tensor=None, batch_index=-1, layout=0):
        """layout: its place in LAYOUTS."""
        self.path = path
        self.file = c_void_p()
        self.info = LatentClip()
        options = LatentOptions(tensor=tensor.encode() if tensor else None,
                                layout=layout, batch_index=batch_index)
        call("vae_tensor_file_open", os.fsencode(path), byref(self.file))
        call("vae_latent_clip_find", self.file, byref(options), byref(self.info))
        table = POINTER(TensorInfo)()
        call("vae_latent_sequences_find", self.file, byref(self.info), byref(table))
        if table and table.contents.dims[0] > 1:
            raise Error(f"{path}: has {table.contents.dims[0]} sequences, and segments "
                        "are of one; vaetool decode takes them")
        self.size = (self.info.channels * self.info.height * self.info.width *
                     (4, 2, 2, 1)[self.info.type])

    def __del__(self):
        if self.file:
            load().vae_tensor_file_free(byref(self.file))

    def read(self, first, end):
        """Latents first to end - 1, packed one after another."""
        data = ctypes.create_string_buffer(self.size * (end - first))
        at = ctypes.addressof(data)
        for k in range(first, end):
            load().vae_latent_clip_read(byref(self.info), k,
                                        at + (k - first) * self.size)
        return data.raw


def frame_bytes(pixels, width, height):
    if pixels == I420:
        return width * height + 2 * ((width + 1) // 2) * ((height + 1) // 2)
    return width * height * (12 if pixels == RGB_F32 else 3)


def picture(pixels, width, height, address, colour=None):
    """A packed picture; address 0: it is computed and not written."""
    made = Picture(pixels=pixels, width=width, height=height,
                   **{"matrix": 0 if height < 720 else 1, **(colour or {})})
    half, rows = (width + 1) // 2, (height + 1) // 2
    if pixels == I420:
        made.data[:] = [address, address + width * height,
                        address + width * height + half * rows]
        made.stride[:] = [width, half, half]
    else:
        made.data[0] = address
        made.stride[0] = width * (12 if pixels == RGB_F32 else 3)
    if not address:
        made.data[:] = [None, None, None]
    return made


class Stream:
    """One direction at one size. settings: members of VaeStreamParams."""

    def __init__(self, model, **settings):
        self.model = model
        self.params = Params(restarts=True, **settings)
        self.handle, self.frames = c_void_p(), b""
        call("vae_stream_new", model.handle, byref(self.params), byref(self.handle))
        self.plan = load().vae_stream_get_plan(self.handle).contents
        self.device = self.plan.device.decode()

    def __del__(self):
        if self.handle:
            load().vae_stream_free(byref(self.handle))

    def start(self, unit, warm_up=0):
        """The next step is that of latent `unit`, without context. warm_up: the steps
        whose results are not wanted."""
        load().vae_stream_reset(self.handle)
        if unit:
            call("vae_stream_restart", self.handle, unit)
        load().vae_stream_warm_up(self.handle, warm_up)

    def history_cost(self):
        """The latents that take as long as those that the network looks back to."""
        return load().vae_stream_warm_up_cost(
            self.handle, self.model.history(self.params.direction))

    def count(self, steps):
        taken, given = c_int(), c_int()
        load().vae_stream_count(self.handle, steps, byref(taken), byref(given))
        return taken.value, given.value

    def decode(self, latents, n, pixels, wanted):
        """n packed latents to packed frames, which stay until the next call, or to None
        if they are not wanted."""
        kind, size = latents
        width, height = self.params.width, self.params.height
        taken, given = self.count(n)
        if taken != n:
            raise Error(f"{n} latents are no whole steps")
        length = len(size) // n
        at = ctypes.cast(ctypes.c_char_p(size), c_void_p).value
        inputs = (LatentIn * n)(*[LatentIn(kind, at + k * length) for k in range(n)])
        frame = frame_bytes(pixels, width, height)
        if wanted and len(self.frames) < frame * given:
            self.frames = ctypes.create_string_buffer(frame * given)
        base = ctypes.addressof(self.frames) if wanted else 0
        frames = (Picture * given)(*[
            picture(pixels, width, height, base + i * frame if wanted else 0)
            for i in range(given)])
        call("vae_stream_decode", self.handle, inputs, n, frames, given)
        return memoryview(self.frames).cast("B")[:frame * given] if wanted else None

    def encode(self, frames, n, pixels, colour=None):
        """Packed frames of n steps to [n][outputs][C, h, w] of F32: the latent and,
        of networks with a posterior, mean and logvar."""
        info, plan = self.model.info, self.plan
        taken, given = self.count(n)
        size = frame_bytes(pixels, self.params.width, self.params.height)
        if taken * size != len(frames):
            raise Error(f"{len(frames)} bytes are not {taken} frames of {size} bytes")
        at = ctypes.cast(ctypes.c_char_p(frames), c_void_p).value
        inputs = (Picture * taken)(*[
            picture(pixels, self.params.width, self.params.height, at + i * size, colour)
            for i in range(taken)])
        outputs = 3 if info.has_posterior else 1
        plane = plan.padded_height // info.spatial * (plan.padded_width // info.spatial)
        latent = 4 * plane * info.latent_channels
        out = ctypes.create_string_buffer(given * outputs * latent)
        base = ctypes.addressof(out)
        results = (LatentOut * given)()
        for i in range(given):
            here = base + i * outputs * latent
            results[i] = LatentOut(0, here, *([here + latent, here + 2 * latent]
                                              if outputs == 3 else [None, None]))
        call("vae_stream_encode", self.handle, inputs, taken, results, given)
        return out.raw

    def save(self, path):
        call("vae_stream_save", self.handle, byref(CheckpointParams(
            path=os.fsencode(path), carries=True)))

    def load(self, path):
        """Returns the index of the latent that comes next."""
        found = Checkpoint()
        call("vae_stream_load", self.handle, byref(CheckpointParams(
            path=os.fsencode(path))), byref(found))
        return found.begin


def version():
    return load().vae_version().decode()
