"""The networks that train.py trains, and the linear transforms they start from.

VAE is the SeedVR2 video VAE at widths 8, 16, 32, 64. Tiny is a decoder of the TAEHV family, of the kind with depthwise
blocks ("super"), for the latents of a VAE. Shapes are [batch, channels, time, height, width]; pixel values are -1..1.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTHS = (8, 16, 32, 64)        # at full, 1/2, 1/4 and 1/8 of the picture
GROUPS = 2                      # of every group norm
LATENT = 16                     # latent channels
TINY = (80, 64, 48, 32)         # of the tiny decoder, at 1/8, 1/4, 1/2 and all of the picture
FUSED = None                    # the extension fused.cpp where it could be built


# ---------------------------------------------------------------------------------------------------------- network
class CausalConv(nn.Conv3d):
    """Time is padded in front only, by repeating the first frame; strided ones pad right and bottom in space.

    For training, the bias counts from the output of an average input ("center", measured once): otherwise each small
    step of the weights, whose inputs are far from zero on average, moves all outputs together. plain() undoes that."""

    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.register_buffer('center', torch.zeros(self.in_channels))

    def forward(self, x):
        # as a convolution over pictures, the frames of the kernel side by side in the channels: a 3-d convolution is
        # the same, but oneDNN's bfloat16 gradients of those crash at some sizes
        (b, c, t, h, w), (kt, kh, _) = x.shape, self.kernel_size
        st, ss, _ = self.stride
        x = x.permute(0, 2, 3, 4, 1)                        # channels last
        if kt > 1:
            x = torch.cat([x[:, :1]] * (kt - 1) + [x], 1)
            n = (t + 1) // 2 if st == 2 else t
            x = torch.cat([x[:, k:k + (n - 1) * st + 1:st] for k in range(kt)], 4)
        n = x.shape[1]
        x = x.reshape(b * n, h, w, kt * c).permute(0, 3, 1, 2)
        if ss == 2:
            x = F.pad(x, (0, 1, 0, 1))
        k = self.weight.transpose(1, 2).reshape(-1, kt * c, kh, kh).contiguous(memory_format=torch.channels_last)
        bias = self.bias - self.weight.sum((2, 3, 4)) @ self.center
        y = F.conv2d(x, k, bias, ss, kh // 2 if ss == 1 else 0)
        return y.permute(0, 2, 3, 1).reshape(b, n, y.shape[2], y.shape[3], -1).permute(0, 4, 1, 2, 3)


class FrameNorm(nn.GroupNorm):
    """Group norm with the statistics of each frame alone."""

    def __init__(self, c):
        super().__init__(GROUPS, c, eps=1e-6)

    def forward(self, x, silu=False):
        b, c, t, h, w = x.shape
        y = x.permute(0, 2, 3, 4, 1).reshape(b * t, h * w, c)
        if FUSED and c in (8, 16, 32, 64):
            y = FusedNorm.apply(y, self.weight, self.bias, self.eps, silu)
        else:
            y = F.group_norm(y.transpose(1, 2), GROUPS, self.weight, self.bias, self.eps).transpose(1, 2)
            y = F.silu(y) if silu else y
        return y.reshape(b, t, h, w, c).permute(0, 4, 1, 2, 3)


class FusedNorm(torch.autograd.Function):
    """Group norm and SiLU in one pass, from fused.cpp: frames [N, pixels, channels]."""

    @staticmethod
    def forward(ctx, x, w, b, eps, silu):
        x = x.contiguous()
        y, mean, rstd = FUSED.gn_fwd(x, w, b, GROUPS, eps, silu)
        ctx.save_for_backward(x, w, b, mean, rstd)
        ctx.silu = silu
        return y

    @staticmethod
    def backward(ctx, dy):
        dx, dw, db = FUSED.gn_bwd(ctx.saved_tensors[0], dy.contiguous(), *ctx.saved_tensors[1:], GROUPS, ctx.silu)
        return dx, dw, db, None, None, None


class Res(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.norm1, self.conv1 = FrameNorm(a), CausalConv(a, b, 3)
        self.norm2, self.conv2 = FrameNorm(b), CausalConv(b, b, 3)
        self.conv_shortcut = CausalConv(a, b, 1) if a != b else None
        nn.init.zeros_(self.conv2.weight)
        nn.init.zeros_(self.conv2.bias)

    def forward(self, x):
        skip = x if self.conv_shortcut is None else self.conv_shortcut(x)
        return skip + self.conv2(self.norm2(self.conv1(self.norm1(x, True)), True))


class Attention(nn.Module):
    """Self-attention among the pixels of each frame."""

    def __init__(self, c):
        super().__init__()
        self.group_norm = FrameNorm(c)
        self.to_q, self.to_k, self.to_v = nn.Linear(c, c), nn.Linear(c, c), nn.Linear(c, c)
        self.to_out = nn.ModuleList([nn.Linear(c, c)])
        nn.init.zeros_(self.to_out[0].weight)
        nn.init.zeros_(self.to_out[0].bias)

    def forward(self, x):
        b, c, t, h, w = x.shape
        y = self.group_norm(x).permute(0, 2, 3, 4, 1).reshape(b * t, 1, h * w, c)
        y = F.scaled_dot_product_attention(self.to_q(y), self.to_k(y), self.to_v(y))
        return x + self.to_out[0](y).reshape(b, t, h, w, c).permute(0, 4, 1, 2, 3)


class Mid(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.resnets = nn.ModuleList([Res(c, c), Res(c, c)])
        self.attentions = nn.ModuleList([Attention(c)])

    def forward(self, x):
        return self.resnets[1](self.attentions[0](self.resnets[0](x)))


class Up(nn.Module):
    """1x1x1 conv to 4 (or 8, with time) times the channels, shuffle to 2x2 (and 2 frames), conv."""

    def __init__(self, c, z):
        super().__init__()
        self.z, self.upscale_conv, self.conv = z, nn.Conv3d(c, 4 * z * c, 1), CausalConv(c, c, 3)

    def forward(self, x):
        (b, c, t, h, w), z = x.shape, self.z
        y = F.linear(x.permute(0, 2, 3, 4, 1), self.upscale_conv.weight.flatten(1), self.upscale_conv.bias).reshape(b, t, h, w, 2, 2, z, c)
        y = y.permute(0, 1, 6, 2, 4, 3, 5, 7).reshape(b, t * z, 2 * h, 2 * w, c).permute(0, 4, 1, 2, 3)
        if z == 2:                                          # the first latent frame stands for one frame only
            y = torch.cat([y[:, :, :1], y[:, :, 2:]], 2)
        return self.conv(y)


class Down(nn.Module):
    def __init__(self, c, time):
        super().__init__()
        self.conv = CausalConv(c, c, (3 if time else 1, 3, 3), stride=(2 if time else 1, 2, 2))

    def forward(self, x):
        return self.conv(x)


class Block(nn.Module):
    def __init__(self, a, b, n, down=None, up=None):
        super().__init__()
        self.resnets = nn.ModuleList([Res(a if i == 0 else b, b) for i in range(n)])
        if down is not None:
            self.downsamplers = nn.ModuleList([Down(b, down)])
        if up is not None:
            self.upsamplers = nn.ModuleList([Up(b, up)])

    def forward(self, x):
        for r in self.resnets:
            x = r(x)
        for m in (*getattr(self, 'downsamplers', ()), *getattr(self, 'upsamplers', ())):
            x = m(x)
        return x


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        a, b, c, d = WIDTHS
        self.conv_in = CausalConv(3, a, 3)
        self.down_blocks = nn.ModuleList([Block(a, a, 2, down=False), Block(a, b, 2, down=True),
                                          Block(b, c, 2, down=True), Block(c, d, 2)])
        self.mid_block, self.conv_norm_out, self.conv_out = Mid(d), FrameNorm(d), CausalConv(d, 2 * LATENT, 3)

    def forward(self, x):
        x = self.conv_in(x)
        for b in self.down_blocks:
            x = b(x)
        x = self.mid_block(x)
        with torch.autocast('cpu', enabled=False):          # the latents themselves in full precision
            return self.conv_out(self.conv_norm_out(x.float(), True))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        a, b, c, d = WIDTHS
        self.conv_in, self.mid_block = CausalConv(LATENT, d, 3), Mid(d)
        self.up_blocks = nn.ModuleList([Block(d, d, 3, up=2), Block(d, c, 3, up=2), Block(c, b, 3, up=1), Block(b, a, 3)])
        self.conv_norm_out, self.conv_out = FrameNorm(a), CausalConv(a, 3, 3)

    def forward(self, z):
        x = self.mid_block(self.conv_in(z))
        for b in self.up_blocks:
            x = b(x)
        return self.conv_out(self.conv_norm_out(x, True)).float()


class VAE(nn.Module):
    NAME = 'demo.safetensors'
    META = {'norm_num_groups': str(GROUPS), 'scaling_factor': '1', 'vae.latent_space': 'gst-vae-demo'}

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def start(self, data):
        pca_init(self, data)

    def encode(self, x):
        return self.encoder(x).chunk(2, 1)                  # mean, log variance

    def decode(self, z):
        return self.decoder(z)

    def codes(self, x):
        """Latents of a training batch, and what the loss adds to keep them at mean 0 and deviation 1."""
        mu, lv = self.encode(x)
        keep = (mu.mean((0, 2, 3, 4)) ** 2).mean() + ((mu.var((0, 2, 3, 4)) - 1) ** 2).mean()
        return mu, keep * 1e-4 + 1e-5 * ((lv + 7) ** 2).mean()


class Memory(nn.Module):
    """Depthwise 7x7 over a frame and the one before (zeros at first), a layer of hidden numbers at each pixel, and the
    input added. Like all of Tiny inside: [batch, time, height, width, channels]."""

    def __init__(self, n):
        super().__init__()
        self.conv = nn.ModuleDict({'0': nn.Conv2d(2 * n, 2 * n, 7, padding=3, groups=2 * n, bias=False),
                                   '1': nn.Conv2d(2 * n, 4 * n, 1), '3': nn.Conv2d(4 * n, n, 1, bias=False)})

    def forward(self, x):
        y = torch.cat([x, torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)], 4)
        with torch.autocast('cpu', enabled=False):          # the gradients are slow in bfloat16
            y = picture(self.conv['0'], y.float())
        return x + pixel(self.conv['3'], F.relu(pixel(self.conv['1'], y)))


class Grow(nn.Module):
    """1x1 to s times the channels, dealt to s frames."""

    def __init__(self, n, s):
        super().__init__()
        self.s, self.conv = s, nn.Conv2d(n, s * n, 1, bias=False)

    def forward(self, x):
        (b, t, h, w, c), s = x.shape, self.s
        return pixel(self.conv, x).reshape(b, t, h, w, s, c).permute(0, 1, 4, 2, 3, 5).reshape(b, t * s, h, w, c)


def picture(conv, x):
    b, t, h, w, c = x.shape
    return conv(x.reshape(b * t, h, w, c).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).reshape(b, t, h, w, -1)


def pixel(conv, x):
    return F.linear(x, conv.weight.flatten(1), conv.bias)


def shuffle(x):
    """Channels (c, row, column) to 2x2 pixels."""
    b, t, h, w, c = x.shape
    return x.reshape(b, t, h, w, c // 4, 2, 2).permute(0, 1, 2, 5, 3, 6, 4).reshape(b, t, 2 * h, 2 * w, c // 4)


class Tiny(nn.Module):
    """The decoder alone; latents come from a trained VAE, which is neither trained nor saved here."""
    NAME = 'demo-tiny.safetensors'
    META = {'vae.latent_space': 'gst-vae-demo', 'vae.variant': 'taew2_1'}

    def __init__(self, teacher):
        super().__init__()
        self.teacher = (teacher,)                           # no module of this one
        d, up = {'0': nn.Conv2d(LATENT, TINY[0], 1, bias=False)}, (1, 2, 2)
        for i, c in enumerate(TINY[:3]):
            for k in range(3):
                d[str(1 + 7 * i + k)] = Memory(c)
            d[str(4 + 7 * i)] = nn.Conv2d(c, 4 * TINY[i + 1], 3, padding=1)
            d[str(7 + 7 * i)] = Grow(TINY[i + 1], up[i])
        d['22'] = nn.Conv2d(TINY[3], 3, 3, padding=1)
        self.decoder = nn.ModuleDict(d)

    def start(self, data):
        tiny_init(self, data)

    def encode(self, x):
        with torch.no_grad():
            return self.teacher[0].encode(x)

    def codes(self, x):
        return self.encode(x)[0].half().float(), 0.         # as files of latents hold them

    def decode(self, z):
        d, x = self.decoder, z.permute(0, 2, 3, 4, 1)
        x = pixel(d['0'], x)
        for i in (1, 8, 15):
            for k in range(3):
                x = d[str(i + k)](x)
            x = d[str(i + 6)](shuffle(F.relu(picture(d[str(i + 3)], x))))
        x = picture(d['22'], x).permute(0, 4, 1, 2, 3).float()
        return x[:, :, 3:] * 2 - 1                          # 4 frames per latent, 1 of the first; 0..1 leaves the net


def channels_last(m):
    for p in m.parameters():
        if p.dim() == 5:
            p.data = p.data.contiguous(memory_format=torch.channels_last_3d)
    return m


def center(m, x):
    """Measure the mean input of every causal convolution on the batch x, and count its bias from there."""
    means, hooks = {}, []
    for c in m.modules():
        if isinstance(c, CausalConv):
            hooks.append(c.register_forward_pre_hook(lambda c, a: means.__setitem__(c, a[0].float().mean((0, 2, 3, 4)))))
    with torch.no_grad():
        m.decode(m.encode(x)[0])
        for c, v in means.items():
            c.bias += c.weight.sum((2, 3, 4)) @ (v - c.center)
            c.center.copy_(v)
    for h in hooks:
        h.remove()


def plain(state):
    """The state under the checkpoint's names, centers folded back into the biases."""
    out = {k: v.detach().clone() for k, v in state.items() if not k.endswith('.center')}
    for k, v in state.items():
        if k.endswith('.center'):
            k = k[:-len('.center')]
            out[k + '.bias'] -= state[k + '.weight'].sum((2, 3, 4)) @ v
    return out


