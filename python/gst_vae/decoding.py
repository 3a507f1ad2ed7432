"""Streams: what decoders and encoders share, and decoders."""
import warnings

from . import _engine
from .frameworks import device_of, dims, empty_on, fail, like, to_host, type_of, view
from .latents import own_normalization
from .reports import GstVaeWarning, Plan, Progress, callers_level, say

PLANES = ("nv12", "p010", "i420", "y444")
PACKED = ("uint8", "float32", "float16", "bfloat16")
CPU = "cpu"
# The settings of a stream, and what each does.
SETTINGS = {name: text for name, text in _engine.setting_texts().items()
            if name not in ("direction", "width", "height", "pixels")}


def check_settings(settings, size="", pixels=""):
    """Refuses what is no setting, but alpha of Decoder. size, pixels: what tells the size
    and the type of the frames instead."""
    advice = {"width": size, "height": size, "dtype": pixels, "pixels": pixels}
    for name in settings:
        if name not in SETTINGS and name != "alpha":
            raise TypeError(f"there is no setting {name!r}{advice.get(name, '')}")


def pixels_of(dtype, allowed, channels):
    """The pixel format for frames of a type, or of a format with planes, and the name of
    the type."""
    name = type_of(dtype)
    if name not in allowed:
        expected = ", ".join(allowed)
        raise fail(f"the type of frames is {name}, expected one of {expected}", name,
                   expected)
    if name in PLANES:
        return name, name
    return ("rgba" if channels == 4 else "rgb") + "_f32" * (name != "uint8"), name


def clips_of(latents, info, layout="auto"):
    """Latents [C, h, w], or [C, T, h, w] or [T, C, h, w], or a batch of these, as a list
    of Tensors [T, C, h, w]. Warns if their layout is a guess."""
    t = view(to_host(latents))
    is_tchw, doubt = _engine.read_axes(t, info.latent_channels, info.temporal == 1, layout)
    if doubt:
        warnings.warn(doubt, GstVaeWarning, stacklevel=callers_level())
    t = t.narrowed()
    if len(t.shape) == 3:
        return [t.grown()]
    clips = list(t) if len(t.shape) == 5 else [t]
    return clips if is_tchw else [clip.moved(1, 0, 2, 3) for clip in clips]


class Stream:
    """One direction at one size. It is a context manager."""

    def __init__(self, vae, direction, size, channels, dtype, allowed, settings):
        self.vae, self.model, self.channels = vae, vae.model, channels
        self.source = ""  # names the input in warnings about it
        self.width, self.height = width, height = size
        self.pixels, self.dtype = pixels_of(dtype, allowed, channels)
        self.stream = _engine.new_stream(vae.model, {
            "pixels": self.pixels, **settings, "direction": direction,
            "width": width, "height": height},
            (0 if isinstance(height, int) and height < 720 else 1, False, False, False))
        self.chosen = own_normalization(settings.get("normalization")) is not None
        self.stream.normalization(False, self.chosen)
        self.say()

    def say(self):
        say(self.stream, self.source)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        """Frees the stream. A second call does nothing."""
        self.stream.close()
        self.say()

    @property
    def plan(self):
        """The memory and the settings that were chosen."""
        return Plan(self.stream.plan)

    @property
    def stats(self):
        """Counts since the stream was opened."""
        return self.stream.stats

    def reset(self):
        """Begins the next sequence. What waits in the stream is lost."""
        self.stream.reset()
        self.say()

    def cancel(self):
        """Ends the call that runs in another thread, which then raises Cancelled. After
        that, and after an error of the computation, call reset()."""
        self.stream.cancel()

    def release(self):
        """Frees the memory of the device until the next call. On the host the memory
        stays; there, close the stream."""
        self.stream.release()
        self.say()

    def resume(self):
        """Allocates released memory now instead of in the next call."""
        self.stream.resume()
        self.say()

    def save(self, path, carries=True, frames=0):
        """Writes the position to a file. A stream with the same settings, also one of
        another process, goes on from there with the same bytes."""
        self.stream.save(path, carries, frames)

    def load(self, path):
        """Goes to a saved position. Returns the index of the unit that comes next."""
        return self.stream.load(path)[1]

    def slices(self, total):
        """The steps of each call: one, then whole slices. total: of all calls."""
        done, size = 0, self.stream.plan["slice_size"]
        while done < total:
            steps = 1 if done == 0 else min(size, total - done)
            yield steps
            done += steps


