"""The nodes for ComfyUI, with stand-ins for its modules."""
import contextlib
import fractions
import importlib
import io
import json
import os
import sys
import types
import unittest.mock

import small
from small import gst_vae

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import gst_vae.comfyui.__main__ as install

MODELS = {"wan": "wan21", "flux2": "taef2"}


class Stopped(Exception):
    """ComfyUI's exception for its stop button."""


class ComfyUI:
    """What the nodes use of ComfyUI, torch and PyAV. Tensors are of numpy."""

    def __init__(self, folder):
        self.folder, self.asked, self.at, self.stop_at = folder, [], [], None
        self.video = None

    class Patcher:
        def __init__(self, model, load_device, offload_device, size=0):
            self.model, self.size = model, size
            self.load_device, self.offload_device = load_device, offload_device

    def load(self, models):
        self.asked += [(m.load_device, m.model_size(), m.loaded_size()) for m in models]

    def bar(self, total):
        def update(done):
            self.at.append((done, total))
        return types.SimpleNamespace(update_absolute=update)

    def stop(self):
        if self.stop_at is not None and len(self.at) >= self.stop_at:
            raise Stopped

    @contextlib.contextmanager
    def open(self, path, mode, options):
        """PyAV's container, which keeps frames."""
        def encode(frame):
            packets = [] if frame is None else [frame]
            made.ended = frame is None
            return packets
        video = types.SimpleNamespace(encode=encode)

        def add_stream(codec, rate):
            made.codec, made.rate = codec, rate
            return video
        made = types.SimpleNamespace(path=path, options=options, metadata={}, frames=[],
                                     ended=False, closed=False, add_stream=add_stream)
        made.mux = lambda packets: made.frames.extend(packets)
        self.video = made
        try:
            yield made
        finally:
            made.closed = True

    def modules(self):
        def picture(data, format):
            return (format, data)
        module = types.SimpleNamespace
        management = module(
            load_models_gpu=self.load, get_torch_device=lambda: "gpu",
            throw_exception_if_processing_interrupted=self.stop)
        patcher, utils = module(ModelPatcher=self.Patcher), module(ProgressBar=self.bar)
        paths = module(
            get_filename_list=lambda kind: sorted(MODELS) if kind == "vae" else [],
            get_full_path_or_raise=lambda kind, name: small.weights(MODELS[name]),
            get_output_directory=lambda: self.folder,
            get_save_image_path=lambda prefix, folder, width, height: (
                folder, prefix, 7, "", prefix))
        return {
            "comfy": module(model_management=management, model_patcher=patcher,
                            utils=utils),
            "comfy.model_management": management, "comfy.model_patcher": patcher,
            "comfy.utils": utils,
            "comfy.cli_args": module(args=module(disable_metadata=False)),
            "folder_paths": paths,
            "torch": module(device=str, nn=module(Module=object)),
            "av": module(open=self.open, VideoFrame=module(from_ndarray=picture))}


class Numbers(np.ndarray):
    """numpy() as tensors of torch have it."""

    def numpy(self):
        return np.asarray(self)


