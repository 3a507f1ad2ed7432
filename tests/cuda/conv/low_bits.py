#!/usr/bin/env python3
"""Prints how exact a decoder is if its convolutions multiply in few bits, sum in fp16,
or multiply by Winograd over frames. Without a seed, checks the numbers that
docs/performance.md has.

low_bits.py [SEED]: ten residual blocks of 48 channels and a layer to three, with
generated weights and numbers that are smooth over frames, rows and columns, as in a
video. The results of convolutions and blocks are bf16. "layer" is the signal-to-noise
ratio of one 3x3x3 convolution, "blocks" the PSNR of the three channels, both against
fp64."""
import sys

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

CHANNELS, FRAMES, SIDE, BLOCKS = 48, 4, 12, 10
PART = 16  # products that a matrix unit sums before it rounds

# ------------------------------------------------------------------ types


def exact(x):
    return x


def bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    even = bits + (bits >> 16 & 1) + np.uint32(0x7fff)
    return (even & np.uint32(0xffff0000)).view(np.float32)


def fp16(x):
    return x.astype(np.float16).astype(np.float32)


def e4m3(x):
    """Rounds to three bits of mantissa; the least exponent is -6."""
    _, exponent = np.frexp(x)
    step = np.exp2(np.maximum(exponent - 1, -6) - 3)
    return np.clip(np.rint(x / step) * step, -448, 448)


def int8(x):
    return np.clip(np.rint(x), -127, 127)


# ----------------------------------------------------- convolutions
# x: (frames + 2, rows, columns, channels); w: (3, 3, 3, in, out) of fp64


def plane(x, w, multiply=np.matmul):
    """Convolves each frame over rows and columns."""
    t, h, wide, _ = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = [padded[:, i:i + h, j:j + wide] for i in range(3) for j in range(3)]
    rows = np.concatenate(taps, -1).reshape(t * h * wide, -1)
    return multiply(rows, w.reshape(rows.shape[1], -1)).reshape(t, h, wide, -1)


def convolve(x, w, multiply=np.matmul):
    frames = len(x) - 2
    return sum(plane(x[k:k + frames], w[k], multiply) for k in range(3))


def rounded(to, multiply=np.matmul):
    return lambda x, w: convolve(to(x), to(w), multiply)


def sums_of(products):
    """Multiplies with sums in fp16, which are added to fp32."""
    def multiply(a, b):
        total = np.float32(0)
        for first in range(0, a.shape[1], products):
            part = np.float32(0)
            for k in range(first, min(first + products, a.shape[1]), PART):
                part = fp16(part + a[:, k:k + PART] @ b[k:k + PART])
            total = total + part
        return total
    return multiply


def scaled(to, most):
    """Multiplies numbers of few bits, with a scale for each channel, in and out. The
    scales of the input are those of its largest numbers."""
    def compute(x, w):
        of_x = np.abs(x).max((0, 1, 2)) / most
        w = w * of_x[:, None]
        of_w = np.abs(w).max((0, 1, 2, 3)) / most
        return convolve(to(x / of_x), to(w / of_w)) * of_w
    return compute


def winograd(points, to):
    """Computes len(points) - 1 frames with len(points) + 1 products for each weight of
    a frame. Their matrices follow from the points: results and weights are polynomials
    there, and the sums over both must be those of the convolution."""
    p = np.array(points)
    frames, n = len(p) - 1, len(p) + 1
    results = np.vstack([p ** i for i in range(frames)])
    results = np.hstack([results, np.eye(frames)[:, -1:]])
    weights = np.vstack([np.stack([p ** k for k in range(3)], 1), [0, 0, 1]])
    both = np.einsum("ij,jk->ikj", results, weights).reshape(-1, n)
    shift = np.array([np.eye(n)[i + k] for i in range(frames) for k in range(3)])
    inputs = np.linalg.lstsq(both, shift, rcond=None)[0]
    assert np.allclose(both @ inputs, shift)
    scale = np.exp2(np.rint(np.log2(np.linalg.norm(inputs, axis=1))))[:, None]
    inputs, weights = inputs / scale, weights * scale

    def compute(x, w):
        w = to(np.tensordot(weights, w, 1))
        x, all = to(x), []
        for first in range(0, len(x) - 2, frames):
            d = to(np.tensordot(inputs, x[first:first + n], 1))
            products = np.stack([plane(d[j:j + 1], w[j])[0] for j in range(n)])
            all.append(np.tensordot(results, products, 1))
        return np.concatenate(all).astype(np.float32)
    return compute


