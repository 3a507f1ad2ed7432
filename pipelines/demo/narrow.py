#!/usr/bin/env python3
"""Make the weights of a trained demo model exact in fp16 and in bf16, and its last layers robust against rounding.

    narrow.py CLIPS DEMO.safetensors OUT.safetensors [--hold NAME ...] [--batches N]

CLIPS and --hold are those of train.py. The script changes the encoder and the decoder in three steps. It measures each
step on batches of the training clips:

1. The last norm gives values far from zero with small differences, and the last convolution reads these differences.
   Rounding the values to 16 bits was three quarters of the error of a decoded picture, and nine tenths of that of a
   latent. The script moves such channels to zero, and scales them so that SiLU has the same curvature there. It then
   fits the last convolution by least squares, so that the rounded inputs give the same output (ridge regression, with
   the power of the rounding as the ridge).
2. It rounds every weight to 8 bits of mantissa, within the exponents of fp16.
3. Rounding changes the mean of a layer's output. The script subtracts this change from the layer's bias, one layer
   after the other, each behind the layers that are already rounded. One weight corrects the remaining error of the
   last biases.

Prints the effect of each step on the output, in dB as in train.py, also on the held-out clips.
"""
import argparse, glob, os, random
import numpy as np
import torch
import torch.nn as nn

import nets, train

# The mean square of rounding to 8 bits of mantissa, beside the square of the value: an ulp of 2^-7 at 1 to 2, whose
# twelfth part is spread over values of mean square 7/3.
ROUNDING = 2. ** -14 / 12 / (7 / 3)
RIDGE = 2       # times that: the rounding of its inputs weighs more than to stay the same
FAR = 6         # deviations from zero, from where on values are moved there
SMALL = .002    # least deviation of those that were, which fp16 still has in full


def narrow(x):
    """To bf16 and within fp16."""
    x = x.bfloat16().half().float()
    return x.bfloat16().float()


class Stop(Exception):
    pass


class Half:
    """The encoder or the decoder of a VAE, and batches of what goes in."""

    def __init__(self, net, inputs):
        self.net, self.inputs = net, inputs
        self.layers = [m for m in net.modules() if isinstance(m, (nets.CausalConv, nn.Linear))]

    def run(self, layer=None, before=False):
        """Yields the output of a layer (or its input), or of the net, for each batch."""
        got = []

        def stop(_, given, out):
            got.append(given[0] if before else out)
            raise Stop
        hook = layer.register_forward_hook(stop) if layer else None
        try:
            for x in self.inputs:
                try:
                    got.append(self.net(x))
                except Stop:
                    pass
                yield got.pop()
        finally:
            if hook:
                hook.remove()

    def means(self):
        """(layer, mean of each channel of its output), as they come."""
        found = {}
        hooks = [m.register_forward_hook(lambda m, _, y: found.setdefault(m, []).append(total(m, y))) for m in self.layers]
        for _ in self.run():
            pass
        for h in hooks:
            h.remove()
        return [(m, mean(v)) for m, v in found.items()]


def total(layer, y):
    """Sum of each channel, and how many values: a linear layer's are in the last dimension."""
    conv = isinstance(layer, nets.CausalConv)
    return y.sum((0, 2, 3, 4) if conv else (0, 1, 2)), y.numel() // y.shape[1 if conv else 3]


def mean(totals):
    return sum(v for v, _ in totals) / sum(n for _, n in totals)


def taps(x):
    """The numbers that a 3x3x3 CausalConv multiplies with its weights: [sites, channels * 27]."""
    t, h, w = x.shape[2:]
    x = nn.functional.pad(torch.cat([x[:, :, :1]] * 2 + [x], 2), (1, 1, 1, 1))
    x = torch.stack([x[:, :, a:a + t, b:b + h, c:c + w] for a in range(3) for b in range(3) for c in range(3)], 2)
    return x.permute(0, 3, 4, 5, 1, 2).reshape(-1, x.shape[1] * 27)


def as_matrix(conv):
    return conv.weight.permute(1, 2, 3, 4, 0).reshape(-1, conv.out_channels).double()


def set_matrix(conv, v):
    conv.weight.copy_(v.float().reshape(conv.in_channels, 3, 3, 3, -1).permute(4, 0, 1, 2, 3))


def fitted(conv, pairs):
    """The taps' first and second moment, and their product with what the convolution should give; means taken off."""
    n, first, second, wanted, product = 0, 0, 0, 0, 0
    for x, y in pairs:
        f, y = taps(x).double(), y.permute(0, 2, 3, 4, 1).reshape(-1, conv.out_channels).double()
        some = torch.randperm(len(f))[:20000]
        f, y = f[some], y[some]
        n, first, wanted = n + len(f), first + f.sum(0), wanted + y.sum(0)
        second, product = second + f.T @ f, product + f.T @ y
    first, wanted = first / n, wanted / n
    second, product = second / n, product / n - torch.outer(first, wanted)
    new = torch.linalg.solve(second - torch.outer(first, first) + torch.diag(RIDGE * ROUNDING * second.diagonal()), product)
    conv.bias.copy_((wanted - first @ new).float())
    set_matrix(conv, new)
    return first, second.diagonal()


