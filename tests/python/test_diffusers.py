"""accelerate() beside the modules of diffusers, with random weights."""
import os
import re
import sys
import warnings

import small
from small import gst_vae

sys.path.append(os.path.join(os.path.dirname(__file__), "../official"))
try:
    import diffusers
    import networks
    import safetensors.torch
    import torch
    from diffusers import (AutoencoderKL, AutoencoderKLLTX2Video,
                           AutoencoderKLQwenImage, AutoencoderKLWan, AutoencoderTiny)
    from diffusers.video_processor import VideoProcessor
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def wan21():
    return AutoencoderKLWan(base_dim=8, z_dim=16, num_res_blocks=1)


def wan22():
    return AutoencoderKLWan(
        base_dim=8, decoder_base_dim=8, z_dim=48, num_res_blocks=1, is_residual=True,
        in_channels=12, out_channels=12, patch_size=2, scale_factor_spatial=16,
        temperal_downsample=[False, True, True], latents_mean=[0.0] * 48,
        latents_std=[1.0] * 48)


def ltx2(causal=False):
    return AutoencoderKLLTX2Video(
        latent_channels=8, block_out_channels=(8, 16, 32, 64),
        decoder_block_out_channels=(8, 16, 32), layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1), decoder_causal=causal)


def qwen_image():
    return AutoencoderKLQwenImage(base_dim=8, num_res_blocks=1)


def qwen_image21():
    return diffusers.AutoencoderKLQwenImage21(base_dim=8, decoder_base_dim=8,
                                              num_res_blocks=1)


def hunyuan15():
    return diffusers.AutoencoderKLHunyuanVideo15(
        latent_channels=4, block_out_channels=(4, 8, 8, 16, 16))


def hunyuan10():
    return diffusers.AutoencoderKLHunyuanVideo(
        block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=4)


def flux2():
    module = diffusers.AutoencoderKLFlux2(block_out_channels=(8, 8, 8, 8),
                                          norm_num_groups=4)
    module.bn.running_mean.normal_()
    module.bn.running_var.uniform_(0.5, 2)
    return module


def kl():
    return AutoencoderKL(
        block_out_channels=(8, 8, 8, 8), norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4)


def tiny():
    return AutoencoderTiny()


# The module, the shapes of latents and of pixels.
MODULES = [(wan21, (2, 16, 2, 2, 3), (1, 3, 5, 16, 16)),
           (wan22, (2, 48, 2, 2, 3), (1, 3, 5, 32, 32)),
           (ltx2, (2, 8, 2, 2, 3), (1, 3, 9, 64, 64)),
           (qwen_image, (1, 16, 1, 2, 3), (1, 3, 1, 16, 16)),
           (qwen_image21, (2, 64, 1, 2, 3), (2, 4, 1, 32, 32)),
           # Two clips at once fail in diffusers itself.
           (hunyuan15, (1, 4, 3, 2, 3), (1, 3, 5, 32, 32)),
           (flux2, (2, 32, 4, 6), (2, 3, 32, 48)), (flux2, (1, 32, 3, 4), (1, 3, 24, 32)),
           (kl, (2, 4, 2, 3), (2, 3, 16, 20)), (tiny, (2, 4, 2, 3), (2, 3, 16, 16))]
# For tests/official: the same, of one clip.
OFFICIAL = [(wan21, (1, 16, 2, 2, 3), (1, 3, 5, 16, 16)),
            (ltx2, (1, 8, 2, 2, 3), (1, 3, 9, 64, 64)),
            (kl, (1, 4, 2, 2, 3), (1, 3, 2, 16, 24)),
            (tiny, (1, 4, 2, 2, 3), (1, 3, 2, 16, 24))]
if hasattr(diffusers, "AutoencoderKLFlux2"):
    OFFICIAL += [(flux2, (1, 128, 2, 2, 3), (1, 3, 2, 32, 48))]
if hasattr(diffusers, "AutoencoderKLHunyuanVideo15"):
    OFFICIAL += [(hunyuan15, (1, 4, 3, 2, 3), (1, 3, 5, 32, 32))]