# ------------------------------------------------------------------------------------------------------------- start
def pca_init(m, data):
    """Start from a linear transform: each strided conv is the PCA of its 2x2 (x2) block, each upscale conv its transpose.

    The two heads need a group norm to be nearly linear: constants on spare channels hold its statistics still, and a
    large bias moves SiLU to where it is almost straight."""
    rng, clips = np.random.RandomState(0), []
    level = [d for d in data.levels[1] + data.levels[3] if d.shape[0] >= 9]
    for _ in range(160):
        d = level[rng.randint(len(level))]
        i, y, x = rng.randint(d.shape[0] - 8), rng.randint((d.shape[1] - 64) // 8) * 8, rng.randint((d.shape[2] - 64) // 8) * 8
        clips.append(d[i:i + 8, y:y + 64, x:x + 64].astype(np.float64) / 127.5 - 1)
    f = np.stack(clips).transpose(0, 4, 1, 2, 3)

    def blocks(f, zt):                                      # rows of (z, row, column, channel)
        n, c, t, h, w = f.shape
        b = f.reshape(n, c, t // zt, zt, h // 2, 2, w // 2, 2).transpose(0, 2, 4, 6, 3, 5, 7, 1)
        return b.reshape(-1, zt * 4 * c), (n, t // zt, h // 2, w // 2)

    def pca(a, k):
        mean = a.mean(0)
        return mean, np.linalg.eigh((a - mean).T @ (a - mean) / len(a))[1][:, ::-1][:, :k]

    tens = lambda a: torch.from_numpy(np.ascontiguousarray(a)).float()
    e, d, (w0, w1, w2, w3) = m.encoder, m.decoder, WIDTHS
    with torch.no_grad():
        ups = [b.upsamplers[0] for b in d.up_blocks[:3]]
        for mod in (e.conv_in, e.conv_out, d.conv_in, d.conv_out, *[b.downsamplers[0].conv for b in e.down_blocks[:3]],
                    *[u.upscale_conv for u in ups], *[u.conv for u in ups]):
            mod.weight.mul_(.02)
            mod.bias.zero_()
        for b in (*e.down_blocks, *d.up_blocks):
            sc = b.resnets[0].conv_shortcut
            if sc is not None:
                k = min(sc.weight.shape[:2])
                sc.weight.mul_(.02)
                sc.bias.zero_()
                sc.weight[:k, :k, 0, 0, 0] += torch.eye(k)
        for c in range(3):
            e.conv_in.weight[c, c, 2, 1, 1] += 1
        cin = 3
        for lev, (zt, k) in enumerate(((1, w0), (2, w1), (2, w2))):
            a, shape = blocks(f, zt)
            mean, basis = pca(a, k)
            bt, conv, u = tens(basis.T).reshape(k, zt, 2, 2, cin), e.down_blocks[lev].downsamplers[0].conv, ups[2 - lev]
            conv.bias[:k] = -tens(basis.T @ mean)
            c = u.conv.weight.shape[0]
            for z in range(zt):
                for r in range(2):
                    for q in range(2):
                        conv.weight[:k, :cin, z + 1 if zt == 2 else 0, r, q] += bt[:, z, r, q]
                        base = ((r * 2 + q) * zt + z) * c
                        u.upscale_conv.weight[base:base + cin, :k, 0, 0, 0] += bt[:, z, r, q].t()
                        u.upscale_conv.bias[base:base + cin] = tens(mean).reshape(zt, 2, 2, cin)[z, r, q]
            u.conv.weight[:, :, 2, 1, 1] += torch.eye(c)
            f, cin = ((a - mean) @ basis).reshape(*shape, k).transpose(0, 4, 1, 2, 3), k
        a = f.transpose(0, 2, 3, 4, 1).reshape(-1, w2)
        mean, basis = pca(a, LATENT)
        sd = ((a - mean) @ basis).std(0)
        # encoder head: features on even channels, constants +-K on odd ones
        K, sc = 16., e.down_blocks[3].resnets[0].conv_shortcut
        sc.weight.normal_(0, .002)
        sc.bias.zero_()
        for i in range(w2):
            sc.weight[2 * i, i, 0, 0, 0] = 1
            sc.bias[2 * i + 1] = -K if i % 2 else K
        sig = np.sqrt(K * K / 2 + (a ** 2).sum(1).mean() / w3)
        b0 = 3.
        sl = 1 / (1 + np.exp(-b0))
        s0, s1 = b0 * sl, sl + b0 * sl * (1 - sl)
        e.conv_norm_out.weight.fill_(1.)
        e.conv_norm_out.bias.fill_(b0)
        M = tens((basis / sd).T)
        for i in range(w2):
            e.conv_out.weight[:LATENT, 2 * i, 2, 1, 1] += M[:, i] * float(sig / s1)
        e.conv_out.bias[:LATENT] = -tens((basis / sd).T @ mean) - M.sum(1) * float(sig / s1 * s0)
        e.conv_out.weight[LATENT:].mul_(.1)
        e.conv_out.bias[LATENT:] = -7
        d.conv_in.weight[:w2, :LATENT, 2, 1, 1] += tens(basis * sd)
        d.conv_in.bias[:w2] = tens(mean)
        # decoder head: R G + - | B 0 + -
        K, sc = 4., d.up_blocks[3].resnets[0].conv_shortcut
        sc.weight.normal_(0, .002)
        sc.bias.zero_()
        spots = ((0, 0), (1, 1), (2, 4))
        for c, p in spots:
            sc.weight[p, c, 0, 0, 0] = 1
        for p in (2, 6):
            sc.bias[p], sc.bias[p + 1] = K, -K
        sig, gain = np.sqrt(2 * K * K / 4 + .2), 2.
        d.conv_norm_out.weight.fill_(gain)
        d.conv_norm_out.bias.fill_(b0)
        d.conv_out.weight.mul_(.2)
        for c, p in spots:
            d.conv_out.weight[c, p, 2, 1, 1] += float(sig / (gain * s1))
            d.conv_out.bias[c] = -float(sig / (gain * s1) * b0 * sl)


def tiny_init(m, data):
    """Start from a linear transform: a PCA of 2x2 blocks (and frame pairs) at each level, and at the top least squares
    from 3x3 latents of this frame and the one before. A ReLU passes a value x as two channels, x and -x."""
    z, f = [], []
    with torch.no_grad():
        for _ in range(32):
            x = data.batch(2, 9, 96, 128)
            z.append(m.codes(x)[0])
            f.append(x[:, :, 1:] / 2 + .5)
        for mod in m.decoder.values():
            for conv in mod.conv.values() if isinstance(mod, Memory) else (getattr(mod, 'conv', mod),):
                conv.weight.mul_(.03 if conv.kernel_size[0] < 7 else 1)
        d, z, f = m.decoder, torch.cat(z).double(), torch.cat(f).permute(0, 2, 3, 4, 1).double()
        mean = f.mean((0, 1, 2, 3))
        d['22'].weight[:, :3, 1, 1] += torch.eye(3)
        d['22'].bias.copy_(mean)
        b, t, h, w, c = f.shape                             # from here on, what is linear in the latents
        f = (f - mean).reshape(b, t // 4, 4, h // 8, 8, w // 8, 8, c).permute(0, 1, 3, 5, 2, 4, 6, 7)
        f = from_latents(z, f.flatten(4))[2].reshape(f.shape).permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(b, t, h, w, c)
        for i in (2, 1, 0):
            conv, grow = d[str(4 + 7 * i)], d[str(7 + 7 * i)]
            s, n = grow.s, grow.conv.in_channels
            b, t, h, w, c = f.shape
            f = f.reshape(b, t // s, s, h, w, c).permute(0, 1, 3, 4, 2, 5).reshape(-1, s * c)
            basis = main_axes(f, min(n // 2, s * c))
            g = basis.shape[1]
            for k in range(s):
                grow.conv.weight[k * n:k * n + c, :g, 0, 0] += basis[k * c:k * c + c]
                grow.conv.weight[k * n:k * n + c, g:2 * g, 0, 0] -= basis[k * c:k * c + c]
            f = (f @ basis).reshape(b, t // s, h // 2, 2, w // 2, 2, g).permute(0, 1, 2, 4, 6, 3, 5)
            f = f.reshape(b, t // s, h // 2, w // 2, 4 * g)
            if i:
                basis = main_axes(f.flatten(0, 3), min(conv.in_channels, 4 * g))
                f, basis, offset = f @ basis, F.pad(basis[:, :, None, None], (1, 1, 1, 1)), 0
            else:
                basis, offset, _ = from_latents(z, f)
            conv.bias.zero_()
            for sign, rows in ((1, slice(0, 4 * g)), (-1, slice(4 * g, 8 * g))):
                conv.weight[rows, :basis.shape[1]] += sign * basis
                conv.bias[rows] += sign * offset
        for i in (1, 2, 3, 8, 9, 10, 15, 16, 17):
            d[str(i)].conv['3'].weight.zero_()
        # the latents themselves, and through the first memory block those before
        a, c = LATENT, TINY[0]
        d['0'].weight[:2 * a] = torch.eye(2 * a, a)[..., None, None]
        one, into, out = d['1'].conv.values()
        one.weight[c:c + a] = F.pad(torch.ones(a, 1, 1, 1), (3, 3, 3, 3))
        into.weight[:2 * a], into.bias[:2 * a] = 0, 0
        for k in range(a):
            into.weight[k, c + k], into.weight[a + k, c + k] = 1, -1
            out.weight[a + k, k], out.weight[a + k, a + k] = 1, -1


def main_axes(a, k):
    return torch.linalg.eigh(a.T @ a)[1].flip(1)[:, :k]


def from_latents(z, f):
    """The 3x3 kernel and offset from latents z, beside them those before, that come nearest to the features f; and
    what they give."""
    b, c, t, h, w = z.shape
    u = F.unfold(z.permute(0, 2, 1, 3, 4).flatten(0, 1), 3, padding=1).reshape(b, t, 9 * c, h * w).transpose(2, 3)
    u = torch.cat([u[:, 1:], u[:, :-1], torch.ones_like(u[:, 1:, :, :1])], 3).flatten(0, 2)
    k = torch.linalg.solve(u.T @ u + len(u) * 1e-4 * torch.eye(u.shape[1]), u.T @ f.flatten(0, 3))
    return k.T[:, :-1].reshape(-1, 2 * c, 3, 3), k.T[:, -1], (u @ k).reshape(f.shape)
