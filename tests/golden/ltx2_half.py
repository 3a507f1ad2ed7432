#!/usr/bin/env python3
"""Measures how far the official encoder of LTX-2.0 in fp16 is from itself in fp32.

    ltx2_half.py FOLDER

FOLDER has vectors, as data/ltx2_0 has. Runs AutoencoderKLLTX2Video of diffusers, which gives
the bits of Lightricks/LTX-2, on a CPU. Writes the PSNR of the worst of latent, mean and logvar
to equality.json. Needs PyTorch, diffusers and safetensors.
"""
import glob
import json
import os
import re
import sys

import torch
from diffusers import AutoencoderKLLTX2Video
from safetensors import safe_open
from safetensors.torch import load_file

CONFIG = {
    'block_out_channels': (8, 16, 32, 64), 'latent_channels': 4,
    'decoder_block_out_channels': (8, 16, 32), 'encoder_spatial_padding_mode': 'zeros'}


def diffusers_name(name):
    """That of an official tensor of the encoder."""
    name = name.replace('res_blocks', 'resnets')
    name = name.replace('down_blocks.8.', 'mid_block.')
    name = re.sub(r'down_blocks\.([1357])\.',
                  lambda m: f'down_blocks.{int(m[1]) // 2}.downsamplers.0.', name)
    return re.sub(r'down_blocks\.([0246])\.resnets',
                  lambda m: f'down_blocks.{int(m[1]) // 2}.resnets', name)


def make_encoder(folder):
    weights = load_file(os.path.join(folder, 'weights.safetensors'))
    net = AutoencoderKLLTX2Video(**CONFIG)
    encoder = {diffusers_name(k)[len('encoder.'):]: v for k, v in weights.items()
               if k.startswith('encoder.')}
    net.encoder.load_state_dict(encoder)
    return net.encoder.eval(), [weights[f'per_channel_statistics.{n}-of-means'].view(-1, 1, 1, 1)
                                for n in ('mean', 'std')]


def encode(encoder, statistics, video, kind):
    """latent, mean and logvar, each [C, T, h, w]."""
    head = encoder.to(kind)(video.to(kind))[0]
    mean, std = [s.to(kind) for s in statistics]
    found = head[:len(mean)]
    return (found - mean) / std, found, head[len(mean):].expand_as(found)


def psnr(got, want):
    return (-10 * torch.log10(((got.double() - want.double()) ** 2).mean() / 4)).item()


@torch.no_grad()
def main():
    folder = sys.argv[1]
    path = os.path.join(folder, 'equality.json')
    with open(path, encoding='utf-8') as file:
        equality = json.load(file)
    for clip in sorted(glob.glob(os.path.join(folder, 'encode_*.safetensors'))):
        with safe_open(clip, 'pt') as file:
            video, *wants = [file.get_tensor(n) for n in ('video_u8', 'latent', 'mean', 'logvar')]
        video = video[:1 + (len(video) - 1) // 8 * 8]
        video = video.permute(3, 0, 1, 2)[None] / 127.5 - 1
        name = os.path.splitext(os.path.basename(clip))[0]
        same = encode(*make_encoder(folder), video, torch.float32)
        assert all(torch.equal(g, w) for g, w in zip(same, wants)), name
        got = encode(*make_encoder(folder), video, torch.float16)
        found = min(psnr(g, w) for g, w in zip(got, wants))
        print('%s: %.2f dB' % (name, found))
        equality[name]['fp16 PSNR dB (peak 2)'] = round(found, 2)
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(equality, file, indent=1)


if __name__ == '__main__':
    main()
