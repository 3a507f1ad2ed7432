#!/usr/bin/env python3
"""Measures and runs the official networks of LTX-2 with the weights of data/ltx2_*.

    ltx2_vectors.py half FOLDER
    ltx2_vectors.py lengths FOLDER

half: how far the encoder of LTX-2.0 in fp16 is from itself in fp32. Writes the PSNR of the worst
of latent, mean and logvar to equality.json. lengths: decodes clips of 1 to 33 latents, each as a
whole, and encodes as many. Writes lengths.safetensors. Both run AutoencoderKLLTX2Video of
diffusers, which gives the bits of Lightricks/LTX-2, on a CPU, and check first that fp32 gives
the other vectors of FOLDER. Needs PyTorch, diffusers and safetensors.
"""
import glob
import json
import os
import re
import sys

import numpy as np
import torch
from diffusers import AutoencoderKLLTX2Video
from safetensors import safe_open
from safetensors.torch import load_file, save_file

LTX2_0 = {
    'block_out_channels': (8, 16, 32, 64), 'latent_channels': 4, 'decoder_causal': False,
    'decoder_block_out_channels': (8, 16, 32), 'encoder_spatial_padding_mode': 'zeros'}
CONFIGS = {
    'ltx2_0': LTX2_0,
    'ltx2_0_timestep': {**LTX2_0, 'timestep_conditioning': True},
    'ltx2_3': {
        'block_out_channels': (12, 24, 48, 48), 'latent_channels': 6, 'decoder_causal': False,
        'layers_per_block': (4, 6, 4, 2, 2), 'decoder_layers_per_block': (4, 6, 4, 2, 2),
        'decoder_block_out_channels': (12, 24, 24, 48), 'upsample_factor': (2, 2, 1, 2),
        'upsample_type': ('spatiotemporal', 'spatiotemporal', 'temporal', 'spatial'),
        'upsample_residual': (False,) * 4, 'decoder_inject_noise': (False,) * 5,
        'decoder_spatio_temporal_scaling': (True,) * 4,
        'decoder_spatial_padding_mode': 'zeros', 'encoder_spatial_padding_mode': 'zeros'}}
MOST = 33
TIMESTEP = 0.05


def diffusers_name(name):
    """The name of an official tensor."""
    name = name.replace('res_blocks', 'resnets').replace('decoder.last_', 'decoder.')
    name = re.sub(r'^encoder.down_blocks.8|^decoder.up_blocks.0', lambda m: m[0][:8] + 'mid_block',
                  name)
    name = re.sub(r'(down|up)_blocks\.(\d*[13579])\.',
                  lambda m: f'{m[1]}_blocks.{int(m[2]) // 2}.{m[1]}samplers.0.', name)
    name = re.sub(r'down_blocks\.(\d+)\.(?!down)',
                  lambda m: f'down_blocks.{int(m[1]) // 2}.', name)
    return re.sub(r'up_blocks\.(\d+)\.(?!up)',
                  lambda m: f'up_blocks.{int(m[1]) // 2 - 1}.', name)


def load(folder):
    """The network, and the statistics of its latents."""
    weights = load_file(os.path.join(folder, 'weights.safetensors'))
    net = AutoencoderKLLTX2Video(**CONFIGS[os.path.basename(os.path.normpath(folder))])
    named = {diffusers_name(k): v for k, v in weights.items() if k.startswith(('enc', 'dec'))}
    missing, unknown = net.load_state_dict(named, strict=False)
    encoder = any(k.startswith('encoder.') for k in named)
    missing = [k for k in missing if not k.startswith('latents_')]
    assert not unknown and all(k.startswith('encoder.') and not encoder for k in missing)
    return net.eval(), [weights[f'per_channel_statistics.{n}-of-means'].view(-1, 1, 1, 1)
                        for n in ('mean', 'std')]


def encode(net, statistics, video, kind=torch.float32):
    """latent, mean and logvar of [3, T, H, W], each [C, T, h, w]."""
    head = net.encoder.to(kind)(video[None].to(kind))[0]
    mean, std = [s.to(kind) for s in statistics]
    found = head[:len(mean)]
    return (found - mean) / std, found, head[len(mean):].expand_as(found)