F23, F43 = (0, 1, -1), (0, 1, -1, .5, -2)
# The convolution, and the decibels that it has with the first seed: layer, blocks
WAYS = {
    "fp8": (scaled(e4m3, 448), 28.7, 41.8),
    "int8": (scaled(int8, 127), 33.7, 44.9),
    "bf16": (rounded(bf16), 52.6, 58.5),
    "fp16": (rounded(fp16), 70.6, 59.4),
    "fp16, sums of 32 in fp16": (rounded(fp16, sums_of(32)), 68.2, 59.4),
    "fp16, F(2,3)": (winograd(F23, fp16), 67.9, 59.2),
    "fp16, F(4,3)": (winograd(F43, fp16), 61.9, 59.3),
}
# Of the decibels that are expected. Other seeds move those of a layer by up to 1.2, and
# the distances between two ways in "blocks" by up to 1.
ROOM = 1

# ------------------------------------------------------------------ a decoder


def norm_silu(x, gain):
    x = x / np.sqrt((x * x).mean(-1, keepdims=True)) * gain
    return x / (1 + np.exp(-x))


def after_zeros(x):
    return np.pad(x, ((2, 0), (0, 0), (0, 0), (0, 0)))


class Decoder:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.x = self.smooth()
        self.layers = [self.layer(CHANNELS) for _ in range(2 * BLOCKS)]
        self.head = self.layer(3)

    def layer(self, out):
        """Returns gains and weights. Some weights are much larger than most."""
        gain = 1 + .2 * self.random.standard_normal(CHANNELS)
        w = self.random.standard_t(4, (3, 3, 3, CHANNELS, out))
        return gain, w / np.sqrt(2 * 27 * CHANNELS)

    def smooth(self):
        shape = (FRAMES, SIDE, SIDE)
        noise = self.random.standard_normal((*shape, CHANNELS))
        far = np.meshgrid(*(np.fft.fftfreq(n) * n for n in shape), indexing="ij")
        weight = (1 + np.sqrt(sum(f * f for f in far))) ** -1.6
        x = np.fft.ifftn(np.fft.fftn(noise, axes=(0, 1, 2)) * weight[..., None],
                         axes=(0, 1, 2)).real
        return x / x.std((0, 1, 2)) + .05 * noise

    def blocks(self, conv, type, to):
        """Returns the three channels. to: rounds what convolutions store."""
        x = to(self.x).astype(type)
        for (gain, w), (gain2, w2) in zip(self.layers[::2], self.layers[1::2]):
            y = to(conv(after_zeros(norm_silu(x, gain.astype(type))), w))
            y = conv(after_zeros(norm_silu(y.astype(type), gain2.astype(type))), w2)
            x = to(x + y).astype(type)
        gain, w = self.head
        return convolve(after_zeros(norm_silu(x, gain)).astype(np.float64), w)

    def one(self, conv, type):
        gain, w = self.layers[0]
        return conv(after_zeros(norm_silu(self.x, gain)).astype(type), w)


def decibels(got, want, peak):
    return 10 * np.log10(peak ** 2 / ((got - want) ** 2).mean())


def measure(seed):
    decoder = Decoder(seed)
    layer = decoder.one(convolve, np.float64)
    frames = decoder.blocks(convolve, np.float64, exact)
    power = np.sqrt((layer ** 2).mean())
    found = {}
    for name, (conv, *_) in WAYS.items():
        found[name] = (
            decibels(decoder.one(conv, np.float32), layer, power),
            decibels(decoder.blocks(conv, np.float32, bf16), frames,
                     np.ptp(frames)))
        print("%-26s layer %5.1f dB   blocks %5.1f dB" % (name, *found[name]),
              flush=True)
    return found


def check(found):
    """Returns the number of ways that are not as documented."""
    wrong = [name for name, (_, *want) in WAYS.items()
             if np.abs(np.subtract(found[name], want)).max() > ROOM]
    for name in wrong:
        print(f"FAIL {name}: expected {WAYS[name][1:]} dB, give or take {ROOM}")
    blocks = {name: found[name][1] for name in WAYS}
    least = min(blocks[name] for name in WAYS if name.startswith("fp16"))
    ordered = blocks["fp8"] < blocks["int8"] < blocks["bf16"] < least
    if not ordered:
        print("FAIL the order is not fp8, int8, bf16, all of fp16")
    return len(wrong) + (not ordered)


if len(sys.argv) > 1:
    measure(int(sys.argv[1]))
else:
    sys.exit(check(measure(1)) > 0)
