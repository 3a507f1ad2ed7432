"""Encoders: frames to latents."""
from . import _engine
from .decoding import CPU, PACKED, PLANES, Stream
from .frameworks import device_of, dims, fail, like, ready, to_float, to_host, type_of, view
from .reports import Progress

TAILS = ("repeat", "drop")


def advice_of(shape):
    """What to do with frames whose axes are others, as vaetool says it."""
    if len(shape) == 5 and shape[4] in (3, 4):
        return ("; it has a batch of 1 in front: leave this out" if shape[0] == 1 else
                "; it has a batch in front: encode its clips one after another")
    if len(shape) >= 4 and 3 in shape[:-1]:
        return ("; if the dimension of 3 has the colours, make it the last one, by "
                f"moveaxis(x, {shape.index(3)}, -1) of numpy or torch")
    return ""


def check_frames(t, channels):
    """channels: of the network, which with 4 also takes frames without alpha."""
    if t.dtype not in ("uint8", "float16", "bfloat16", "float32", "float64"):
        types = "uint8, float32, float16, bfloat16 or float64"
        raise fail(f"the frames are {t.dtype}, expected {types}: convert values of 0 to 255 "
                   'by x.to(torch.uint8) of torch or x.astype("uint8") of numpy, others to '
                   "floats of info.pixel_range", t.dtype, types)
    expected = "[T, H, W, 3]" + (" or [T, H, W, 4]" if channels == 4 else "")
    hint = advice_of(t.shape)
    if channels == 3 and len(t.shape) == 4 and t.shape[3] == 4:
        hint = "; the network reads no alpha: leave it out, by x[..., :3]"
    if len(t.shape) != 4 or 0 in t.shape[1:] or not 3 <= t.shape[3] <= channels:
        raise fail(f"the frames are {dims(t)}, expected {expected}{hint}", dims(t),
                   expected)


def packed_of(frames, on_device, channels):
    """Frames [H, W, C] or [T, H, W, C] as a Tensor [T, H, W, C]."""
    data = ready(frames) if on_device else to_host(frames)
    t = view(data)
    if t.dtype in ("float16", "bfloat16", "float64"):
        t = view(to_float(data))
    if len(t.shape) == 3:
        t = t.grown()
    check_frames(t, channels)
    # The engine reads rows one after another, at any distance.
    t = t.packed(2)
    return t.copied() if t.strides[1] < 0 else t


def copied(picture):
    return (tuple(p.copied() for p in picture) if isinstance(picture, tuple)
            else picture.copied())


