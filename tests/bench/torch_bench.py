"""Frames per second of a published PyTorch VAE with random weights on the CPU.

    torch_bench.py OFFICIAL MODEL decode|encode fp32|bf16 WxH FRAMES

OFFICIAL is a folder with checkouts named Wan2.1, Wan2.2 and taehv, each of the
repository that published the network. Prints frames/s of the better of two
runs over the whole clip, after a short one to warm up; nothing, with exit code
1, for a network that it does not know. TAEHV runs frame by frame, which is the
faster of its two ways on a CPU.
"""
import importlib.util
import os
import sys
import time


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def wan(official, arch, dtype):
    """(encode, decode) of [1, 3, T, H, W] and [1, Z, t, h, w]."""
    import torch
    old = arch == 'wan2.1'
    path = ('Wan2.1/wan/modules/vae.py' if old else
            'Wan2.2/wan/modules/vae2_2.py')
    module = load(os.path.join(official, path), 'official')
    sizes = (dict(dim=96, z_dim=16) if old else
             dict(dim=160, dec_dim=256, z_dim=48))
    net = module.WanVAE_(dim_mult=[1, 2, 4, 4], num_res_blocks=2,
                         attn_scales=[], temperal_downsample=[False, True, True],
                         **sizes).eval().to(dtype)
    z = sizes['z_dim']
    scale = [torch.zeros(z, dtype=dtype), torch.ones(z, dtype=dtype)]
    return (lambda x: net.encode(x, scale)), (lambda y: net.decode(y, scale))


def taehv(official, arch, dtype):
    import torch
    module = load(os.path.join(official, 'taehv/taehv.py'), 'official')
    kind = (dict(patch_size=2, latent_channels=48) if arch == 'taew2_2' else
            dict(patch_size=1, latent_channels=16))
    net = module.TAEHV(checkpoint_path=None, **kind).eval().to(dtype)
    frames_first = lambda x: x.transpose(1, 2)
    video = dict(parallel=False, show_progress_bar=False)
    return (lambda x: net.encode_video((frames_first(x) + 1) / 2, **video),
            lambda y: net.decode_video(frames_first(y), **video))


def main():
    official, arch, direction, precision, size, frames = sys.argv[1:]
    makers = {'wan2.1': wan, 'wan2.2': wan, 'taew2_1': taehv, 'taew2_2': taehv}
    if arch not in makers:
        sys.exit(1)
    import torch
    dtype = {'fp32': torch.float32, 'bf16': torch.bfloat16}[precision]
    width, height = map(int, size.split('x'))
    frames = int(frames)
    encode, decode = makers[arch](official, arch, dtype)
    z, factor = (48, 16) if '2.2' in arch or '2_2' in arch else (16, 8)

    def run(n):
        latents = (n - 1) // 4 + 1
        shape = ((1, z, latents, -(-height // factor), -(-width // factor))
                 if direction == 'decode' else (1, 3, n, height, width))
        x = torch.rand(shape).to(dtype) * 2 - 1
        start = time.perf_counter()
        with torch.no_grad():
            (decode if direction == 'decode' else encode)(x)
        return time.perf_counter() - start

    run(5)
    print(f'{frames / min(run(frames), run(frames)):.3f}')


if __name__ == '__main__':
    main()
