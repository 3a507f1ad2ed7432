"""The VAEs of video diffusion models: latents to frames and back.

    import gst_vae
    vae = gst_vae.open("wan2.1_vae.safetensors")
    frames = vae.decode(latents)
"""
import os
import shutil

if os.name == "nt":
    # Of a wheel, and of a build folder.
    for _folder in ("bin", "../../engine"):
        _folder = os.path.normpath(os.path.join(os.path.dirname(__file__), _folder))
        if os.path.isdir(_folder):
            os.add_dll_directory(os.path.abspath(_folder))

from . import _engine
from ._engine import Cancelled, Error, OutOfMemory, Tensor
from .decoding import SETTINGS, Decoder
from .diffusers import accelerate
from .encoding import Encoder
from .latents import Latents
from .pipeline import PipelineError, stream
from .reports import GstVaeWarning
from .vae import VAE, open_vae as open

__version__ = _engine.version

__all__ = ["Cancelled", "Decoder", "Encoder", "Error", "GstVaeWarning", "Latents",
           "OutOfMemory", "PipelineError", "SETTINGS", "Tensor", "VAE", "accelerate",
           "available", "demo", "open", "plugin_path", "stream", "tensor", "tool_path"]


def tensor(data: object) -> Tensor:
    """A Tensor that shares the memory of data, which has __dlpack__ or the buffer
    protocol."""
    return _engine.tensor(data)


def available(backend: str) -> str:
    """"" if the backend works here, otherwise the reason."""
    return _engine.unavailable(backend)


def _find(what, *places):
    """The first of these paths that exists: beside this file in a wheel, above it in a
    build folder, or in an installation."""
    here = os.path.dirname(os.path.abspath(__file__))
    for place in places:
        path = os.path.normpath(os.path.join(here, place))
        if os.path.exists(path):
            return path
    raise Error(f"{what} is not part of this installation of gst-vae")


def plugin_path() -> str:
    """The folder of the GStreamer plugin of a wheel or a build, for GST_PLUGIN_PATH. An
    installation has it where GStreamer looks."""
    name = "libgstvae" + (".dll" if os.name == "nt" else ".so")
    return os.path.dirname(_find("the GStreamer plugin", "lib/gstreamer-1.0/" + name,
                                 "../../gst/" + name))


def demo() -> str:
    """The path of the small demo model."""
    return _find("the demo model", "share/gst-vae/models/demo.safetensors",
                 "demo.safetensors", "../../../../share/gst-vae/models/demo.safetensors")


def tool_path() -> str:
    """The path of vaetool."""
    name = "vaetool" + (".exe" if os.name == "nt" else "")
    try:
        return _find("vaetool", "bin/" + name, "../../engine/" + name)
    except Error:
        found = shutil.which("vaetool")
        if not found:
            raise
        return found
