"""Frames per second of a published PyTorch VAE with random weights.

    torch_bench.py [OPTION...] OFFICIAL MODEL decode|encode PRECISION WxH FRAMES

OFFICIAL is a folder with checkouts named Wan2.1, Wan2.2, SeedVR and taehv, or
some of them, each of the repository that published the network. PRECISION is
fp32, tf32, fp16 or bf16. Prints frames/s of the best run over the whole clip,
after some to warm up; nothing, with exit code 1, for a network that it does not
know. A run takes and gives what a stream of gst-vae does: latents in fp32 and
pictures in 8-bit RGB, both in the memory of the host, pinned on a GPU.

  --device cpu|cuda  cpu unless given
  --mode MODE        eager (the default); channels_last: weights and input in
                     that layout; compile: torch.compile of encoder and decoder;
                     graphs: the same with CUDA graphs (reduce-overhead)
  --runs N           2 unless given
  --json             prints all that is known instead

Wan and SeedVR2 need einops, SeedVR2 diffusers. TAEHV runs frame by frame on a
CPU and all at once on a GPU, which is the faster of its two ways there.
"""
import argparse
import importlib.util
import json
import os
import platform
import sys
import time
import types

Z = {'wan2.1': (16, 8), 'wan2.2': (48, 16), 'seedvr2': (16, 8),
     'taew2_1': (16, 8), 'taew2_2': (48, 16)}


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Network:
    """encode([1, 3, T, H, W], -1 to 1) and decode([1, Z, t, h, w])."""

    def __init__(self, net):
        self.net = net

    def compile(self, **how):
        import torch
        for part in 'encoder', 'decoder':
            setattr(self.net, part,
                    torch.compile(getattr(self.net, part), **how))


class Wan(Network):
    def __init__(self, official, arch):
        old = arch == 'wan2.1'
        path = ('Wan2.1/wan/modules/vae.py' if old else
                'Wan2.2/wan/modules/vae2_2.py')
        module = load(os.path.join(official, path), 'official')
        sizes = (dict(dim=96, z_dim=16) if old else
                 dict(dim=160, dec_dim=256, z_dim=48))
        self.z = sizes['z_dim']
        super().__init__(module.WanVAE_(
            dim_mult=[1, 2, 4, 4], num_res_blocks=2, attn_scales=[],
            temperal_downsample=[False, True, True], **sizes))

    def scale(self, like):
        import torch
        return [torch.zeros(self.z).to(like), torch.ones(self.z).to(like)]

    def encode(self, x):
        return self.net.encode(x, self.scale(x))

    def decode(self, y):
        return self.net.decode(y, self.scale(y))


class SeedVR2(Network):
    def __init__(self, official, arch):
        sys.path.insert(0, os.path.join(official, 'SeedVR'))
        import models.video_vae_v3.modules.attn_video_vae as module
        super().__init__(module.VideoAutoencoderKL(
            act_fn='silu', block_out_channels=[128, 256, 512, 512],
            in_channels=3, out_channels=3, latent_channels=16,
            layers_per_block=2, norm_num_groups=32, slicing_sample_min_size=4,
            temporal_scale_num=2, inflation_mode='pad', use_quant_conv=False,
            use_post_quant_conv=False,
            down_block_types=['DownEncoderBlock3D'] * 4,
            up_block_types=['UpDecoderBlock3D'] * 4))
        self.net.enable_slicing()

    def encode(self, x):
        return self.net.encode(x)

    def decode(self, y):
        return self.net.decode(y)


class Taehv(Network):
    def __init__(self, official, arch):
        if not importlib.util.find_spec('tqdm'):
            fake = types.SimpleNamespace(tqdm=lambda it=None, **_: it)
            sys.modules.update({'tqdm': types.ModuleType('tqdm'),
                                'tqdm.auto': fake})
        module = load(os.path.join(official, 'taehv/taehv.py'), 'official')
        kind = (dict(patch_size=2, latent_channels=48) if arch == 'taew2_2' else
                dict(patch_size=1, latent_channels=16))
        super().__init__(module.TAEHV(checkpoint_path=None, **kind))

    def compile(self, **how):  # its code takes the two apart
        import torch
        self.encode = torch.compile(self.encode, **how)
        self.decode = torch.compile(self.decode, **how)

    def video(self, x):
        return dict(parallel=x.device.type == 'cuda', show_progress_bar=False)

    def encode(self, x):
        return self.net.encode_video((x.transpose(1, 2) + 1) / 2,
                                     **self.video(x))

    def decode(self, y):
        return self.net.decode_video(y.transpose(1, 2), **self.video(y))


def make(a):
    """The network as the options say."""
    import torch
    if not hasattr(torch.nn.functional, 'scaled_dot_product_attention'):
        def attention(q, k, v):  # before PyTorch 2
            return torch.softmax(q @ k.transpose(-1, -2) /
                                 q.shape[-1] ** 0.5, -1) @ v
        torch.nn.functional.scaled_dot_product_attention = attention
    kind = {'w': Wan, 's': SeedVR2, 't': Taehv}[a.model[0]]
    dtype = {'fp16': torch.float16, 'bf16': torch.bfloat16}.get(
        a.precision, torch.float32)
    torch.backends.cudnn.allow_tf32 = a.precision == 'tf32'
    torch.backends.cuda.matmul.allow_tf32 = a.precision == 'tf32'
    # The fastest of cuDNN's ways, as ours are timed, too; without max-autotune
    # compiled code calls it as well.
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    made = kind(a.official, a.model)
    made.net.eval().requires_grad_(False).to(a.device, dtype)
    if a.mode == 'channels_last':
        for m in made.net.modules():
            layout = {torch.nn.Conv2d: torch.channels_last,
                      torch.nn.Conv3d: torch.channels_last_3d}
            for conv, wanted in layout.items():
                if isinstance(m, conv):
                    m.weight.data = m.weight.data.contiguous(
                        memory_format=wanted)
    if a.mode == 'compile':
        made.compile()
    if a.mode == 'graphs':
        made.compile(mode='reduce-overhead')
    return made, dtype


