"""A VAE: whole clips, streams, plans."""
from __future__ import annotations

import json
import os
import re
import warnings
from typing import Any, Callable

from . import _engine
from .decoding import Decoder, check_settings, clips_of
from .encoding import Encoder, check_frames
from .frameworks import device_of, dims, fail, is_state, like, pairs_of, to_host, type_of, view
from .latents import latents_of, own_normalization
from .reports import GstVaeWarning, Plan, Report, callers_level


def cached(name):
    """The folder of a model in the cache of Hugging Face. Asks no network."""
    home = os.environ.get("HF_HOME", os.path.join("~", ".cache", "huggingface"))
    hub = os.path.expanduser(os.environ.get("HF_HUB_CACHE", os.path.join(home, "hub")))
    folder = os.path.join(hub, "models--" + name.replace("/", "--"))
    try:
        with open(os.path.join(folder, "refs", "main"), encoding="utf-8") as file:
            return os.path.join(folder, "snapshots", file.read().strip())
    except OSError:
        if os.path.isdir(os.path.dirname(name)):
            return name  # a file that is missing
        expected = "a file, a folder, or a model in this cache"
        raise fail(f"{name}: is no file, and the cache of Hugging Face, {hub}, has no "
                   "model of this name: download it first", name, expected) from None


def open_vae(weights: Any, *, variant: str | None = None,
             config: dict[str, Any] | None = None, metadata: dict[str, str] | None = None,
             name: str = "weights") -> VAE:
    """Opens weights: a file, a folder or an index of shards by its path; the name of a
    model in the cache of Hugging Face, "ORGANISATION/MODEL"; a module of torch; or a
    dict of tensors. Tensors in memory are not copied, and must not change.

    variant: the name of the network, for weights that fit several. Only for tensors in
    memory: config is a dict as in config.json, metadata a dict of texts as in a
    safetensors file, name is used in messages."""
    if is_state(weights):
        text = None if config is None else json.dumps(config)
        return VAE(_engine.open_tensors(name, pairs_of(weights), metadata or {}, text,
                                        variant))
    path = os.fsdecode(weights)
    if (not os.path.exists(path) and
            re.fullmatch(r"\w[\w.-]*/[\w.-]+", path)):
        path = cached(path)
    return VAE(_engine.open_file(path, variant), (path, variant))