def decode(net, statistics, latent):
    """The frames [T, H, W, 3] of [C, T, h, w]."""
    mean, std = statistics
    timestep = torch.tensor([TIMESTEP]) if net.config.timestep_conditioning else None
    return net.decoder((latent * std + mean)[None], timestep)[0].permute(1, 2, 3, 0)


def psnr(got, want):
    return (-10 * torch.log10(((got.double() - want.double()) ** 2).mean() / 4)).item()


def clips(folder, what):
    """The names and tensors of the files of FOLDER that begin with what."""
    for path in sorted(glob.glob(os.path.join(folder, what + '_*.safetensors'))):
        with safe_open(path, 'pt') as file:
            yield (os.path.splitext(os.path.basename(path))[0],
                   {k: file.get_tensor(k) for k in file.keys()})


def checked(folder):
    """The video and latents of each clip to encode; fp32 gives the bits of the vectors."""
    for name, clip in clips(folder, 'encode'):
        video = clip['video_u8']
        video = video[:1 + (len(video) - 1) // 8 * 8].permute(3, 0, 1, 2) / 127.5 - 1
        wants = [clip[n] for n in ('latent', 'mean', 'logvar')]
        same = encode(*load(folder), video)
        assert all(torch.equal(g, w) for g, w in zip(same, wants)), name
        yield name, video, wants


def half(folder):
    path = os.path.join(folder, 'equality.json')
    with open(path, encoding='utf-8') as file:
        equality = json.load(file)
    for name, video, wants in checked(folder):
        got = encode(*load(folder), video, torch.float16)
        found = min(psnr(g, w) for g, w in zip(got, wants))
        print('%s: %.2f dB' % (name, found))
        equality[name]['fp16 PSNR dB (peak 2)'] = round(found, 2)
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(equality, file, indent=1)


def generate(name, dims, scale):
    """The numbers of vae_generate() in engine/model/synthetic_weights.c."""
    seed = 0xcbf29ce484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001b3 % 2 ** 64
    z = np.uint64(seed) + (np.arange(1, 1 + int(np.prod(dims)), dtype=np.uint64)
                           * np.uint64(0x9e3779b97f4a7c15))
    for shift, factor in ((30, 0xbf58476d1ce4e5b9), (27, 0x94d049bb133111eb)):
        z = (z ^ z >> np.uint64(shift)) * np.uint64(factor)
    z = (z ^ z >> np.uint64(31)) >> np.uint64(40)
    return torch.from_numpy(((z * 2. ** -23 - 1) * scale).astype(np.float32).reshape(dims))


def lengths(folder):
    """The means of 32x32 pixels of each frame, clip after clip, and the latents."""
    net, statistics = load(folder)
    for name, clip in clips(folder, 'decode'):
        if 'frames' in clip and 'noise' not in clip:
            assert torch.equal(decode(net, statistics, clip['latent']), clip['frames']), name
    latent = generate('latent', [net.config.latent_channels, MOST, 2, 2], 3 ** .5)
    means = []
    for t in range(1, MOST + 1):
        frames = decode(net, statistics, latent[:, :t]).double()
        means.append(frames.unflatten(1, (2, 32)).unflatten(3, (2, 32)).mean((2, 4)).float())
        assert len(means[-1]) == 8 * t - 7
    found = {'frames_mean32': torch.cat(means)}
    if list(checked(folder)):
        video = generate('video', [3, 8 * MOST - 7, 32, 32], 1)
        found['latent'] = encode(net, statistics, video)[0].contiguous()
        for t in range(1, MOST + 1):
            short = encode(net, statistics, video[:, :8 * t - 7])[0]
            assert (short - found['latent'][:, :t]).abs().max() < 1e-5, t
    save_file(found, os.path.join(folder, 'lengths.safetensors'))


if __name__ == '__main__':
    with torch.no_grad():
        {'half': half, 'lengths': lengths}[sys.argv[1]](sys.argv[2])