if hasattr(diffusers, "AutoencoderKLQwenImage21"):
    OFFICIAL += [(qwen_image21, (1, 64, 2, 2, 3), (1, 3, 2, 32, 32))]


# Names of AutoencoderKL in a checkpoint of one file.
LDM = ((r"mid_block\.resnets\.0", "mid.block_1"), (r"mid_block\.resnets\.1", "mid.block_2"),
       (r"mid_block\.attentions\.0", "mid.attn_1"), ("group_norm", "norm"),
       (r"to_([qkv])", r"\1"), (r"to_out\.0", "proj_out"),
       *((rf"up_blocks\.{i}", f"up.{3 - i}") for i in range(4)),
       (r"down_blocks", "down"), (r"resnets", "block"), (r"samplers\.0", "sample"),
       ("conv_shortcut", "nin_shortcut"), ("conv_norm_out", "norm_out"))


def ldm(state):
    """The tensors with their names there, among others."""
    made = {"model.other": torch.zeros(2)}
    for name, tensor in state.items():
        for old, new in LDM:
            name = re.sub(old, new, name)
        if re.search("attn_1.*[qkvt].weight", name):
            tensor = tensor[:, :, None, None]
        made["first_stage_model." + name] = tensor.contiguous()
    return made


class Diffusers(small.Test):
    def setUp(self):
        super().setUp()
        torch.manual_seed(1)
        torch.set_num_threads(1)

    def close(self, a, b):
        """Equal but for the rounding of 32 bits: sums of thousands of products, in
        another order."""
        self.assertEqual((a.shape, a.dtype, a.device), (b.shape, b.dtype, b.device))
        self.assertLess((a - b).abs().max().item(), 2e-4 * max(1, b.abs().max().item()))

    def test_decode_and_encode(self):
        for make, latents, pixels in MODULES:
            with self.subTest(make.__name__), torch.no_grad():
                try:
                    module = make().eval()
                except AttributeError as lacking:  # of an older diffusers
                    self.skipTest(str(lacking))
                z, x = torch.randn(latents), torch.rand(pixels) * 2 - 1
                expected = module.decode(z).sample
                encoded = module.encode(x)
                done = gst_vae.accelerate(module)
                self.assertTrue(done.active)
                made = module.decode(z)
                self.assertEqual(type(made).__name__, "DecoderOutput")
                self.close(made.sample, expected)
                self.close(module.decode(z, return_dict=False)[0], expected)
                found, (first,) = module.encode(x), module.encode(x, return_dict=False)
                self.assertIs(type(found), type(encoded))
                if make is tiny:
                    self.close(found.latents, encoded.latents)
                    self.close(first, encoded.latents)
                else:
                    self.close(found.latent_dist.mean, encoded.latent_dist.mean)
                    self.close(found.latent_dist.logvar, encoded.latent_dist.logvar)
                    self.close(first.mode(), encoded.latent_dist.mode())
                if z.dim() == 5:
                    self.pictures(made.sample, expected)
                done.undo()
                self.assertNotIn("decode", vars(module))
                self.assertTrue(torch.equal(module.decode(z).sample, expected))

    def pictures(self, made, expected):
        """Through the pipeline's own processor, 8 bits differ by rounding at most."""
        processor = VideoProcessor(vae_scale_factor=8)
        a, b = (processor.postprocess_video(sample, output_type="np")
                for sample in (made, expected))
        self.assertLessEqual(abs((a * 255).round() - (b * 255).round()).max(), 1)

    def official(self, file, latents, pixels):
        """Compares tests/official, given config.json beside the file, with gst_vae."""
        vae = gst_vae.open(file)
        info = {field: getattr(vae.info, field) for field in
                ("mean", "std", "temporal", "pixel_range")}
        net, decode, encode = networks.make_diffusers(
            networks.find_config(file), file, info)
        net.eval()
        z, x = torch.randn(latents), torch.rand(pixels)
        low, high = info["pixel_range"]
        x = x * (high - low) + low
        settings = {"normalization": "normalized", "precision": "fp32"}
        made = vae.decode(z[0], dtype="float32", **settings).permute(3, 0, 1, 2)
        self.close(decode(z)[0].clamp(low, high), made.clamp(low, high))
        made = vae.encode(x[0].permute(1, 2, 3, 0).contiguous(), **settings)
        self.close(encode(x)[0], made)

    def test_official(self):
        """tests/official computes the network of a folder of diffusers."""
        for make, latents, pixels in OFFICIAL:
            with self.subTest(make.__name__), torch.no_grad():
                make().save_pretrained(self.path(make.__name__))
                self.official(self.path(f"{make.__name__}/diffusion_pytorch_model"
                                        ".safetensors"), latents, pixels)

    def test_official_names(self):
        """The same, of a checkpoint of one file with other names."""
        module = kl()
        module.save_config(self.path(""))
        file = self.path("checkpoint.safetensors")
        safetensors.torch.save_file(ldm(module.state_dict()), file)
        with torch.no_grad():
            self.official(file, (1, 4, 2, 2, 3), (1, 3, 2, 16, 24))

    def left_to_module(self, call):
        """The directions that accelerate() says, in this call, it leaves to the module."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            call()
        return {str(w.message).split()[0] for w in told if "is left to" in str(w.message)}

    def test_tiles_of_latents(self):
        """The tiles of HunyuanVideo 1.0 are those of the module, or left to it."""
        if not hasattr(diffusers, "AutoencoderKLHunyuanVideo"):
            self.skipTest("an older diffusers")
        module, z = hunyuan10().eval(), torch.randn(1, 16, 18, 1, 2)
        x = torch.rand(1, 3, 69, 8, 16) * 2 - 1
        both = {"decode", "encode"}
        for frames, stride, tiles, left in (
                (16, 12, both, set()), (64, 48, both, set()), (32, 24, both, both),
                (16, 12, {"decode"}, {"encode"}), (16, 12, {"encode"}, {"decode"})):
            with self.subTest(frames=frames, tiles=tiles), torch.no_grad():
                module.use_framewise_decoding = "decode" in tiles
                module.use_framewise_encoding = "encode" in tiles
                module.tile_sample_min_num_frames = frames
                module.tile_sample_stride_num_frames = stride
                expected = module.decode(z).sample
                encoded = module.encode(x).latent_dist.parameters
                done = gst_vae.accelerate(module)
                self.assertTrue(done.active)

                def compare():
                    self.close(module.decode(z).sample, expected)
                    self.close(module.encode(x).latent_dist.parameters, encoded)
                self.assertEqual(self.left_to_module(compare), left)
                done.undo()

    def test_incomplete_frames_in_norms(self):
        """Frames that give no latent change those of HunyuanVideo 1.0."""
        if not hasattr(diffusers, "AutoencoderKLHunyuanVideo"):
            self.skipTest("an older diffusers")
        module, x = hunyuan10().eval(), torch.rand(1, 3, 7, 8, 16) * 2 - 1
        with torch.no_grad():
            expected = module.encode(x).latent_dist.mean
            gst_vae.accelerate(module)
            self.assertEqual(self.left_to_module(
                lambda: self.close(module.encode(x).latent_dist.mean, expected)), {"encode"})

    def test_wan_drops_incomplete_frames(self):
        module = wan21().eval()
        x = torch.rand(1, 3, 7, 16, 16) * 2 - 1
        with torch.no_grad():
            expected = module.encode(x).latent_dist.mean
        gst_vae.accelerate(module)
        self.close(module.encode(x).latent_dist.mean, expected)

    def test_switches(self):
        module = wan21().eval()
        z = torch.randn(1, 16, 1, 2, 2)
        gst_vae.accelerate(module)
        module.enable_tiling()
        with self.assertWarnsRegex(gst_vae.GstVaeWarning, "use_tiling has no effect"):
            module.decode(z)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module.decode(z)

    def test_half(self):
        module = wan21().eval()
        z = torch.randn(1, 16, 1, 2, 2)
        with torch.no_grad():
            expected = module.decode(z).sample
        done = gst_vae.accelerate(module.to(torch.bfloat16))
        made = module.decode(z.to(torch.bfloat16)).sample
        self.assertEqual(made.dtype, torch.bfloat16)
        self.assertLess((made.float() - expected).abs().max(), 0.1)
        module.to("cpu")
        self.assertEqual(done.vae._idle, {})

    def test_pipeline(self):
        class Pipe:
            vae = wan21().eval()
        done = gst_vae.accelerate(Pipe(), backend="ref")
        self.assertTrue(done.active)
        done.undo()
        done.undo()
        with self.assertRaisesRegex(TypeError, "pipeline with a vae"):
            gst_vae.accelerate(object())
        with self.assertRaisesRegex(TypeError, "no setting 'normalization' here"):
            gst_vae.accelerate(Pipe(), normalization="normalized")

    def test_unknown_network(self):
        with self.assertWarnsRegex(gst_vae.GstVaeWarning, "decoder_causal"):
            self.assertFalse(gst_vae.accelerate(ltx2(causal=True)).active)
        class Other(torch.nn.Linear):
            config, dtype = {}, torch.float32
        module = Other(2, 2)
        with self.assertWarnsRegex(gst_vae.GstVaeWarning, "Other stays as it is: "):
            self.assertFalse(gst_vae.accelerate(module).active)

    def test_other_networks(self):
        """Modules with the tensors of a network here that compute otherwise."""
        blocks = {"down_block_types": ("DownEncoderBlock2D",) * 4,
                  "up_block_types": ("UpDecoderBlock2D",) * 4,
                  "block_out_channels": (8,) * 4, "norm_num_groups": 4}
        for key, make in (
                ("act_fn", lambda: AutoencoderKL(**blocks, act_fn="relu")),
                ("act_fn", lambda: AutoencoderTiny(act_fn="gelu")),
                ("upsample_fn", lambda: AutoencoderTiny(upsample_fn="bilinear")),
                ("upsampling_scaling_factor",
                 lambda: AutoencoderTiny(upsampling_scaling_factor=4)),
                ("patch_size", lambda: AutoencoderKLWan(
                    base_dim=8, num_res_blocks=1, in_channels=12, out_channels=12,
                    patch_size=2))):
            with self.subTest(key), self.assertWarnsRegex(
                    gst_vae.GstVaeWarning, f"config.json states {key} "):
                self.assertFalse(gst_vae.accelerate(make()).active)

    def test_more_channels(self):
        """What the module returns is not a larger picture."""
        module = AutoencoderKLWan(base_dim=8, num_res_blocks=1, out_channels=12).eval()
        z = torch.randn(1, 16, 1, 2, 2)
        with torch.no_grad():
            expected = module.decode(z).sample
            self.assertTrue(gst_vae.accelerate(module).active)
            self.assertEqual(self.left_to_module(
                lambda: self.close(module.decode(z).sample, expected)), {"decode"})

    def test_tensors(self):
        """Torch's own tensors: types, strides, gradients, streams."""
        vae = gst_vae.open(small.weights("wan21"))
        z = torch.randn(16, 3, 2, 2)
        frames = vae.decode(z, backend="ref")
        self.assertEqual((frames.dtype, frames.shape), (torch.uint8, (9, 16, 16, 3)))
        turned = z.permute(1, 0, 2, 3).contiguous().permute(1, 0, 2, 3)
        self.assertTrue(torch.equal(vae.decode(turned, backend="ref"), frames))
        leaf = z.clone().requires_grad_()
        self.assertTrue(torch.equal(vae.decode(leaf, backend="ref"), frames))
        out = torch.empty_like(frames)
        self.assertIs(vae.decode(z, out=out, backend="ref"), out)
        self.assertTrue(torch.equal(out, frames))
        half = vae.decode(z.bfloat16(), dtype=torch.bfloat16, backend="ref")
        self.assertEqual(half.dtype, torch.bfloat16)
        with vae.decoder(16, 16, backend="ref") as decoder:
            parts = [decoder(latent) for latent in z.unbind(1)] + [decoder.finish()]
        self.assertTrue(torch.equal(torch.cat(parts), frames))
        latents = vae.encode(frames, latents=torch.float16, backend="ref")
        self.assertEqual((latents.dtype, latents.shape), (torch.float16, (16, 3, 2, 2)))


if __name__ == "__main__":
    small.main()