class VAE:
    """See open()."""

    def __init__(self, model, file=None):
        self.model = model
        self.info = Report(**model.info)
        self.file = file  # (path, variant) of weights in a file
        self._idle = {}
        if model.doubt:
            warnings.warn(f"{self.info.path}: {model.doubt}", GstVaeWarning,
                          stacklevel=callers_level())

    def __repr__(self):
        return f"<gst_vae.VAE {self.info.arch} {self.info.path}>"

    def decoder(self, width: int, height: int, dtype: Any = "uint8",
                **settings: Any) -> Decoder:
        """A stream that decodes pictures of this size. dtype: the type of frames: uint8;
        or float32, float16, bfloat16 in the network's own range (info.pixel_range), not
        clamped. settings: see SETTINGS."""
        check_settings(settings)
        return Decoder(self, width, height, dtype, **settings)

    def encoder(self, width: int, height: int, dtype: Any = "uint8",
                latents: Any = "float32", moments: bool = False, tail: str = "repeat",
                **settings: Any) -> Encoder:
        """A stream that encodes. dtype: the type of frames as for decoder(), or a format
        with planes: nv12, p010, i420, y444. latents: the type of latents. With moments
        it gives (latents, mean, logvar). tail: what finish() does with the last frames if
        they fill no latent: "repeat" the last one, or "drop" them."""
        check_settings(settings)
        return Encoder(self, width, height, dtype, latents, moments, tail, **settings)

    def plan(self, width: int, height: int, direction: str = "decode",
             **settings: Any) -> Plan:
        """The memory of a stream, without allocating it."""
        return Plan(self.model.plan({**settings, "direction": direction, "width": width,
                                     "height": height}))

    def frames_of(self, latents: int) -> int:
        """The number of frames that latents decode to."""
        return self.model.frames_of(latents)

    def latents_of(self, frames: int) -> int:
        """The number of latents that decode to at least so many frames."""
        return self.model.latents_of(frames)

    def fingerprint(self) -> str:
        """A checksum of the weights."""
        return self.model.fingerprint()

    def release(self) -> None:
        """Frees the streams that decode() and encode() keep for their next call."""
        while self._idle:
            self._idle.popitem()[1][1].close()

    @property
    def is_loaded(self) -> bool:
        """True if release() would free memory."""
        return bool(self._idle)

    def _check(self, latents, size):
        """The file must fit the model and the size, and be of one sequence."""
        latents.clip.check(self.model, *(size or (0, 0)))
        n = latents.info.sequences
        if n > 1:
            raise fail(f"{latents.path}: has {n} sequences, expected 1; vaetool decodes "
                       "them", str(n), "1")

    def settle(self, latents, size, frames, settings, layout, **reading):
        """The arguments of a call, with what the latents tell: also the layout, and the
        Latents of a file, or None. reading: see latents_of()."""
        check_settings(settings, "; the latents tell the size, or size=(width, height) if "
                       "the pictures are smaller")
        own = own_normalization(settings.get("normalization"))
        clip = latents_of(latents, layout, own, reading)
        if clip:
            clip, layout = clip.of_model(self.info, own), "cthw"
            if size is None and clip.info.size[0]:
                size = tuple(n * self.info.scale for n in clip.info.size)
            self._check(clip, size)
            own = own or clip.normalization
            for said in clip.overrides(own, self.info.space):
                warnings.warn(said, GstVaeWarning, stacklevel=callers_level())
            latents, frames = clip.latents, frames or clip.info.frames or None
            if own or clip.info.normalization != "normalized":
                settings["normalization"] = own or clip.info.normalization
            clip.info.normalization_stated &= not own
            clip.info.normalization_chosen = own is not None
        if device_of(latents).startswith("cuda:"):
            settings = {"device": int(device_of(latents)[5:]), **settings}
        return latents, size, frames, settings, layout, clip

    def _run(self, kind, size, settings, work):
        """Calls work(stream) with the stream of the last call if it has the same
        settings, or with a new one."""
        key = (size, tuple(sorted(settings.items())))
        found, stream = self._idle.pop(kind, (None, None))
        if stream and found != key:
            stream.close()
        if found != key:
            stream = kind(self, *size, **settings)
        try:
            made = work(stream)
        except BaseException:
            stream.close()
            raise
        _, other = self._idle.pop(kind, (None, None))
        self._idle[kind] = (key, stream)
        if other:  # of another thread
            other.close()
        return made

    def decode(self, latents: Any, *, size: tuple[int, int] | None = None,
               frames: int | None = None, dtype: Any = "uint8", out: Any = None,
               layout: str = "auto", tensor: str | None = None,
               batch_index: int | None = None, framerate: Any = None,
               latent_space: str | None = None,
               progress: bool | Callable[[int, int], Any] | None = None,
               **settings: Any) -> Any:
        """Decodes a clip [C, T, h, w] to frames [n, height, width, 3], or a batch
        [B, C, T, h, w] to [B, n, height, width, 3], in the framework and on the device
        of the latents. They may also be the path of a file; images may be [B, C, h, w].
        A network with alpha gives 4 channels.

        layout: "cthw" or "tchw", also with a batch in front. Without it, latents of 4
        dimensions may also be [T, C, h, w], if only this axis has as many channels as the
        network. A guess is a warning. tensor, batch_index, framerate and latent_space:
        for a path, as for Latents.

        size: width and height of the pictures, if they are smaller than the latents
        tell. frames: return at most so many. out: memory for all frames. progress: True,
        or a function of (done, total). The stream is kept for the next call with the same
        settings: see release()."""
        latents, size, frames, settings, layout, clip = self.settle(
            latents, size, frames, settings, layout, tensor=tensor,
            batch_index=batch_index, framerate=framerate, latent_space=latent_space)
        lost = clip and clip.clip.lost("the frames")
        if lost:
            warnings.warn(lost, GstVaeWarning, stacklevel=callers_level())
        source = ((f'{os.fsdecode(clip.path)}: tensor "{clip.info.tensor}"',
                   clip.info.normalization_stated, clip.info.normalization_chosen)
                  if clip else ())
        t = view(to_host(latents))
        if 0 in t.shape:
            raise fail(f"there are no latents to decode: {dims(t)}", dims(t))
        batch = len(t.shape) == 5
        clips = clips_of(t, self.info, layout)
        if size is None:
            size = tuple(n * self.info.spatial for n in clips[0].shape[:1:-1])
        memory = out
        if out is not None and not batch:
            memory = view(out, True).grown()
        made = self._run(Decoder, tuple(size), {"dtype": type_of(dtype), **settings},
                         lambda decoder: decoder.whole(clips, latents, memory, progress,
                                                       *source))
        if out is not None:
            return out
        made = like(latents, made if batch else made[0], type_of(dtype))
        return made if frames is None else self._cut(made, frames, batch)

    @staticmethod
    def _cut(made, frames, batch):
        if isinstance(made, _engine.Tensor):
            if batch:
                raise fail("frames of a batch needs torch or numpy")
            return made.part(0, min(frames, len(made)))
        return made[:, :frames] if batch else made[:frames]

    def encode(self, frames: Any, *, latents: Any = "float32", moments: bool = False,
               tail: str = "repeat",
               progress: bool | Callable[[int, int], Any] | None = None,
               **settings: Any) -> Any:
        """Encodes frames [T, H, W, 3], or [H, W, 3] of one, of uint8 or float to latents
        [C, n, h, w], or with moments to (latents, mean, logvar). [T, H, W, 4] has alpha,
        for a network that takes it; others are opaque. Float is in the network's own
        range (info.pixel_range). tail: as for encoder(). settings: see SETTINGS;
        posterior="sample" and seed give samples instead of the mean."""
        told = "; the frames tell it"
        check_settings(settings, told, told)
        t = view(to_host(frames))
        t = t.grown() if len(t.shape) == 3 and t.shape[2] in (3, 4) else t
        check_frames(t, self.info.in_channels)
        if not t.shape[0]:
            raise fail(f"there are no frames to encode: {dims(t)}", dims(t))
        dtype = "uint8" if t.dtype == "uint8" else "float32"
        if device_of(frames).startswith("cuda:"):
            settings = {"device": int(device_of(frames)[5:]), **settings}
        return self._run(Encoder, (t.shape[2], t.shape[1]), {
            "dtype": dtype, "latents": type_of(latents), "moments": bool(moments),
            "tail": tail, **settings}, lambda encoder: encoder.whole(frames, progress))
