"""The latents of a file."""
from __future__ import annotations

import copy
import fractions
import os
import re
import warnings
from typing import Any

from . import _engine
from .frameworks import fail
from .reports import GstVaeWarning, Report, callers_level


def rate_of(rate):
    """A frame rate such as 16, "30000/1001" or (16, 1) as a Fraction."""
    try:
        made = (fractions.Fraction(*rate) if isinstance(rate, tuple)
                else fractions.Fraction(rate).limit_denominator(1001))
        if 0 < made < 2**31:
            return made
    except (ValueError, TypeError, ZeroDivisionError):
        pass
    raise fail(f"framerate is {rate}, expected a number such as 16 or \"30000/1001\"",
               str(rate))


def aspect_of(text):
    """(4, 3) of "4/3", or None of what is no pixel aspect ratio."""
    found = re.fullmatch("0*([1-9][0-9]{0,8})/0*([1-9][0-9]{0,8})", text or "")
    return found and tuple(map(int, found.groups()))


def is_path(latents):
    return isinstance(latents, (str, bytes, os.PathLike))


def own_normalization(word):
    """The word, or None if it leaves the normalization to the input."""
    return None if word == "auto" else word


class Latents:
    """The latents of a file. info: what the file states.

    tensor: the name of the tensor. batch_index: the clip of a batch, from 0. layout:
    "cthw" or "tchw", also with a batch in front, if the file does not state it and the
    channels of the model fit both axes. normalization: "auto", "normalized",
    "raw" or "comfyui"; framerate: such as 16, "30000/1001" or (16, 1); latent_space: such as
    "wan2.1". These three override what the file states, also if it cannot be read."""

    def __init__(self, path: Any, tensor: str | None = None,
                 batch_index: int | None = None, layout: str = "auto",
                 normalization: str | None = None, framerate: Any = None, *,
                 latent_space: str | None = None):
        for name, value in (("tensor", tensor), ("normalization", normalization),
                            ("latent_space", latent_space)):
            if not isinstance(value, (str, type(None))):
                raise TypeError(f"{name} is {value!r}, expected a text")
        if batch_index is not None and batch_index < 0:
            raise fail(f"batch_index is {batch_index}, expected 0 or more",
                       str(batch_index), "0 or more")
        normalization = own_normalization(normalization)
        self.path, self.normalization, self.latent_space = path, normalization, latent_space
        self.framerate = None if framerate is None else rate_of(framerate).as_integer_ratio()
        self._choice = (tensor, -1 if batch_index is None else batch_index, layout,
                        normalization, framerate is not None, latent_space)
        self._find(path)

    def _find(self, where, channels=0, temporal=0, chunk=0):
        self.clip = _engine.open_clip(where, *self._choice, channels, temporal, chunk)
        self.info = Report(**self.clip.info)
        self.info.framerate = self.framerate or self.info.framerate
        self.info.pixel_aspect_ratio = aspect_of(self.info.pixel_aspect_ratio)

    @property
    def latents(self):
        """A Tensor [C, T, h, w]. Warns if the layout is a guess, of what is
        overridden because it cannot be read, and if nothing states the normalization."""
        if self.clip.doubt:
            warnings.warn(self.clip.doubt, GstVaeWarning, stacklevel=callers_level())
        return self.clip.latents

    def of_model(self, info: Report, normalization: str | None = None) -> Latents:
        """The latents as a model with this info reads them: its channels tell the
        layout. normalization: overrides that of the file."""
        found = copy.copy(self)
        tensor, index, layout, own, *rest = self._choice
        found._choice = (tensor, index, layout, normalization or own, *rest)
        found._find(self.clip, info.latent_channels, info.temporal, info.chunk)
        return found

    def overrides(self, normalization, space):
        """Sentences about what differs from what the file states. space: of the
        model."""
        set_here = {"normalization": normalization, "latent_space": self.latent_space}
        return [said for name, value in set_here.items() if value is not None and
                (said := self.clip.overrides(name, str(value), space))]


def latents_of(latents, layout, normalization, reading):
    """The Latents that are given, or those of a path; None for others. reading: the
    arguments of Latents that only a path takes, by name."""
    given = {name: value for name, value in reading.items() if value is not None}
    if is_path(latents):
        return Latents(latents, layout=layout, normalization=normalization, **given)
    if given:
        raise TypeError(f"{', '.join(given)}: for the path of a file, or for Latents()")
    if isinstance(latents, Latents) and layout != "auto":
        raise fail("the layout of Latents is stated by their own layout=", layout, "auto")
    return latents if isinstance(latents, Latents) else None
