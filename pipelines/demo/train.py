#!/usr/bin/env python3
"""Train the demo model: the network of the SeedVR2 video VAE at widths 8, 16, 32, 64; or a tiny decoder for it.

    train.py CLIPS --out DIR [--hold NAME ...] [--seconds N] [--start FILE.pt] [--lr X] [--adam] ...
    train.py CLIPS --out DIR --tiny DEMO.safetensors ...

CLIPS is a folder of *.mp4 files. The program ffmpeg must be in PATH. Clips whose file name contains one of the --hold
names are never trained on; quality is measured on them alone. Without --start the network begins as a linear transform;
--start uses the "ema" weights of a last.pt. With --tiny the network is a decoder of the TAEHV family. It learns to
decode the latents that the encoder of the given demo model makes of the clips.

Written to --out:
    demo.safetensors  the weights (moving average) as fp16, tensor names of the SeedVR2 VAE, metadata norm_num_groups and
                      vae.latent_space; the network's latents have mean about 0 and deviation 1, so there is no scale
    demo-tiny.safetensors  with --tiny, in place of it: tensor names of the TAEHV family
    last.pt           the state to resume from: weights, average, optimiser, step, seconds spent
    log.txt           one line per 50 steps; PSNR of the held-out clips at every save (17 frames 320x192; at the end
                      33 frames 416x240 as well)
You may kill a run at any time (SIGTERM saves first). The same command resumes from last.pt. The learning rate falls as
a half cosine over --seconds of training time, the sum of all restarts.

Needs PyTorch (2.x; convolutions run in bfloat16 through oneDNN, --fp32 turns that off) and numpy. Group norm with SiLU
comes from fused.cpp beside this file. It is built on first use with a C++ compiler and ninja; --plain works without it
and takes about 4/3 of the time. Each of --workers threads works on its own batch; their gradients are averaged. Shapes are
[batch, channels, time, height, width]; pixel values are -1..1.
"""
import argparse, concurrent.futures, glob, json, os, random, signal, struct, subprocess, time
os.environ.setdefault('OMP_NUM_THREADS', '1')    # threads take whole batches instead
import numpy as np
import torch

import nets

# ------------------------------------------------------------------------------------------------------------- data
def read_clip(path, scale, frames=None):
    """All frames of a clip as uint8 [T, H, W, 3], through an ffmpeg scale filter."""
    cmd = ['ffmpeg', '-v', 'error', '-i', path, '-an']
    if frames:
        cmd += ['-frames:v', str(frames)]
    probe = subprocess.run(['ffprobe', '-v', 'error', '-select_streams', 'v:0', '-show_entries', 'stream=width,height',
                            '-of', 'csv=p=0', path], capture_output=True, check=True, text=True).stdout
    w, h = map(int, probe.strip().split(',')[:2])
    if isinstance(scale, int):                              # length of the short side
        k = scale / min(w, h)
        tw, th = (round(w * k / 2) * 2, round(h * k / 2) * 2)
        vf = f'scale={tw}:{th}:flags=area'
    else:                                                   # fill this width and height, crop what is over
        tw, th = scale
        vf = f'scale={tw}:{th}:force_original_aspect_ratio=increase:flags=area,crop={tw}:{th}'
    raw = subprocess.run(cmd + ['-vf', vf, '-pix_fmt', 'rgb24', '-f', 'rawvideo', '-'], capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, th, tw, 3)