class Encoder(Stream):
    """Call it with frames: it returns the latents that are complete. finish() returns
    the last ones, and ends the sequence."""

    def __init__(self, vae, width, height, dtype="uint8", latents="float32",
                 moments=False, tail="repeat", **settings):
        if tail not in TAILS:
            raise fail(f"tail is {tail}, expected {' or '.join(TAILS)}", str(tail),
                       " or ".join(TAILS))
        super().__init__(vae, "encode", (width, height), vae.info.in_channels, dtype,
                         PACKED + PLANES, settings)
        self.type, self.moments, self.drops = type_of(latents), moments, tail == "drop"
        self.begin()

    def begin(self):
        self.held = []  # frames of a step that is not complete
        self.last = self.input = None
        self.frames = self.steps = self.given = 0

    def reset(self):
        super().reset()
        self.begin()

    def room(self, n):
        """Memory for n latents, and for their moments."""
        info, plan = self.vae.info, self.stream.plan
        shape = (n, info.latent_channels, plan["padded_height"] // info.spatial,
                 plan["padded_width"] // info.spatial)
        types = [self.type] + 2 * ["float32"] * self.moments
        return [_engine.empty(shape, kind) for kind in types]

    def steps_of(self, frames):
        """The number of steps that so many frames complete."""
        steps = 0
        while self.stream.count(steps + 1)[0] <= frames:
            steps += 1
        return steps

    def run(self, pictures, total, end=False, reports=None):
        """Encodes the pictures of that many steps. end: also returns the latents that an
        encoder with a delay gives later."""
        room = self.room(self.steps + total - self.given if end
                         else self.stream.count(total)[1])
        at = done = 0
        for steps in self.slices(total):
            n, m = self.stream.count(steps)
            parts = [t.part(done, done + m) for t in room]
            self.stream.encode(pictures[at:at + n], *(parts + [None, None])[:3])
            at, done = at + n, done + m
            if reports:
                reports.at(at)
        left = self.stream.drain_count(0)[0] if end else 0
        if left:
            parts = [t.part(done, len(t)) for t in room]
            self.stream.drain_latents(left, *(parts + [None, None])[:3])
        self.steps += total
        self.given += done
        self.say()
        return room

    def result(self, room, data):
        """[n, C, h, w] as [C, n, h, w], in the framework of data."""
        made = tuple(like(data, t.moved(1, 0, 2, 3).packed()) for t in room)
        return made if self.moments else made[0]

    def pictures_of(self, frames):
        """Each frame as one Tensor, or as a tuple of planes."""
        if self.dtype not in PACKED:
            planes = [view(to_host(plane)) for plane in frames]
            # One frame has planes of 2 dimensions, those of UV have 3.
            if len(planes[0].shape) == 2:
                planes = [plane.grown() for plane in planes]
            return list(zip(*planes))
        on_device = (device_of(frames) != CPU and
                     self.stream.plan["backend"] == "cuda")
        t = packed_of(frames, on_device, self.channels)
        if t.dtype != ("uint8" if self.dtype == "uint8" else "float32"):
            raise fail(f"the frames are {t.dtype}, and the encoder takes {self.dtype}",
                       t.dtype, self.dtype)
        if t.shape[1:3] != (self.height, self.width):
            found, expected = (f"{t.shape[2]}x{t.shape[1]}",
                               f"{self.width}x{self.height}")
            raise fail(f"the frames have {found} pixels, expected {expected}", found,
                       expected)
        return list(t)

    def __call__(self, frames):
        """Latents [C, n, h, w] of frames [H, W, 3] or [T, H, W, 3]; with 4 for 3 also
        those with alpha, if the network reads it; with planes, of a tuple such as ([T, H, W], [T, H/2, W/2, 2]) for NV12."""
        new = self.pictures_of(frames)
        pictures = self.held + new
        total = self.steps_of(len(pictures))
        taken = self.stream.count(total)[0]
        room = self.run(pictures[:taken], total)
        self.input = frames[0] if isinstance(frames, tuple) else frames
        self.frames += len(new)
        # The caller may reuse its memory, so what waits is copied.
        self.held = [copied(p) for p in pictures[taken:]]
        if pictures:
            self.last = self.held[-1] if self.held else copied(pictures[-1])
        return self.result(room, self.input)

    def tail(self, pictures, last):
        """The pictures of the last steps: the last frame is repeated until the latents
        decode to at least as many frames as the sequence has, or those that fill no step
        are dropped. Also their steps."""
        if self.drops:
            total = self.steps_of(len(pictures))
            return pictures[:self.stream.count(total)[0]], total
        total = self.model.latents_of(self.frames) - self.steps
        n = self.stream.count(total)[0]
        return pictures + [last] * (n - len(pictures)), total

    def finish(self):
        """The last latents. The next frame begins a new sequence."""
        pictures, total = self.tail(self.held, self.last)
        made = self.result(self.run(pictures, total, True), self.input)
        self.reset()
        return made

    def whole(self, frames, progress):
        """Latents of all frames of a sequence."""
        pictures = self.pictures_of(frames)
        self.frames = len(pictures)
        pictures, total = self.tail(pictures, pictures[-1] if pictures else None)
        if not total:
            raise fail(f"there are {self.frames} frames, less than a group, and tail=\"drop\" "
                       "keeps only whole groups", str(self.frames))
        with Progress(progress, len(pictures), "frame") as reports:
            room = self.run(pictures, total, True, reports)
        self.reset()
        return self.result(room, frames[0] if isinstance(frames, tuple) else frames)
