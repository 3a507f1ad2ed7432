#!/usr/bin/env python3
"""Makes the vectors of hunyuan10/ in the tiles of 65 frames, one every 48, of the official
code.

    hunyuan_vectors.py HUNYUANVIDEO OUT

HUNYUANVIDEO is a checkout of Tencent/HunyuanVideo, commit fa14b00. Writes to OUT the two
clips of four tiles, and prints the lines of equality.json. Needs PyTorch, diffusers and
einops.
"""
import json
import os
import sys

import numpy as np
import torch

from taehv_vectors import write

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'hunyuan10')
LATENTS, SEED, SCALE = 39, 6221, 0.476986  # the last tile is shorter than what it blends
META = {'law': json.dumps({'tile': 16, 'stride': 12})}


def load_weights(path):
    with open(path, 'rb') as f:
        length = int.from_bytes(f.read(8), 'little')
        header, data = json.loads(f.read(length)), f.read()
    header.pop('__metadata__')
    return {name: torch.frombuffer(bytearray(data[slice(*entry['data_offsets'])]),
                                   dtype=torch.float32).reshape(entry['shape'])
            for name, entry in header.items()}


def make_net(checkout):
    sys.path.insert(0, checkout)
    from hyvideo.vae.autoencoder_kl_causal_3d import AutoencoderKLCausal3D
    net = AutoencoderKLCausal3D(
        down_block_types=('DownEncoderBlockCausal3D',) * 4, latent_channels=4,
        up_block_types=('UpDecoderBlockCausal3D',) * 4, layers_per_block=2,
        block_out_channels=(8, 8, 16, 16), norm_num_groups=4, sample_size=256)
    net.load_state_dict(load_weights(os.path.join(HERE, 'weights.safetensors')))
    net.enable_temporal_tiling()
    return net.eval()


def level(n, unit):
    """Numbers that swing, so that no two tiles have the same group norms."""
    return (1 + 0.8 * np.sin(np.arange(n) / (4 * unit))).astype(np.float32)


def psnr(a, b):
    return -10 * np.log10(((a.clamp(-1, 1) - b.clamp(-1, 1)) ** 2).mean().item() / 4)


def decode_vector(net, low, out):
    rng = np.random.default_rng(SEED)
    latent = rng.standard_normal((4, LATENTS, 1, 1)).astype(np.float32)
    latent *= level(LATENTS, 1)[:, None, None]
    z = torch.from_numpy(latent)[None] / SCALE
    frames = net.decode(z).sample
    found = low.decode(z.bfloat16()).sample.float()
    name = 'decode_t%d_1x1_official_tiles' % LATENTS
    write(os.path.join(out, name),
          {'latent': latent, 'frames': frames[0].permute(1, 2, 3, 0).numpy()}, META)
    return {name: {
        'bf16 weights+activations on CPU vs fp32: max abs': (found - frames).abs().max().item(),
        'bf16 PSNR dB (peak 2, clamped)': psnr(found, frames)}}


def encode_vector(net, low, out):
    n = 4 * LATENTS - 3
    rng = np.random.default_rng(SEED + 1)
    noise = rng.standard_normal((n, 8, 16, 3)).astype(np.float32)
    video = 128 + 40 * noise * level(n, 4)[:, None, None, None]
    video = np.clip(video, 0, 255).astype(np.uint8)
    x = torch.from_numpy(video).permute(3, 0, 1, 2)[None].float() / 127.5 - 1
    moments = net.encode(x).latent_dist.parameters[0]
    mean, logvar = moments.numpy()[:4], moments.numpy()[4:]
    found = low.encode(x.bfloat16()).latent_dist.parameters[0].float()
    name = 'encode_f%d_8x16_official_tiles' % n
    write(os.path.join(out, name), {'video_u8': video, 'mean': mean, 'logvar': logvar,
                                    'latent': mean * np.float32(SCALE)}, META)
    return {name: {'bf16 on CPU vs fp32: max abs on mean':
                   np.abs(found.numpy()[:4] - mean).max().item()}}


@torch.no_grad()
def main():
    net, low = make_net(sys.argv[1]), make_net(sys.argv[1]).bfloat16()
    lines = {**decode_vector(net, low, sys.argv[2]), **encode_vector(net, low, sys.argv[2])}
    print(json.dumps(lines, indent=1))


if __name__ == '__main__':
    main()
