"""The nodes. Only ComfyUI imports this file: it needs ComfyUI's modules and torch."""
import fractions
import json
import os

import comfy.model_management as management
import comfy.model_patcher
import comfy.utils
import folder_paths
import torch
from comfy.cli_args import args

from .. import demo
from ..frameworks import dims, fail
from ..vae import open_vae

DEMO = "demo model of gst-vae"
CODECS = {"mp4": ("h264", "yuv420p"), "webm": ("libvpx-vp9", "yuv420p")}


class Memory(comfy.model_patcher.ModelPatcher):
    """A VAE as ComfyUI's model management sees it: a model whose size is the plan of
    the next call."""

    def __init__(self, vae):
        cpu = torch.device("cpu")
        super().__init__(torch.nn.Module(), cpu, cpu, size=1)
        self.vae = vae

    def ask(self, plan):
        """Lets ComfyUI free so much memory of the device, before it is allocated."""
        self.load_device = (management.get_torch_device() if plan.backend == "cuda"
                            else torch.device("cpu"))
        self.size = plan.total
        management.load_models_gpu([self])

    def model_size(self):
        return self.size

    def loaded_size(self):
        return self.size if self.vae.is_loaded else 0

    def current_loaded_device(self):
        return self.load_device if self.vae.is_loaded else self.offload_device

    def partially_load(self, *_, **__):
        return 0

    def partially_unload(self, *_, **__):
        freed = self.loaded_size()
        self.vae.release()
        return freed

    def detach(self, unpatch_all=True):
        if unpatch_all:  # false if ComfyUI replaces its entry by a new one
            self.vae.release()


class Opened:
    """What the nodes hand on: a VAE with its settings."""

    def __init__(self, vae, settings):
        self.vae, self.memory = vae, Memory(vae)
        self.settings = {**settings, "normalization": "comfyui"}

    def ask(self, width, height, direction):
        self.memory.ask(self.vae.plan(width, height, direction, **self.settings))

    def clips(self, samples):
        """LATENT [B, C, T, h, w], or images [B, C, h, w], with the time."""
        samples = samples["samples"]
        if len(samples.shape) == 4:
            samples = samples[:, :, None]
        channels = self.vae.info.latent_channels
        if len(samples.shape) != 5 or samples.shape[1] != channels:
            expected = f"[B, {channels}, T, h, w] or [B, {channels}, h, w]"
            raise fail(f"the latents are {dims(samples)}, expected {expected}",
                       dims(samples), expected)
        return samples

    def size(self, clips):
        """The width and height of frames."""
        return tuple(n * self.vae.info.spatial for n in clips.shape[:2:-1])


def progress_bar(total):
    """progress= for decode() and encode(): ComfyUI's bar, and its stop button."""
    bar = comfy.utils.ProgressBar(total)

    def at(done, _):
        bar.update_absolute(done)
        management.throw_exception_if_processing_interrupted()
    return at


class Load:
    CATEGORY = "gst-vae"
    FUNCTION = "load"
    RETURN_TYPES = ("GST_VAE",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {
            "vae_name": ([*folder_paths.get_filename_list("vae"), DEMO],),
            "backend": (["auto", "cpu", "cuda"],),
            "precision": (["auto", "fp32", "tf32", "fp16", "bf16"],),
            "memory_limit": ("STRING", {
                "default": "", "tooltip": "such as 8G or 75%; empty: no limit"})}}

    def load(self, vae_name, backend, precision, memory_limit):
        path = (demo() if vae_name == DEMO
                else folder_paths.get_full_path_or_raise("vae", vae_name))
        settings = {"backend": backend, "precision": precision}
        if memory_limit.strip():
            settings["memory_limit"] = memory_limit.strip()
        return (Opened(open_vae(path), settings),)


class Decode:
    CATEGORY = "gst-vae"
    FUNCTION = "decode"
    RETURN_TYPES = ("IMAGE",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"vae": ("GST_VAE",), "samples": ("LATENT",)}}

    def decode(self, vae, samples):
        clips = vae.clips(samples)
        vae.ask(*vae.size(clips), "decode")
        frames = vae.vae.decode(
            clips, dtype="float32", layout="bcthw", **vae.settings,
            progress=progress_bar(clips.shape[0] * clips.shape[2]))
        low, high = vae.vae.info.pixel_range
        frames -= low
        frames /= high - low
        return (frames.clip(0, 1).reshape(-1, *frames.shape[2:]),)


