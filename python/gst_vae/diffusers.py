"""accelerate(): the VAE of a diffusers pipeline computes in gst-vae."""
from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any

from ._engine import Error
from .decoding import check_settings
from .frameworks import type_of
from .reports import GstVaeWarning, callers_level
from .vae import open_vae

# These modules clamp what they decode; the engine does not.
CLAMPED = ("AutoencoderKLWan", "AutoencoderKLQwenImage", "AutoencoderKLQwenImage21")
# Frames of a tile of AutoencoderKLHunyuanVideo, and from one tile to the next.
TILE_PLANS = {(16, 12): "diffusers", (64, 48): "official"}
METHODS = ("decode", "encode", "to")


def warn(text):
    warnings.warn(text, GstVaeWarning, stacklevel=callers_level())


class Accelerated:
    """What accelerate() returns. active: false if the module stays as it was. vae: the
    VAE of gst_vae, or None. undo() puts the methods of the module back."""

    def __init__(self, module, settings):
        self.module, self.active, self.vae = module, False, None
        name = type(module).__name__
        precision = "fp32" if type_of(module.dtype) == "float32" else "auto"
        self.settings = {"precision": precision, **settings, "normalization": "raw"}
        self.told = set()
        try:
            # As in the config.json that the module would save.
            config = {**_plain(module.config), "_class_name": name}
            self.vae = open_vae(module, config=config, name=name)
        except Error as error:
            warn(f"{name} stays as it is: {error}")
            return
        if self.vae.info.takes_normalized:
            self.settings["normalization"] = "normalized"
        low, high = self.vae.info.pixel_range
        self.scale, self.low = (high - low) / 2, low  # of pixels from -1 to 1
        self.in_tiles = name == "AutoencoderKLHunyuanVideo"
        # The latents of FLUX.2's pipelines are folded, those of its module are not.
        self.fold = 2 if name == "AutoencoderKLFlux2" else 1
        self.types = sys.modules[type(module).__module__]
        self.original = {method: getattr(module, method) for method in METHODS}
        for method in METHODS:
            setattr(module, method, getattr(self, method))
        self.active = True

    def undo(self) -> None:
        """Puts the methods of the module back, and frees the memory."""
        if self.active:
            for method in METHODS:
                delattr(self.module, method)
            self.vae.release()
        self.active = False

    def release(self):
        """Frees the memory for decoding and encoding until the next call."""
        if self.vae:
            self.vae.release()

    def tell(self, what, text):
        if what not in self.told:
            self.told.add(what)
            warn(text)

    def begin(self):
        """Before a call: what hooks of offloading and switches of the module ask for."""
        hook = getattr(self.module, "_hf_hook", None)
        before = getattr(hook, "prev_module_hook", None)
        if before is not None:
            before.offload()  # makes room for the VAE
        for switch in ("use_tiling", "use_slicing"):
            if getattr(self.module, switch, False):
                self.tell(switch, f"{switch} has no effect: gst-vae computes whole "
                          "pictures in slices of time, within memory_limit")

    def wants_other(self, direction, data, temb, causal):
        """True if the caller asks for what only the module can compute."""
        usual = getattr(self.module.config, f"{direction}r_causal", None)
        step = self.fold if direction == "decode" else self.vae.info.spatial
        if not getattr(self.vae.info, f"has_{direction}r"):
            why = f"gst-vae cannot {direction} with this network"
        elif direction == "decode" and self.vae.info.scale > 1:
            why = "gst-vae makes larger pictures of its channels"
        elif self.tile_plan(direction) is None:
            why = "its tiles have the numbers of frames of no tile_plan"
        elif (direction == "encode" and self.in_tiles
              and data.shape[2] % self.vae.info.temporal != 1):
            why = "its norms include the frames of an incomplete last latent"
        elif temb is not None or causal not in (None, usual):
            why = "the timestep or causal is not that of the configuration"
        elif data.shape[-2] % step or data.shape[-1] % step:
            why = f"{step} does not divide the height and the width"
        else:
            return False
        self.tell(direction, f"{direction} is left to the module: {why}")
        return True

    def tile_plan(self, direction):
        """The setting tile_plan for the tiles of the module, or None."""
        m = self.module
        if "tile_plan" in self.settings:
            return self.settings["tile_plan"]
        if not self.in_tiles:
            return "diffusers"
        if not getattr(m, f"use_framewise_{direction[:-1]}ing"):
            return None
        return TILE_PLANS.get((m.tile_sample_min_num_frames,
                               m.tile_sample_stride_num_frames))

    def to(self, *arguments, **named):
        """As before. On the CPU, the memory of a GPU is freed."""
        made = self.original["to"](*arguments, **named)
        if self.module.device.type == "cpu":
            self.release()
        return made

    def arguments(self, method, data, arguments, named):
        """temb, causal and return_dict of a call. Not all modules have the first two."""
        bound = inspect.signature(self.original[method]).bind(data, *arguments, **named)
        given = bound.arguments
        return (given.get("temb"), given.get("causal"), given.get("return_dict", True))

    def decode(self, z, *arguments, **named):
        """As before: [B, C, T, h, w], raw, to [B, 3 or 4, T, H, W]."""
        torch = sys.modules["torch"]
        temb, causal, return_dict = self.arguments("decode", z, arguments, named)
        if self.wants_other("decode", z, temb, causal):
            return self.original["decode"](z, *arguments, **named)
        self.begin()
        image = z.dim() == 4
        latents = z.unsqueeze(2) if image else z
        if self.fold > 1:
            latents = torch.nn.functional.pixel_unshuffle(z, self.fold).unsqueeze(2)
        frames = self.vae.decode(
            latents, dtype="float32", layout="bcthw",
            **{**self.settings, "tile_plan": self.tile_plan("decode")})
        sample = frames.permute(0, 4, 1, 2, 3)
        if self.low != -1:
            sample = (sample - self.low) / self.scale - 1
        sample = sample.to(z.dtype)
        if type(self.module).__name__ in CLAMPED:
            sample = sample.clamp_(-1, 1)
        if image:
            sample = sample.squeeze(2)
        return self.types.DecoderOutput(sample=sample) if return_dict else (sample,)

    def encode(self, x, *arguments, **named):
        """As before: [B, 3 or 4, T, H, W] from -1 to 1 to a distribution of latents."""
        torch = sys.modules["torch"]
        causal, return_dict = self.arguments("encode", x, arguments, named)[1:]
        if self.wants_other("encode", x, None, causal):
            return self.original["encode"](x, *arguments, **named)
        self.begin()
        image = x.dim() == 4
        x = x.unsqueeze(2) if image else x
        step = self.vae.info.temporal
        whole = x[:, :, :1 + (x.shape[2] - 1) // step * step].float()
        if self.low != -1:
            whole = (whole + 1) * self.scale + self.low
        has_moments = self.vae.info.has_posterior
        made = []
        for clip in whole.permute(0, 2, 3, 4, 1).contiguous():
            latents = self.vae.encode(
                clip, moments=has_moments,
                **{**self.settings, "tile_plan": self.tile_plan("encode")})
            made.append(torch.cat(latents[1:]) if has_moments else latents)
        h = torch.stack(made).to(x.dtype)
        if image:
            h = h.squeeze(2)
        if self.fold > 1:
            h = torch.nn.functional.pixel_shuffle(h, self.fold)
        if not has_moments:
            return self.types.AutoencoderTinyOutput(latents=h) if return_dict else (h,)
        posterior = self.types.DiagonalGaussianDistribution(h)
        if not return_dict:
            return (posterior,)
        return self.types.AutoencoderKLOutput(latent_dist=posterior)


def _plain(config):
    """The values of a configuration that JSON has."""
    plain = (str, int, float, bool, list, tuple, dict, type(None))
    return {key: value for key, value in dict(config).items()
            if isinstance(value, plain)}


def accelerate(pipe: Any, **settings: Any) -> Accelerated:
    """From now on, the VAE of a diffusers pipeline (or the VAE itself) decodes and
    encodes in gst-vae. Its weights are taken from memory, and must not change. All else
    of the module stays: config, dtype, device, the classes that it returns. A network
    that gst-vae lacks stays as it is, with a warning.

    settings: see SETTINGS. precision is "fp32" for a module in float32, which gives its
    results but for rounding; "auto" is faster."""
    module = getattr(pipe, "vae", pipe)
    if not hasattr(module, "state_dict") or not hasattr(module, "config"):
        raise TypeError(f"expected a pipeline with a vae, or a VAE of diffusers, found "
                        f"{type(pipe)!r}")
    check_settings(settings)
    if "normalization" in settings:
        raise TypeError("there is no setting 'normalization' here: it is that of the module")
    return Accelerated(module, settings)