def slopes(x):
    """First and second derivative of SiLU."""
    s = torch.sigmoid(x)
    return s * (1 + x * (1 - s)), s * (1 - s) * (2 + x * (1 - 2 * s))


def robust(half, was):
    """Step 1. Returns the mean of each tap."""
    conv, norm = half.net.conv_out, half.net.conv_norm_out
    decibel = lambda power: float(10 * torch.log10(4 / power.mean()))
    error = lambda power: decibel(ROUNDING * power @ as_matrix(conv) ** 2)
    before = error(sum((taps(x).double() ** 2).mean(0) for x in half.run(conv, before=True)) / len(half.inputs))
    given = list(half.run(norm, before=True))
    inside = torch.cat([norm(x).transpose(0, 1).flatten(1)[:, ::7] for x in given], 1)
    centre, deviation = inside.mean(1), inside.std(1)
    far = centre.abs() > FAR * deviation
    first, second = slopes(centre)
    bend = second / first
    bend = torch.sign(bend) * torch.maximum(bend.abs(), SMALL / deviation)
    far &= first.abs() > .2
    scale = torch.where(far, bend, torch.ones(()))
    norm.weight *= scale
    norm.bias.copy_(torch.where(far, (norm.bias - centre) * scale, norm.bias))
    first, power = fitted(conv, zip(half.run(conv, before=True), was.run()))
    print('  %d of %d channels moved to zero; rounded inputs of the last convolution: %.1f dB, now %.1f dB' %
          (far.sum(), len(far), before, error(power)))
    print('  %.1f dB from what it was' % difference(was, half), flush=True)
    return first


def rounded(half, wanted, first):
    """Steps 2 and 3: half has the weights of wanted."""
    for p in half.net.parameters():
        p.copy_(narrow(p))
    goals = [v for _, v in wanted.means()]
    layers = [m for m, _ in half.means()]
    for layer, goal in zip(layers, goals):
        layer.bias.copy_(narrow(layer.bias + goal - mean([total(layer, y) for y in half.run(layer)])))
    conv = half.net.conv_out
    missing = goals[-1] - mean([total(conv, y) for y in half.run(conv)])
    v = as_matrix(conv)
    for o, m in enumerate(missing.double()):
        ulp = 2. ** (torch.floor(torch.log2(v[:, o].abs().clamp_min(2. ** -14))) - 7)
        moved = torch.cat([first * ulp, -first * ulp])
        k = int((moved - m).abs().argmin())
        if abs(float(moved[k] - m)) < abs(float(m)):
            v[k % len(v), o] += ulp[k % len(v)] * (1 if k < len(v) else -1)
    set_matrix(conv, v)
    for p in half.net.parameters():
        assert torch.equal(p, p.bfloat16().float()) and torch.equal(p, p.half().float())


def difference(a, b):
    return 10 * np.log10(4 / np.mean([float(((x - y) ** 2).mean()) for x, y in zip(a.run(), b.run())]))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('clips')
    ap.add_argument('demo')
    ap.add_argument('out')
    ap.add_argument('--hold', nargs='*', default=['sd_Wan2.2_14B_t2v', 'sdv2_original'], help='clips to measure on alone')
    ap.add_argument('--batches', type=int, default=48, help='of training clips; the means are of an eighth of them')
    args = ap.parse_args()
    torch.set_grad_enabled(False)
    files = sorted(glob.glob(os.path.join(args.clips, '*.mp4')))
    held = [f for f in files if any(h in os.path.basename(f) for h in args.hold)]
    data = train.Data([f for f in files if f not in held])
    random.seed(7), np.random.seed(7), torch.manual_seed(7)
    shapes = (1, 9, 96, 128), (1, 17, 96, 96), (1, 5, 128, 192), (1, 1, 240, 416)
    videos = [data.batch(*shapes[i % 4]) for i in range(args.batches)]
    state = train.load_safetensors(args.demo)
    old, new, out = nets.VAE().eval(), nets.VAE().eval(), nets.VAE().eval()
    for net in old, new, out:
        net.load_state_dict(state, strict=False)
    latents = [old.encode(x)[0] for x in videos]
    for name, inputs in ('encoder', videos), ('decoder', latents):
        print(name)
        was, wanted, half = (Half(getattr(net, name), inputs) for net in (old, new, out))
        first = robust(wanted, was)
        half.net.load_state_dict(wanted.net.state_dict())
        for h in was, wanted, half:
            h.inputs = inputs[:args.batches // 8]
        rounded(half, wanted, first)
        print('  rounded: %.1f dB from what it was' % difference(was, half), flush=True)
    state = nets.plain(out.state_dict())
    train.save_safetensors(state, args.out, nets.VAE.META)
    clips = [(os.path.basename(f)[:-4], train.read_clip(f, (320, 192), 17)) for f in held]
    for label, s in ('was', train.load_safetensors(args.demo)), ('is', state):
        for name, _, value, *_ in train.measure(nets.VAE().eval(), s, clips):
            print('held out %s: %s %.2f dB' % (name, label, value))


if __name__ == '__main__':
    main()