class Encode:
    CATEGORY = "gst-vae"
    FUNCTION = "encode"
    RETURN_TYPES = ("LATENT",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"vae": ("GST_VAE",), "pixels": ("IMAGE",)}}

    def encode(self, vae, pixels):
        low, high = vae.vae.info.pixel_range
        vae.ask(pixels.shape[2], pixels.shape[1], "encode")
        latents = vae.vae.encode(
            pixels[..., :vae.vae.info.in_channels] * (high - low) + low, **vae.settings,
            progress=progress_bar(pixels.shape[0]))
        # A network for images has a batch of them instead of a clip.
        is_image = vae.vae.info.temporal == 1
        return ({"samples": latents.swapaxes(0, 1) if is_image else latents[None]},)


class DecodeToFile:
    CATEGORY = "gst-vae"
    FUNCTION = "decode"
    RETURN_TYPES = ()
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {
            "vae": ("GST_VAE",), "samples": ("LATENT",),
            "filename_prefix": ("STRING", {"default": "video/gst-vae"}),
            "format": (list(CODECS),),
            "fps": ("FLOAT", {"default": 0.0, "min": 0.0, "max": 1000.0, "step": 0.01,
                              "tooltip": "0: the usual rate of the network"})},
            "hidden": {"prompt": "PROMPT", "extra_pnginfo": "EXTRA_PNGINFO"}}

    @staticmethod
    def frames(vae, clips, size):
        """Frames in 8 bits as soon as they are decoded."""
        at, done = progress_bar(clips.shape[0] * clips.shape[2]), 0
        with vae.vae.decoder(*size, alpha=False, **vae.settings) as decoder:
            for clip in clips:
                first = 0
                for steps in decoder.slices(clip.shape[1]):
                    yield from decoder(clip[:, first:first + steps], layout="cthw")
                    first += steps
                    at(done + first, None)
                yield from decoder.finish()
                done += first

    def decode(self, vae, samples, filename_prefix, format, fps, prompt=None,
               extra_pnginfo=None):
        import av  # comes with ComfyUI
        clips = vae.clips(samples)
        size = vae.size(clips)
        folder, name, counter, subfolder, _ = folder_paths.get_save_image_path(
            filename_prefix, folder_paths.get_output_directory(), *size)
        file = f"{name}_{counter:05}_.{format}"
        rate = (fractions.Fraction(round(fps * 1000), 1000) if fps
                else fractions.Fraction(*vae.vae.info.framerate))
        codec, pixels = CODECS[format]
        # In a fragmented file what was written plays, also without its end.
        options = {"movflags": "use_metadata_tags+frag_keyframe+empty_moov"}
        vae.ask(*size, "decode")
        with av.open(os.path.join(folder, file), "w",
                     options=options if format == "mp4" else {}) as output:
            if not args.disable_metadata:
                for key, value in {"prompt": prompt, **(extra_pnginfo or {})}.items():
                    output.metadata[key] = json.dumps(value)
            video = output.add_stream(codec, rate=rate)
            video.width, video.height = size
            video.pix_fmt = pixels
            try:
                for frame in self.frames(vae, clips, size):
                    output.mux(video.encode(av.VideoFrame.from_ndarray(
                        frame.numpy(), format="rgb24")))
            finally:
                output.mux(video.encode(None))
        return {"ui": {"images": [{"filename": file, "subfolder": subfolder,
                                   "type": "output"}], "animated": (True,)}}


NODE_CLASS_MAPPINGS = {"GstVaeLoad": Load, "GstVaeDecode": Decode,
                       "GstVaeEncode": Encode, "GstVaeDecodeToFile": DecodeToFile}
NODE_DISPLAY_NAME_MAPPINGS = {
    "GstVaeLoad": "Load VAE (gst-vae)", "GstVaeDecode": "Decode (gst-vae)",
    "GstVaeEncode": "Encode (gst-vae)",
    "GstVaeDecodeToFile": "Decode stream to file (gst-vae)"}