def host(a, shape, dtype):
    """A buffer of the host, as an element's pool has it."""
    import torch
    return torch.empty(shape, dtype=dtype, pin_memory=a.device == 'cuda')


def pictures_of(a, y):
    """A decoder's frames as 8-bit RGB, (T, H, W, 3) on the device."""
    import torch
    if a.model.startswith('tae'):  # [1, T, 3, H, W], 0 to 1
        y = y[0].permute(0, 2, 3, 1) * 255
    else:  # [1, 3, T, H, W], or without the 1, -1 to 1
        y = (y[0] if y.dim() == 5 else y).permute(1, 2, 3, 0) * 127.5 + 127.5
    return y.round().clamp(0, 255).to(torch.uint8).contiguous()


def network_input(a, x, dtype):
    """The input of the network, from the host's latents or pictures."""
    import torch
    x = x.to(a.device, non_blocking=True).to(dtype)
    if a.direction == 'encode':
        x = (x / 127.5 - 1).permute(3, 0, 1, 2)[None].contiguous()
    if a.mode == 'channels_last':
        x = x.contiguous(memory_format=torch.channels_last_3d)
    return x


def tensor_of(y):
    """The tensor in what a network gives: a tuple, a result of diffusers, or a
    distribution, whose mean it is."""
    import torch
    while not isinstance(y, torch.Tensor):
        if isinstance(y, (tuple, list)):
            y = y[0]
            continue
        for name in 'sample', 'latent', 'latent_dist', 'mean':
            value = getattr(y, name, None)
            if value is not None and not callable(value):
                y = value
                break
        else:
            raise TypeError('results of type %s' % type(y).__name__)
    return y


def deliver(a, y, kept):
    """Copies the results to the host; kept: a buffer of an earlier run."""
    import torch
    y = tensor_of(y)
    y = pictures_of(a, y) if a.direction == 'decode' else y.to(torch.float32)
    if kept is None or kept.shape != y.shape:
        kept = host(a, y.shape, y.dtype)
    kept.copy_(y, non_blocking=True)
    return kept


def run(a, made, dtype, frames, kept=None):
    """Seconds of one run over so many frames, and the buffer of its results."""
    import torch
    z, factor = Z[a.model]
    width, height = map(int, a.size.split('x'))
    latents = (frames - 1) // 4 + 1
    if a.direction == 'decode':
        x = host(a, (1, z, latents, -(-height // factor), -(-width // factor)),
                 torch.float32).uniform_(-1, 1)
    else:
        x = host(a, (frames, height, width, 3), torch.uint8).random_(0, 256)
    gpu = a.device == 'cuda'
    if gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.no_grad():
        work = made.decode if a.direction == 'decode' else made.encode
        kept = deliver(a, work(network_input(a, x, dtype)), kept)
    if gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - start, kept


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('official')
    parser.add_argument('model')
    parser.add_argument('direction', choices=['decode', 'encode'])
    parser.add_argument('precision', choices=['fp32', 'tf32', 'fp16', 'bf16'])
    parser.add_argument('size')
    parser.add_argument('frames', type=int)
    parser.add_argument('--device', default='cpu', choices=['cpu', 'cuda'])
    parser.add_argument('--mode', default='eager',
                        choices=['eager', 'channels_last', 'compile', 'graphs'])
    parser.add_argument('--runs', type=int, default=2)
    parser.add_argument('--json', action='store_true')
    a = parser.parse_args()
    if a.model not in Z:
        sys.exit(1)
    import torch
    made, dtype = make(a)
    # Compiled code and cuDNN's choices are for one length, and what is compiled
    # is so again when it sees what changes between runs.
    gpu = a.device == 'cuda'
    first, kept = run(a, made, dtype, a.frames if gpu else 5)
    for _ in range(2 if a.mode in ('compile', 'graphs') else 0):
        run(a, made, dtype, a.frames, kept)
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    times = [run(a, made, dtype, a.frames, kept)[0] for _ in range(a.runs)]
    if not a.json:
        print(f'{a.frames / min(times):.3f}')
        return
    print(json.dumps({
        'model': a.model, 'direction': a.direction, 'precision': a.precision,
        'size': a.size, 'frames': a.frames, 'mode': a.mode,
        'fps': round(a.frames / min(times), 3), 'first_s': round(first, 4),
        'seconds': [round(t, 4) for t in times],
        'peak_bytes': torch.cuda.max_memory_allocated() if gpu else None,
        'benchmark': torch.backends.cudnn.benchmark,
        'torch': torch.__version__, 'cudnn': torch.backends.cudnn.version(),
        'device': (torch.cuda.get_device_name() if gpu else
                   platform.processor() or platform.machine())}))


if __name__ == '__main__':
    main()
