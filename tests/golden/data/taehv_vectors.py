#!/usr/bin/env python3
"""Makes the small vectors of the TAEHV family by running the official code.

    taehv_vectors.py TAEHV.PY TAEHV_WIDE.PY OUT [KIND...]

TAEHV.PY is madebyollin/taehv at commit 1f14a56, TAEHV_WIDE.PY the same file of its branch
2026_03_11_taeltx23_wide (32ac014), which alone knows taeltx2_3_wide. OUT becomes what
tests/golden/data/taehv has for the networks of KINDS, or for those named. Needs PyTorch.
"""
import copy
import importlib.util
import json
import os
import struct
import sys
import types
import zlib
from unittest import mock

import numpy as np
import torch

# Seed, new widths of the decoder's channels, the latents to decode and the frames to encode.
BASE = {256: 8, 128: 6, 64: 4}
KINDS = {
    'taehv': (4011, BASE, (2, 2, 2), (5, 16, 16)),
    'taehv1_5': (4051, BASE, (2, 1, 2), (5, 16, 32)),
    'taehv1_5_super': (4071, {512: 12, 256: 8, 128: 6, 64: 4}, (2, 1, 2), None),
    'taeltx_2': (4061, BASE, (1, 2, 1), (9, 32, 32)),
    'taecvx': (4401, BASE, (3, 2, 2), (9, 16, 16)),
    'taeos1_3': (4501, BASE, (2, 2, 3), (5, 16, 24)),
    'taeh3': (4801, BASE, (7, 1, 1), (22, 16, 32)),
    'taeltx2_3': (4601, BASE, (1, 1, 2), (9, 32, 32)),
    'taeltx2_3_wide': (4701, {1024: 12, 512: 8, 256: 8, 64: 4}, (2, 1, 1), None),
}
GROUP = 4  # channels of a group of the small wide network, 64 in the released one


class Silent:
    """Stands for tqdm, whose progress bars nobody sees."""

    def __init__(self, it=None, **_):
        self.it = it

    def __iter__(self):
        return iter(self.it)

    def update(self, _):
        pass

    def close(self):
        pass