class Nodes(small.Test):
    def setUp(self):
        super().setUp()
        self.comfy = ComfyUI(self.folder)
        patch = unittest.mock.patch.dict(sys.modules, self.comfy.modules())
        patch.start()
        self.addCleanup(patch.stop)
        sys.modules.pop("gst_vae.comfyui.nodes", None)
        self.nodes = importlib.import_module("gst_vae.comfyui.nodes")

    def run_node(self, name, **inputs):
        """Calls a node as ComfyUI does, with the inputs that it declares."""
        kind = self.nodes.NODE_CLASS_MAPPINGS[name]
        declared = kind.INPUT_TYPES()
        self.assertLessEqual(set(declared["required"]), set(inputs))
        self.assertIn(name, self.nodes.NODE_DISPLAY_NAME_MAPPINGS)
        return getattr(kind(), kind.FUNCTION)(**inputs)

    def opened(self, name="wan", limit=""):
        return self.run_node("GstVaeLoad", vae_name=name, backend="cpu",
                             precision="fp32", memory_limit=limit)[0]

    def latents(self, *shape):
        return {"samples": np.array(small.tensor(list(shape)))}

    def by_vaetool(self, model, samples):
        """Frames from 0 to 1 of a .latent file with these numbers."""
        path, made = self.path("a.latent"), self.path("frames")
        header = {"latent_tensor": {"dtype": "F32", "shape": list(samples.shape),
                                    "data_offsets": [0, samples.nbytes]},
                  "latent_format_version_0": {"dtype": "F32", "shape": [0],
                                              "data_offsets": 2 * [samples.nbytes]}}
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + samples.tobytes())
        small.vaetool("decode", "--model", small.weights(MODELS[model]), "--backend",
                      "cpu", "--precision", "fp32", path, made)
        shape, data = small.read(made)["frames"]
        return np.frombuffer(data, "f").reshape(shape)

    def test_decode(self):
        vae, latents = self.opened(), self.latents(1, 16, 3, 2, 3)
        images, = self.run_node("GstVaeDecode", vae=vae, samples=latents)
        expected = self.by_vaetool("wan", latents["samples"])
        low, high = vae.vae.info.pixel_range
        self.assertEqual(images.shape, (9, 16, 24, 3))
        np.testing.assert_array_equal(
            images, ((expected - np.float32(low)) / np.float32(high - low)).clip(0, 1))
        self.assertEqual(self.comfy.at[-1], (3, 3))
        plan = vae.vae.plan(24, 16, **vae.settings)
        self.assertEqual(self.comfy.asked, [("cpu", plan.total, 0)])

    def test_memory(self):
        vae, latents = self.opened(limit=" 1G "), self.latents(1, 16, 1, 2, 3)
        self.assertEqual(vae.settings["memory_limit"], "1G")
        memory = vae.memory
        for free in (lambda: memory.partially_unload("cpu", 1), memory.detach):
            self.run_node("GstVaeDecode", vae=vae, samples=latents)
            memory.detach(unpatch_all=False)
            self.assertEqual(memory.loaded_size(), memory.model_size())
            free()
            self.assertEqual(memory.loaded_size(), 0)
        vae.memory.ask(types.SimpleNamespace(backend="cuda", total=5))
        self.assertEqual(self.comfy.asked[-1], ("gpu", 5, 0))

    def test_batches(self):
        images, = self.run_node("GstVaeDecode", vae=self.opened(),
                                samples=self.latents(2, 16, 2, 2, 3))
        self.assertEqual(images.shape, (10, 16, 24, 3))
        vae = self.opened("flux2")
        channels, scale = vae.vae.info.latent_channels, vae.vae.info.spatial
        images, = self.run_node("GstVaeDecode", vae=vae,
                                samples=self.latents(2, channels, 2, 3))
        self.assertEqual(images.shape, (2, 2 * scale, 3 * scale, 3))
        made, = self.run_node("GstVaeEncode", vae=vae, pixels=images)
        self.assertEqual(made["samples"].shape, (2, channels, 2, 3))

    def test_encode(self):
        vae = self.opened()
        pixels = np.array(small.tensor([5, 16, 24, 4])).clip(0, 1)
        made, = self.run_node("GstVaeEncode", vae=vae, pixels=pixels)
        low, high = vae.vae.info.pixel_range
        expected = vae.vae.encode(pixels[..., :3] * (high - low) + low, backend="cpu",
                                  precision="fp32", normalization="raw")
        np.testing.assert_array_equal(made["samples"], expected[None])

    def to_file(self, **inputs):
        latents = {"samples": self.latents(2, 16, 3, 2, 3)["samples"].view(Numbers)}
        with unittest.mock.patch("gst_vae.decoding.like",
                                 lambda data, made, dtype: np.asarray(made).view(Numbers)):
            return self.run_node("GstVaeDecodeToFile", vae=self.opened(),
                                 samples=latents, filename_prefix="clip", **inputs)

    def test_file(self):
        made = self.to_file(format="mp4", fps=0, prompt={"a": 1},
                            extra_pnginfo={"workflow": [2]})
        self.assertEqual(made["ui"]["images"], [
            {"filename": "clip_00007_.mp4", "subfolder": "", "type": "output"}])
        video = self.comfy.video
        self.assertEqual(video.path, self.path("clip_00007_.mp4"))
        self.assertEqual((video.codec, video.rate), ("h264", fractions.Fraction(16)))
        self.assertEqual(video.metadata, {"prompt": '{"a": 1}', "workflow": "[2]"})
        latents = self.latents(2, 16, 3, 2, 3)["samples"]
        vae = gst_vae.open(small.weights("wan21"))
        frames = np.asarray(vae.decode(latents, backend="cpu", precision="fp32",
                                       normalization="raw"))
        self.assertEqual([f[0] for f in video.frames], 18 * ["rgb24"])
        np.testing.assert_array_equal([f[1] for f in video.frames],
                                      frames.reshape(-1, 16, 24, 3))
        self.assertEqual(self.comfy.at[-1], (6, 6))
        self.to_file(format="webm", fps=29.97)
        video = self.comfy.video
        self.assertEqual((video.codec, video.rate),
                         ("libvpx-vp9", fractions.Fraction(2997, 100)))

    def test_stop(self):
        self.comfy.stop_at = 1
        with self.assertRaises(Stopped):
            self.run_node("GstVaeDecode", vae=self.opened(),
                          samples=self.latents(1, 16, 3, 2, 3))
        self.comfy.stop_at = len(self.comfy.at) + 2
        with self.assertRaises(Stopped):
            self.to_file(format="mp4", fps=16)
        video = self.comfy.video
        self.assertEqual((len(video.frames), video.ended, video.closed), (9, True, True))

    def test_wrong(self):
        for shape in ((1, 4, 1, 2, 3), (16, 2, 3)):
            with self.assertRaisesRegex(gst_vae.Error, r"expected \[B, 16, T, h, w\]"):
                self.run_node("GstVaeDecode", vae=self.opened(),
                              samples=self.latents(*shape))

    def test_workflow(self):
        path = os.path.join(os.path.dirname(self.nodes.__file__), "workflow.json")
        with open(path, encoding="utf-8") as file:
            nodes = json.load(file)["nodes"]
        own = self.nodes.NODE_CLASS_MAPPINGS
        seen = [node for node in nodes if node["type"] in own]
        self.assertEqual({node["type"] for node in seen}, set(own))
        for node in seen:
            inputs = own[node["type"]].INPUT_TYPES()["required"]
            links = [i["name"] for i in node["inputs"]]
            self.assertEqual(len(inputs), len(links) + len(node["widgets_values"]))
            self.assertLessEqual(set(links), set(inputs))
        self.assertIn(seen[0]["widgets_values"][0],
                      own["GstVaeLoad"].INPUT_TYPES()["required"]["vae_name"][0])


class Install(small.Test):
    def test_install(self):
        self.assertIn("usage", install.main([]))
        self.assertIn("has no folder custom_nodes", install.main([self.folder]))
        os.mkdir(self.path("custom_nodes"))
        for _ in range(2):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertIsNone(install.main([self.folder]))
        example = said.getvalue().split("example: ")[1].strip()
        self.assertTrue(os.path.isfile(example), example)
        with open(self.path("custom_nodes/gst-vae/__init__.py"),
                  encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("gst_vae.comfyui.nodes", lines[0])


if __name__ == "__main__":
    small.main()