class Decoder(Stream):
    """Call it with latents: it returns their frames. finish() returns those that are
    left, and ends the sequence."""

    def __init__(self, vae, width, height, dtype="uint8", alpha=True, **settings):
        """alpha: false leaves out that of the network, with a warning."""
        super().__init__(vae, "decode", (width, height), vae.info.out_channels
                         if alpha else 3, dtype, PACKED, settings)
        self.input = None

    def room(self, data, shape, out):
        """The memory for frames, which is returned in the end, and a Tensor of it. A GPU
        that has the latents and computes also gets the frames."""
        memory = "uint8" if self.dtype == "uint8" else "float32"
        shape = (*shape, self.height, self.width, self.channels)
        if out is None:
            if device_of(data) == CPU or self.stream.plan["backend"] != "cuda":
                made = _engine.empty(shape, memory)
                return made, made
            out = empty_on(data, shape, memory)
        t = view(out, True)
        if t.shape != shape or t.dtype != memory:
            found = f"{t.dtype} {dims(t)}"
            expected = f"{memory} " + "x".join(map(str, shape))
            raise fail(f"out is {found}, expected {expected}", found, expected)
        return out, t

    def run(self, clip, frames, reports=None, before=0):
        """Decodes a Tensor [T, C, h, w] to frames; returns their number."""
        at = done = 0
        for steps in self.slices(clip.shape[0]):
            n = self.stream.count(steps)[1]
            self.stream.decode(clip.part(at, at + steps).packed(3),
                               frames.part(done, done + n))
            at, done = at + steps, done + n
            if reports:
                reports.at(before + at)
        self.say()
        return done

    def drain(self, frames):
        """The frames that are left."""
        steps = self.stream.drain_count(0)[0]
        if steps:
            self.stream.drain(steps, frames)
        self.reset()

    def __call__(self, latents, out=None, layout="auto"):
        """Frames [n, height, width, 3] of latents [C, h, w] or [C, T, h, w], or of images
        [T, C, h, w]. layout: as for VAE.decode()."""
        clips = clips_of(latents, self.vae.info, layout)
        if len(clips) != 1:
            raise fail(f"the latents are a batch of {len(clips)} clips, expected 1",
                       str(len(clips)), "1")
        clip = clips[0]
        n = self.stream.count(clip.shape[0])[1]
        made, frames = self.room(latents, (n,), out)
        self.input = latents
        self.run(clip, frames)
        return made if out is not None else like(latents, made, self.dtype)

    def finish(self, out=None):
        """The frames that are left if the network also reads later latents; otherwise
        none. The next latent begins a new sequence."""
        steps = self.stream.drain_count(0)[0]
        n = self.stream.drain_count(steps)[1] if steps else 0
        made, frames = self.room(self.input, (n,), out)
        self.drain(frames)
        return made if out is not None else like(self.input, made, self.dtype)

    def whole(self, clips, latents, out, progress, source="", stated=False, chosen=None):
        """Frames [B, n, height, width, 3] of clips [B, T, C, h, w]. source: the name of
        their file. stated: it states the normalization; chosen: the user did."""
        self.stream.normalization(stated, self.chosen if chosen is None else chosen)
        steps, total = len(clips[0]), len(clips) * len(clips[0])
        made, frames = self.room(latents, (len(clips), self.model.frames_of(steps)), out)
        with Progress(progress, total, "latent") as reports:
            for i, clip in enumerate(clips):
                self.source = source or (f"clip {i} of the batch" if len(clips) > 1
                                         else "")
                done = self.run(clip, frames[i], reports, i * steps)
                self.drain(frames[i].part(done, len(frames[i])))
        self.source = ""
        return made