def load(path):
    if 'tqdm' not in sys.modules and not importlib.util.find_spec('tqdm'):
        fake = types.SimpleNamespace(tqdm=Silent)
        sys.modules.update({'tqdm': types.ModuleType('tqdm'), 'tqdm.auto': fake})
    spec = importlib.util.spec_from_file_location('taehv', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def resize(conv, c_in, c_out):
    depthwise = conv.groups == conv.weight.shape[0]
    conv.groups = c_out if depthwise else c_out // GROUP if conv.groups > 1 else 1
    conv.weight = torch.nn.Parameter(
        torch.empty(c_out, c_in // conv.groups, *conv.weight.shape[2:]))
    if conv.bias is not None:
        conv.bias = torch.nn.Parameter(torch.empty(c_out))


def narrow(module, layers, width):
    """Gives the convolutions of an official encoder or decoder other numbers of channels."""
    convs = [layer for layer in layers if isinstance(layer, torch.nn.Conv2d)]
    for i, layer in enumerate(layers):
        if isinstance(layer, torch.nn.Conv2d):
            c_out, c_in = layer.weight.shape[:2]
            # Pixels that a shuffle makes of the channels.
            fold = 4 if isinstance(layers[min(i + 2, len(layers) - 1)],
                                   torch.nn.PixelShuffle) else 1
            resize(layer, c_in if layer is convs[0] else width[c_in],
                   c_out if layer is convs[-1] else fold * width[c_out // fold])
        elif isinstance(layer, module.TPool):
            n = width[layer.conv.weight.shape[0]]
            resize(layer.conv, layer.stride * n, n)
        elif isinstance(layer, module.TGrow):
            n = width[layer.conv.weight.shape[1]]
            resize(layer.conv, n, layer.stride * n)
        elif hasattr(layer, 'conv'):  # a memory block
            inner = [c for c in layer.conv if isinstance(c, torch.nn.Conv2d)]
            super_block = inner[0].groups == inner[0].weight.shape[0]
            n = width[inner[-1].weight.shape[0]]
            sides = [2 * n, 2 * n, 4 * n, n] if super_block else [2 * n] + len(inner) * [n]
            for c, c_in, c_out in zip(inner, sides, sides[1:]):
                resize(c, c_in, c_out)


def values(name, shape, seed):
    """Seeded random weights that keep the variance; exact in fp16."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    a = rng.standard_normal(shape)
    last = name.startswith('decoder.22.')
    if len(shape) == 1:
        a = 0.1 * a + (0.5 if last else 0)
    else:
        a *= (0.35 if last else 1.2) / np.sqrt(np.prod(shape[1:]))
    return a.astype(np.float16)


def make_net(module, kind):
    seed, width, _, _ = KINDS[kind]
    tae = module.TAEHV
    # The code chooses the network by the name of a file, which it then loads.
    with mock.patch.object(torch, 'load'), mock.patch.object(tae, 'patch_tgrow_layers'), \
            mock.patch.object(tae, 'load_state_dict'):
        net = tae(kind + '.pth')
    narrow(module, net.encoder, {64: 4})
    narrow(module, net.decoder, width)
    state = {k: values(k, tuple(v.shape), seed) for k, v in net.state_dict().items()}
    net.load_state_dict({k: torch.from_numpy(v).float() for k, v in state.items()})
    return net, state


def write(path, tensors, meta):
    header, at = {'__metadata__': meta}, 0
    for name, a in tensors.items():
        header[name] = {'dtype': {'float32': 'F32', 'float16': 'F16', 'uint8': 'U8'}[str(a.dtype)],
                        'shape': a.shape, 'data_offsets': [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(path + '.safetensors', 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for a in tensors.values():
            f.write(np.ascontiguousarray(a).tobytes())


def decode(net, latent):
    """Frames [T, H, W, 3] before the clamp."""
    def shuffle(x):
        return torch.nn.functional.pixel_shuffle(x, net.patch_size) if net.patch_size > 1 else x
    with mock.patch.object(net, 'postprocess_output_frames', shuffle):
        x = net.decode_video(latent, show_progress_bar=False)
    return x[0].permute(0, 2, 3, 1).float()


def bf16_error(net, shape):
    """Mean square error of the official code in bf16, over latents of that shape. One small clip
    alone says little: its PSNR is up to 2 dB from the mean."""
    low, errors = copy.deepcopy(net).bfloat16(), []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        x = torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
        x = x.permute(1, 0, 2, 3)[None]
        want = decode(net, x).clamp(0, 1)
        errors.append(((decode(low, x.bfloat16()).clamp(0, 1) - want) ** 2).mean().item())
    return np.mean(errors)


def decode_vectors(net, kind, folder, meta):
    seed, _, (t, h, w), _ = KINDS[kind]
    rng = np.random.default_rng(seed + 1)
    latent = rng.standard_normal((net.latent_channels, t, h, w)).astype(np.float32)
    x = torch.from_numpy(latent).permute(1, 0, 2, 3)[None]
    frames = decode(net, x)
    official = net.decode_video(x, show_progress_bar=False)[0].permute(0, 2, 3, 1)
    assert torch.equal(frames.clamp(0, 1), official)
    sequential = net.decode_video(x, parallel=False, show_progress_bar=False)[0]
    error = bf16_error(net, latent.shape)
    name = 'decode_t%d_%dx%d' % (t, h, w)
    write(os.path.join(folder, name), {'latent': latent, 'frames': frames.numpy()}, meta)
    print('%s %s: frames %.2f +- %.2f' % (kind, name, frames.mean(), frames.std()))
    return {name: {
        'sequential vs parallel, max abs':
            (sequential.permute(0, 2, 3, 1) - official).abs().max().item(),
        'bf16 PSNR dB (peak 1, clamped)': -10 * np.log10(error)}}


def encode_vectors(net, kind, folder, meta):
    seed, _, _, (frames, height, width) = KINDS[kind]
    rng = np.random.default_rng(seed + 2)
    video = rng.integers(0, 256, (frames, height, width, 3), np.uint8)
    x = torch.from_numpy(video).permute(0, 3, 1, 2)[None].float() / 255
    latent = net.encode_video(x, show_progress_bar=False)[0].permute(1, 0, 2, 3)
    name = 'encode_f%d_%dx%d' % (frames, height, width)
    write(os.path.join(folder, name), {'video_u8': video, 'latent': latent.numpy()}, meta)
    print('%s %s: latents %.2f +- %.2f' % (kind, name, latent.mean(), latent.std()))


@torch.no_grad()
def main():
    usual, wide = load(sys.argv[1]), load(sys.argv[2])
    for kind in sys.argv[4:] or KINDS:
        module = wide if kind == 'taeltx2_3_wide' else usual
        folder = os.path.join(sys.argv[3], kind)
        os.makedirs(folder, exist_ok=True)
        net, state = make_net(module, kind)
        # No text is long: jansson can abort or lose a byte where memory runs out in one.
        meta = {'seed': str(KINDS[kind][0]), 'vae.variant': kind}
        if kind.endswith(('_super', '_wide')) or kind in ('taeh3', 'taehv1_5'):
            del meta['vae.variant']  # its blocks or channels tell
        write(os.path.join(folder, 'weights'), state, meta)
        equality = decode_vectors(net, kind, folder, meta)
        if KINDS[kind][3]:
            encode_vectors(net, kind, folder, meta)
        with open(os.path.join(folder, 'equality.json'), 'w') as f:
            json.dump(equality, f, indent=1)


if __name__ == '__main__':
    main()