class Data:
    """Random crops of the training clips at several zoom levels, with cheap augmentation."""
    SIDES = (160, 192, 192, 240, 320, 480)                  # short sides; small ones are the sharpest, hence the hardest

    def __init__(self, files):
        cache = {(f, s): read_clip(f, s) for f in files for s in sorted(set(self.SIDES))}
        self.levels = [[cache[f, s] for f in files] for s in self.SIDES]

    def crop(self, t, h, w):
        """uint8 [t, h, w, 3]: a piece of one clip, perhaps panned, mirrored, transposed, reversed in time."""
        flip = h == w and random.random() < .2
        while True:
            d = random.choice(random.choice(self.levels))
            step = random.choice((1, 1, 1, 2, 3))
            span = (t - 1) * step + 1
            if d.shape[0] < span and step == 1 and random.random() < .3 and d.shape[1] >= h and d.shape[2] >= w:
                break                                       # too short a clip: play it there and back
            if d.shape[0] >= span and d.shape[1] >= h and d.shape[2] >= w:
                break
        n = d.shape[0]
        i = random.randrange(max(1, n - span + 1))
        idx = np.arange(i, i + span, step)
        idx = np.where(idx < n, idx, np.abs((idx - (n - 1)) % (2 * n - 2) - (n - 1))) if n > 1 else idx * 0
        y, x = random.randrange(d.shape[1] - h + 1), random.randrange(d.shape[2] - w + 1)
        vy = vx = 0.
        if random.random() < .3:                            # camera movement that the clip does not have
            vy, vx = random.gauss(0, 1.5), random.gauss(0, 2.5)
            if random.random() < .3:
                idx = np.full_like(idx, idx[0])             # of a still
        pos = [(int(np.clip(y + round(vy * k), 0, d.shape[1] - h)), int(np.clip(x + round(vx * k), 0, d.shape[2] - w))) for k in range(t)]
        c = np.stack([d[j, a:a + h, b:b + w] for j, (a, b) in zip(idx, pos)])
        if random.random() < .5:
            c = c[:, :, ::-1]
        if random.random() < .1:
            c = c[:, ::-1]
        if flip:
            c = c.transpose(0, 2, 1, 3)
        if random.random() < .3:
            c = c[::-1]
        return c

    def synthetic(self, t, h, w):
        """Flat, saturated, sharp-edged pictures: colour bars, gradients and moving rectangles."""
        pal = lambda: np.array([random.choice((0, 16, 128, 191, 235, 255)) if random.random() < .7 else random.randrange(256) for _ in range(3)])
        kind = random.randrange(3)
        if kind == 0:
            n = random.choice((2, 4, 7, 8)); bars = np.stack([pal() for _ in range(n)])
            bg = np.broadcast_to(bars[(np.arange(w) + random.randrange(w)) * n // (2 * w) % n][None], (h, w, 3))
        elif kind == 1:
            u, v = np.meshgrid(np.linspace(0, 1, w), np.linspace(0, 1, h)); k = (u * random.random() + v * random.random())[..., None]
            bg = pal() * (1 - k) + pal() * k
        else:
            s = random.choice((4, 8, 16, 32)); u, v = np.meshgrid(np.arange(w) // s, np.arange(h) // s); k = ((u + v) % 2)[..., None]
            bg = pal() * (1 - k) + pal() * k
        c = np.repeat(bg[None].astype(np.float32), t, 0)
        for _ in range(random.randrange(4)):
            bh, bw = random.randrange(4, h), random.randrange(4, w); y, x = random.uniform(-bh, h), random.uniform(-bw, w)
            vy, vx, col = random.gauss(0, 2), random.gauss(0, 3), pal()
            for k in range(t):
                a, b = int(y + vy * k), int(x + vx * k)
                c[k, max(a, 0):max(a + bh, 0), max(b, 0):max(b + bw, 0)] = col
        return c.clip(0, 255)

    def batch(self, n, t, h, w):
        out = []
        for _ in range(n):
            if random.random() < .04:
                c = self.synthetic(t, h, w)
            else:
                c = self.crop(t, h, w)
            c = np.ascontiguousarray(c).astype(np.float32) / 127.5 - 1
            if random.random() < .15:
                c = np.clip(c * random.uniform(.6, 1.25) + random.uniform(-.25, .25), -1, 1)
            if random.random() < .1:
                c = c[..., np.random.permutation(3)]
            out.append(c)
        return torch.from_numpy(np.stack(out)).permute(0, 4, 1, 2, 3).contiguous(memory_format=torch.channels_last_3d)


# Batch shapes of one worker: (weight, clips, frames, height, width). Large frames and long clips matter because the group norms see
# whole frames and because the repeated first frame is felt for dozens of frames.
EARLY = ((4, 2, 9, 64, 64), (2, 1, 17, 64, 64), (1, 1, 33, 48, 48), (.5, 3, 1, 128, 128), (2, 1, 9, 96, 96), (1, 2, 5, 96, 96))
LATE = ((2, 2, 9, 64, 64), (2, 1, 17, 64, 64), (1, 1, 33, 64, 64), (.5, 1, 1, 192, 256), (2, 1, 9, 96, 128), (1, 1, 5, 128, 192))
LAST = ((2, 1, 17, 96, 96), (1, 1, 49, 64, 80), (2, 1, 9, 128, 192), (.5, 1, 1, 240, 416), (1, 1, 9, 192, 320), (1, 1, 33, 80, 96))


def shape_for(done):
    mix = EARLY if done < .4 else LATE if done < .8 else LAST
    return random.choices([m[1:] for m in mix], [m[0] for m in mix])[0]


# -------------------------------------------------------------------------------------------------------- optimiser
class Muon(torch.optim.Optimizer):
    """Momentum with orthogonalised steps (Newton-Schulz) for weight matrices and kernels, Adam for the rest."""

    def __init__(self, model, lr):
        params = list(model.parameters())
        ends = [p for n, p in model.named_parameters() if any(k in n for k in ('.conv_in.', '.conv_out.', '.22.'))]
        mats = [p for p in params if p.dim() >= 2 and min(p.shape[:2]) >= 8 and not any(p is q for q in ends)]
        rest = [p for p in params if not any(p is q for q in mats)]
        super().__init__([dict(params=mats, muon=True), dict(params=rest, muon=False)], dict(lr=lr))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g['params']:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s['n'], s['m'], s['v'] = 0, torch.zeros_like(p), torch.zeros_like(p) if not g['muon'] else None
                s['n'] += 1
                if g['muon']:
                    s['m'].lerp_(p.grad, .05)
                    u = p.grad.lerp(s['m'], .95).contiguous().reshape(p.shape[0], -1)
                    r, c = u.shape
                    if r > c:
                        u = u.t()
                    u = (u / (u.norm() + 1e-12)).bfloat16()
                    for _ in range(5):
                        a = u @ u.t()
                        u = 3.4445 * u + (-4.775 * a + 2.0315 * a @ a) @ u
                    if r > c:
                        u = u.t()
                    p.add_(u.reshape(p.shape), alpha=-g['lr'] * .2 * max(r, c) ** .5)
                else:
                    s['m'].lerp_(p.grad, .1)
                    s['v'].lerp_(p.grad * p.grad, .02)
                    p.sub_(g['lr'] * (s['m'] / (1 - .9 ** s['n'])) / ((s['v'] / (1 - .98 ** s['n'])).sqrt() + 1e-10))


# ------------------------------------------------------------------------------------------------------ save, measure
def load_safetensors(path):
    """The fp16 tensors of a file that train.py wrote, as fp32."""
    with open(path, 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        body = f.read()
    return {k: torch.from_numpy(np.frombuffer(body[slice(*v['data_offsets'])], np.float16).reshape(v['shape']).astype(np.float32))
            for k, v in head.items() if k != '__metadata__'}


def save_safetensors(state, path, meta):
    head, off, blobs = {'__metadata__': meta}, 0, []
    for k, v in state.items():
        a = np.ascontiguousarray(v.detach().contiguous().half().numpy())
        head[k] = {'dtype': 'F16', 'shape': list(a.shape), 'data_offsets': [off, off + a.nbytes]}
        off += a.nbytes
        blobs.append(a.tobytes())
    j = json.dumps(head).encode()
    j += b' ' * (-len(j) % 8)
    with open(path + '.new', 'wb') as f:
        f.write(struct.pack('<Q', len(j)) + j + b''.join(blobs))
    os.replace(path + '.new', path)


def psnr(a, b):
    return float(10 * torch.log10(4 / ((a - b) ** 2).mean()))


@torch.no_grad()
def unit_latents(state, data):
    """Scale every latent channel to deviation 1 on training clips: out of the encoder's head, into the decoder's."""
    m = nets.VAE()
    m.load_state_dict(state, strict=False)
    random.seed(3)
    mu = torch.cat([m.encode(data.batch(2, 9, 96, 96))[0] for _ in range(24)])
    s, mean = mu.std((0, 2, 3, 4)), mu.mean((0, 2, 3, 4))
    state = {k: v.clone() for k, v in state.items()}
    state['encoder.conv_out.weight'][:nets.LATENT] /= s[:, None, None, None, None]
    state['encoder.conv_out.bias'][:nets.LATENT] /= s
    state['encoder.conv_out.bias'][nets.LATENT:] -= 2 * s.log()
    state['decoder.conv_in.weight'] *= s[None, :, None, None, None]
    return state, mean, s


@torch.no_grad()
def measure(m, state, clips):
    """Per clip: PSNR in fp32; the same with fp16 weights, fp16 latents and 8-bit frames; mean and deviation of the
    latents; PSNR of the first and last quarter of the frames. state: as plain() returns it, loaded into m."""
    out = []
    for name, v in clips:
        x = torch.from_numpy(v.astype(np.float32) / 127.5 - 1).permute(3, 0, 1, 2)[None].contiguous(memory_format=torch.channels_last_3d)
        m.load_state_dict(state, strict=False)
        mu = m.encode(x)[0]
        y = m.decode(mu).clamp(-1, 1)
        m.load_state_dict({k: t.half().float() for k, t in state.items()}, strict=False)
        y8 = ((m.decode(m.encode(x)[0].half().float()).clamp(-1, 1) + 1) * 127.5).round() / 127.5 - 1
        q = max(1, x.shape[2] // 4)
        out.append((name, psnr(y, x), psnr(y8, x), float(mu.mean()), float(mu.std()), psnr(y[:, :, :q], x[:, :, :q]), psnr(y[:, :, -q:], x[:, :, -q:])))
    return out


# -------------------------------------------------------------------------------------------------------------- main
def gradients(m, x, args):
    """Gradients of the loss on the batch x, and the squared error of each clip in it. Runs in a thread of its own."""
    torch.set_num_threads(1)
    with torch.autocast('cpu', torch.bfloat16, enabled=not args.fp32):
        z, keep = m.codes(x)
        y = m.decode(z + args.noise * torch.randn_like(z))
    d = y - x
    l2 = (d * d).mean((1, 2, 3, 4))
    # squared error is what PSNR counts; the logarithm keeps easy clips from being ignored beside hard ones
    loss = 5 * l2.mean() + .01 * torch.log(l2 + 3e-4).mean() + .2 * d.abs().mean() + keep
    return torch.autograd.grad(loss, list(m.parameters())), l2.detach().numpy()


def build_fused():
    """Group norm and SiLU are most of the time in plain PyTorch; this needs a C++ compiler and ninja."""
    from torch.utils.cpp_extension import load
    return load('gst_vae_demo_fused', [os.path.join(os.path.dirname(os.path.abspath(__file__)), 'fused.cpp')],
                extra_cflags=['-O3', '-march=native', '-ffast-math', '-fopenmp', '-mprefer-vector-width=512'], extra_ldflags=['-lmvec', '-lm'])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('clips')
    ap.add_argument('--out', required=True, help='folder for last.pt, the weights and log.txt')
    ap.add_argument('--tiny', metavar='DEMO.safetensors', help='train a tiny decoder for the latents of this model')
    ap.add_argument('--hold', nargs='*', default=['sd_Wan2.2_14B_t2v', 'sdv2_original'], help='clips to measure on, never trained on')
    ap.add_argument('--seconds', type=float, default=6000, help='training time in all')
    ap.add_argument('--start', help='weights ("ema" of a last.pt) to start from in place of the linear transform')
    ap.add_argument('--lr', type=float, default=1e-3, help='peak learning rate')
    ap.add_argument('--adam', action='store_true', help='Adam for everything in place of Muon')
    ap.add_argument('--fp32', action='store_true', help='no bfloat16')
    ap.add_argument('--plain', action='store_true', help='do not build fused.cpp')
    ap.add_argument('--noise', type=float, default=.01, help='noise added to the latents')
    ap.add_argument('--workers', type=int, default=2, help='batches at once, a thread each')
    ap.add_argument('--save-every', type=float, default=420, help='seconds between saves')
    ap.add_argument('--mix', type=float, help='fixed place in the schedule of batch shapes (0..1), for experiments')
    args = ap.parse_args()
    torch.set_num_threads(1)
    pool = concurrent.futures.ThreadPoolExecutor(args.workers)
    if not args.plain:
        nets.FUSED = build_fused()
    os.makedirs(args.out, exist_ok=True)
    path = lambda n: os.path.join(args.out, n)

    def log(s):
        print(s, flush=True)
        with open(path('log.txt'), 'a') as f:
            f.write(s + '\n')

    files = sorted(glob.glob(os.path.join(args.clips, '*.mp4')))
    held = [f for f in files if any(h in os.path.basename(f) for h in args.hold)]
    data = Data([f for f in files if f not in held])
    val = [(f'{os.path.basename(f)[:-4]} {w}x{h}x{n}', read_clip(f, (w, h), n)) for w, h, n in ((320, 192, 17), (416, 240, 33)) for f in held]

    torch.manual_seed(1)

    def network():
        if not args.tiny:
            return nets.VAE()
        teacher = nets.VAE().eval()
        teacher.load_state_dict(load_safetensors(args.tiny), strict=False)
        return nets.Tiny(nets.channels_last(teacher))

    m = network()
    make = (lambda: torch.optim.AdamW(m.parameters(), lr=args.lr, betas=(.9, .98), weight_decay=0)) if args.adam else (lambda: Muon(m, args.lr))
    step, before = 0, 0.
    if os.path.exists(path('last.pt')):
        st = torch.load(path('last.pt'), weights_only=False)
        m.load_state_dict(st['m'])
        m = nets.channels_last(m)
        opt, ema, step, before = make(), st['ema'], st['step'], st['seconds']
        opt.load_state_dict(st['opt'])
    else:
        if args.start:
            m.load_state_dict(nets.plain(torch.load(args.start, weights_only=False)['ema']), strict=False)
        else:
            random.seed(0)
            m.start(data)
        random.seed(2)
        nets.center(m, data.batch(8, 17, 128, 128))
        m = nets.channels_last(m)
        opt, ema = make(), {k: v.detach().clone() for k, v in m.state_dict().items()}
    log(f'# {sum(p.numel() for p in m.parameters())} parameters, from step {step}, {before:.0f} s, lr {args.lr}, {"adam" if args.adam else "muon"}')
    random.seed(step + 1)
    np.random.seed(step + 1)
    torch.manual_seed(step + 1)

    def save(last=False):
        torch.save(dict(m=m.state_dict(), ema=ema, opt=opt.state_dict(), step=step, seconds=spent), path('last.pt.new'))
        os.replace(path('last.pt.new'), path('last.pt'))
        state, say = nets.plain(ema), ''
        if not args.tiny:
            state, mean, dev = unit_latents(state, data)
            say = f'; latents of training clips, before scaling: mean {", ".join(f"{v:.2f}" for v in mean / dev)}; deviation {", ".join(f"{v:.2f}" for v in dev)}'
        save_safetensors(state, path(m.NAME), m.META)
        log('  saved' + say)
        for n, a, b, mean, dev, q0, q1 in measure(network().eval(), state, val if last else val[:len(held)]):
            log(f'  held out {n}: {a:.2f} dB, fp16 and 8 bit {b:.2f} dB; first quarter {q0:.2f}, last {q1:.2f}; latents {mean:+.2f} +- {dev:.2f}')

    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    t0, saved, avg, spent, sec = time.time(), time.time(), None, before, time.time()
    while spent < args.seconds and not stop:
        done = spent / args.seconds
        lr = args.lr * min(1, (step + 1) / 100) * (.01 + .99 * .5 * (1 + np.cos(np.pi * done)))
        for g in opt.param_groups:
            g['lr'] = lr
        shape = shape_for(done if args.mix is None else args.mix)
        parts = list(pool.map(lambda _: gradients(m, data.batch(*shape), args), range(args.workers)))
        for i, p in enumerate(m.parameters()):
            p.grad = sum(g[i] for g, _ in parts) / args.workers
        l2 = np.concatenate([q for _, q in parts])
        norm = torch.nn.utils.clip_grad_norm_(m.parameters(), 1.)
        if torch.isfinite(norm):
            opt.step()
        step += 1
        decay = min(.999, 1 - 1 / (step / 10 + 1))
        with torch.no_grad():
            for k, v in m.state_dict().items():
                ema[k].lerp_(v, 1 - decay)
        db = -10 * np.log10(np.maximum(l2, 1e-6) / 4).mean()
        avg = db if avg is None else .98 * avg + .02 * db
        spent = before + time.time() - t0
        if step % 50 == 0:
            log(f'{spent:.0f} s, step {step}, lr {lr:.1e}, train {avg:.2f} dB, gradient {float(norm):.3f}, {(time.time() - sec) * 20:.0f} ms a step')
            sec = time.time()
        if time.time() - saved > args.save_every:
            save()
            saved = sec = time.time()
    save(last=not stop)
    log(f'# done: step {step}, {spent:.0f} s')


if __name__ == '__main__':
    main()
