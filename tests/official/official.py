#!/usr/bin/env python3
"""Runs released weights through their official code and through vaetool.

run.sh --help tells what for; it calls this with its words as options. "official.py network JOB"
is one run of one official network, in a process of its own so that its peak memory is its own.
"""
import argparse
import functools
import glob
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import struct
import subprocess
import sys
import time
import types
import zlib

import numpy as np

# PSNR in dB that a run must reach against the official one in fp32, unless the official code in
# the same type is further off itself: then 1 dB below that. It is what other orders of summation
# and 16-bit types cost random networks of these structures; trained ones forgive more.
BOUNDS = {'fp32': 75, 'tf32': 58, 'fp16': 58, 'bf16': 40}
SEEDVR2_SCALE = 0.9152


def read(path):
    """All tensors of a safetensors file; 16-bit ones as float32."""
    with open(path, 'rb') as f:
        header = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data, out = f.read(), {}
    header.pop('__metadata__', None)
    for name, t in header.items():
        kind = {'F32': '<f4', 'F16': '<f2', 'BF16': '<u2', 'U8': 'u1',
                'I64': '<i8'}[t['dtype']]
        a = np.frombuffer(data[slice(*t['data_offsets'])], kind)
        if t['dtype'] == 'BF16':
            a = (a.astype('<u4') << 16).view('<f4')
        out[name] = (a if t['dtype'] in ('U8', 'I64') else a.astype('<f4')).reshape(t['shape'])
    return out


def write(path, tensors):
    header, at = {}, 0
    for name, a in tensors.items():
        header[name] = {'dtype': {'f': 'F32', 'u': 'U8'}[a.dtype.kind], 'shape': a.shape,
                        'data_offsets': [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for a in tensors.values():
            f.write(a.tobytes())
    return path


def write_png(path, picture):
    """picture: [height, width, 3] bytes."""
    def chunk(kind, body):
        return (struct.pack('>I', len(body)) + kind + body +
                struct.pack('>I', zlib.crc32(kind + body)))
    height, width, _ = picture.shape
    head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    rows = b''.join(b'\0' + row.tobytes() for row in picture)
    with open(path, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) +
                chunk(b'IDAT', zlib.compress(rows, 9)) + chunk(b'IEND', b''))


class Failed(Exception):
    pass


# A process counts as its own peak what it was forked from, so a small one stands between.
BETWEEN = '''import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
with open(sys.argv[1], 'w') as f:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=f)
sys.exit(code != 0)'''


def run(command, work):
    """Its standard output, and its peak memory in bytes."""
    peak = os.path.join(work, 'peak')
    done = subprocess.run([sys.executable, '-S', '-c', BETWEEN, peak, *map(str, command)],
                          capture_output=True, text=True)
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ['ended without a word'])[-1])
    with open(peak) as f:
        return done.stdout, int(f.read()) * 1024


class Tool:
    """vaetool, with what all its runs share."""

    def __init__(self, a):
        self.a = a

    def call(self, *words):
        return run([self.a.vaetool, *words], self.a.work)

    def info(self, path):
        return json.loads(self.call('info', '--json', path)[0])

    @functools.lru_cache(maxsize=None)
    def modes(self, path, size):
        """(backend, precision, {direction: bytes of the plan}) that can be run here."""
        found = []
        for backend in ('cuda', 'cpu', 'ref'):
            for precision in BOUNDS if backend != 'ref' or not found else ():
                try:
                    text, _ = self.call(
                        'plan', '--model', path, '--size', size, '--backend', backend,
                        '--precision', precision, '--threads', self.a.threads)
                except Failed:
                    continue
                plans = re.findall(r'^(\w+):.*?^ +total +(\d+) bytes', text, re.M | re.S)
                found.append((backend, precision, {k: int(v) for k, v in plans}))
        return found

    def compare(self, left, right, tensor, peak):
        """max_abs, psnr (None: no difference) and, of frames, ssim."""
        bounds = ['--min-ssim', '-2', '--peak', peak] if tensor == 'frames' else []
        text, _ = self.call('compare', '--tensor', tensor, *bounds, left, right)
        found = re.search(r' max (\S+) at .* PSNR (\S+) dB(?:.* SSIM (\S+))?', text)
        if not found:
            raise Failed(text.strip())
        largest, psnr, ssim = (float(v or 'nan') for v in found.groups())
        return {'max_abs': largest, 'psnr': psnr if np.isfinite(psnr) else None,
                **({'ssim': ssim} if tensor == 'frames' else {})}

    def rate(self, path, row):
        """Frames per second of the whole clip."""
        text, _ = self.call(
            'bench', '--csv', '--model', path, '--size', row['size'], '--frames', row['frames'],
            '--backend', row['backend'], '--precision', row['precision'], '--threads',
            self.a.threads, *(['--encode'] if row['direction'] == 'encode' else []))
        names, values = (line.split(',') for line in text.split('\n')[:2])
        r = dict(zip(names, values))
        return ((int(r['first_frames']) + int(r['later_frames'])) /
                (float(r['first_s']) + float(r['later_s'])))


# The file that defines a family of networks.
CODE = {'wan2.1': 'wan/modules/vae.py', 'wan2.2': 'wan/modules/vae2_2.py',
        'seedvr2': 'models/video_vae_v3/modules/attn_video_vae.py', 'taehv': 'taehv.py',
        'taesd': 'taesd.py'}


def family(info):
    """The tiny networks of video, those of images, or the network itself."""
    if not info['arch'].startswith('tae'):
        return info['arch']
    return 'taehv' if info['temporal'] > 1 else 'taesd'


def find_code(root, info):
    """The file that defines the network, of a checkout in root or root itself; None."""
    return next((path for place in ('', '*') for path in
                 sorted(glob.glob(os.path.join(root, place, CODE[family(info)])))), None)


def commit_of(path):
    try:
        done = subprocess.run(['git', '-C', os.path.dirname(path), 'rev-parse', '--short', 'HEAD'],
                              capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 'unknown commit'  # no git, or no checkout
    return 'commit ' + done.stdout.strip()


def name_of(code):
    """What a report says about the code that ran."""
    if not code.endswith('.json'):
        return '%s, %s' % (os.path.basename(code), commit_of(code))
    with open(code) as f:
        name = json.load(f)['_class_name']
    return '%s of diffusers %s' % (name, importlib.metadata.version('diffusers'))


def load_module(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_weights(path):
    import torch
    if path.endswith('.safetensors'):
        return {k: torch.from_numpy(v.copy()) for k, v in read(path).items()}
    state = torch.load(path, map_location='cpu', weights_only=True)
    while not all(hasattr(v, 'shape') for v in state.values()):
        state = next(v for v in state.values() if isinstance(v, dict))
    return {k: v.float() for k, v in state.items()}


# Each make_ function gives a network and functions from latents [1, C, T, h, w] as the diffusion
# model sees them to frames [1, 3, T, H, W] in the network's range, and back.
def make_wan(code, state, info):
    import torch
    if not hasattr(torch.nn.functional, 'scaled_dot_product_attention'):  # before PyTorch 2
        torch.nn.functional.scaled_dot_product_attention = lambda q, k, v: torch.softmax(
            q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
    extra = {}
    if info['arch'] == 'wan2.2':
        extra['dec_dim'] = state['decoder.conv1.weight'].shape[0] // 4
    net = load_module(code, 'wan_vae').WanVAE_(
        dim=state['encoder.conv1.weight'].shape[0], z_dim=info['latent_channels'],
        dim_mult=[1, 2, 4, 4], num_res_blocks=2, attn_scales=[],
        temperal_downsample=[False, True, True], **extra)
    net.load_state_dict(state)

    def scale(like):
        return [torch.tensor(info['mean']).to(like), (1 / torch.tensor(info['std'])).to(like)]
    return net, lambda z: net.decode(z, scale(z)), lambda x: net.encode(x, scale(x))


def make_seedvr2(code, state, info):
    sys.path.insert(0, os.path.join(os.path.dirname(code), '..', '..', '..'))
    import models.video_vae_v3.modules.attn_video_vae as m
    widths = [state['encoder.down_blocks.%d.resnets.0.conv1.weight' % i].shape[0]
              for i in range(4)]
    net = m.VideoAutoencoderKL(
        act_fn='silu', block_out_channels=widths, in_channels=3, out_channels=3,
        latent_channels=info['latent_channels'], layers_per_block=2,
        norm_num_groups=info['groups'], slicing_sample_min_size=4, temporal_scale_num=2,
        inflation_mode='pad', use_quant_conv=False, use_post_quant_conv=False,
        down_block_types=['DownEncoderBlock3D'] * 4, up_block_types=['UpDecoderBlock3D'] * 4)
    net.load_state_dict(state, strict=True)
    net.enable_slicing()
    return (net, lambda z: net.decode(z / SEEDVR2_SCALE).sample,
            lambda x: net.encode(x).latent_dist.mode() * SEEDVR2_SCALE)


FLAT = 'AutoencoderKL', 'AutoencoderKLFlux2', 'AutoencoderTiny'  # [B, C, h, w]


def make_diffusers(code, state, info):
    """code: the configuration beside the weights. A network without time gets the frames of a
    clip as a batch."""
    import diffusers
    import torch
    with open(code) as f:
        config = json.load(f)
    name = config['_class_name']
    net = getattr(diffusers, name).from_config(config)
    net.load_state_dict(state)
    mean, std = (torch.tensor(info[k]).reshape(-1, 1, 1, 1) for k in ('mean', 'std'))
    if name == 'AutoencoderTiny':  # its latents are normalized
        mean, std = torch.zeros(1), torch.ones(1)
    low, high = info['pixel_range']  # the module's is -1 to 1

    def clip_of(function, v):
        if info['temporal'] > 1:
            return function(v)
        batch = v[0].transpose(0, 1)
        made = function(batch if name in FLAT else batch.unsqueeze(2))
        return (made if name in FLAT else made.squeeze(2)).transpose(0, 1)[None]

    def decode(z):
        folded = name == 'AutoencoderKLFlux2'
        x = net.decode(torch.pixel_shuffle(z, 2) if folded else z).sample
        return (x + 1) / 2 * (high - low) + low

    def encode(x):
        x = (x - low) / (high - low) * 2 - 1
        if config.get('in_channels') == 4:
            x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
        made = net.encode(x)
        made = made.latents if name == 'AutoencoderTiny' else made.latent_dist.mean
        return torch.pixel_unshuffle(made, 2) if name == 'AutoencoderKLFlux2' else made

    return (net, lambda z: clip_of(decode, z * std.to(z) + mean.to(z)),
            lambda x: (clip_of(encode, x) - mean.to(x)) / std.to(x))


def make_taehv(code, state, info):
    if not importlib.util.find_spec('tqdm'):
        fake = types.SimpleNamespace(tqdm=lambda it=None, **_: it)
        sys.modules.update({'tqdm': types.ModuleType('tqdm'), 'tqdm.auto': fake})
    from unittest import mock
    import torch
    tae = load_module(code, 'taehv').TAEHV
    # The code chooses the network by the name of a file, which it then loads.
    with mock.patch.object(torch, 'load', lambda *_, **__: state):
        net = tae(info['arch'] + '.pth')

    def of(function):
        return lambda v: function(v.transpose(1, 2), parallel=False,
                                  show_progress_bar=False).transpose(1, 2)
    return net, of(net.decode_video), of(net.encode_video)


def make_taesd(code, state, info):
    """An official file has one half, with bare names. The frames of a clip are a batch."""
    import torch
    tae = load_module(code, 'taesd').TAESD
    # The code chooses the network by the name of a file.
    net = tae(None, None, *tae.guess_latent_channels_and_arch(tae, info['arch'] + '_encoder.pth'))
    whole = any(name.startswith(('encoder.', 'decoder.')) for name in state)
    (net if whole else net.decoder if info['decoder'] else net.encoder).load_state_dict(state)
    fold = 2 if info['arch'] == 'taef2' else 1

    def of(function):
        return lambda v: function(v[0].transpose(0, 1)).transpose(0, 1)[None]
    return (net, of(lambda z: net.decoder(torch.pixel_shuffle(z, fold))),
            of(lambda x: torch.pixel_unshuffle(net.encoder(x), fold)))


def network(path):
    """One official run; prints JSON. Input and output are vaetool's."""
    with open(path) as f:
        job = json.load(f)
    import torch
    info, precision, device = job['info'], job['precision'], job['device']
    make = (make_diffusers if job['code'].endswith('.json') else
            {'wan2.1': make_wan, 'wan2.2': make_wan, 'seedvr2': make_seedvr2,
             'taehv': make_taehv, 'taesd': make_taesd}[family(info)])
    dtype = {'fp16': torch.float16, 'bf16': torch.bfloat16}.get(precision, torch.float32)
    torch.set_num_threads(job['threads'])
    torch.backends.cudnn.allow_tf32 = precision == 'tf32'
    torch.backends.cuda.matmul.allow_tf32 = precision == 'tf32'
    net, decode, encode = make(job['code'], load_weights(job['weights']), info)
    net.eval().requires_grad_(False).to(device, dtype)
    given = read(job['input'])
    if job['direction'] == 'decode':
        x, go = torch.from_numpy(given['latent'].copy())[None], decode
    else:
        low, high = info['pixel_range']
        x = torch.from_numpy(given['video_u8'].copy()).permute(3, 0, 1, 2)[None]
        x, go = x.float() / 255 * (high - low) + low, encode
    x, times = x.to(device, dtype), []
    with torch.no_grad():
        while not times or (len(times) < 2 and times[0] < 60):  # the first warms up
            start = time.monotonic()
            y = go(x).float().cpu()
            times.append(time.monotonic() - start)
    y = y[0].numpy()
    if job['direction'] == 'decode':
        if job['code'].endswith('.json'):  # some classes clamp
            y = y.clip(*info['pixel_range'])
        write(job['output'], {'frames': y.transpose(1, 2, 3, 0)})
    else:
        write(job['output'], {'latent': y})
    print(json.dumps({'seconds': times[-1], 'torch': torch.__version__, 'peak_memory':
                      torch.cuda.max_memory_allocated() if device == 'cuda' else None}))


class Official:
    """The official code for one file of weights, or why there is none."""

    def __init__(self, a, path, info):
        self.a, self.path, self.info, self.code, self.done = a, path, info, None, {}
        config = os.path.join(os.path.dirname(path), 'config.json')
        if os.path.exists(config) and importlib.util.find_spec('diffusers'):
            self.why, self.code = None, config
        elif not a.official:
            self.why = 'OFFICIAL is not set'
        elif info['names'] != 'official':
            self.why = 'the tensors have %s names' % info['names']
        elif not importlib.util.find_spec('torch'):
            self.why = 'no PyTorch'
        elif family(info) not in CODE:
            self.why = 'official.py does not run the code of %s' % info['arch']
        else:
            self.code = find_code(a.official, info)
            self.why = None if self.code else 'no checkout of its code in OFFICIAL'

    def __call__(self, direction, precision, source):
        """The file of the result, and {seconds, torch, peak_memory}."""
        key = direction, precision, source
        if key not in self.done:
            name = os.path.join(self.a.work, 'official-%s-%s' % key[:2])
            with open(name + '.json', 'w') as f:
                json.dump({'info': self.info, 'weights': self.path, 'code': self.code,
                           'direction': direction, 'precision': precision, 'input': source,
                           'output': name + '.safetensors', 'device': self.a.device,
                           'threads': self.a.threads}, f)
            text, peak = run([sys.executable, os.path.abspath(__file__), 'network',
                              name + '.json'], self.a.work)
            said = json.loads(text.strip().splitlines()[-1])
            said['peak_memory'] = said['peak_memory'] or peak
            self.done[key] = name + '.safetensors', said
        return self.done[key]


class Examination:
    """Both directions of one file, in every mode of this machine."""

    def __init__(self, a, tool, path, goldens, report):
        self.a, self.tool, self.path, self.report = a, tool, path, report
        said = tool.info(path)
        self.info = info = said.get('model')
        if not info:
            raise Failed(said.get('no_model', 'holds no weights'))
        info['groups'] = int(said['metadata'].get('norm_num_groups', 32))
        self.low, self.high = info['pixel_range']
        self.official = Official(a, path, info)
        self.golden = goldens.get(info['fingerprint'])
        keys = 'arch', 'latent_space', 'names', 'reason', 'type', 'bytes', 'fingerprint'
        code = self.official.code
        report.update({k: info[k] for k in keys}, runs=[], official=(
            name_of(code) if code else
            '%s (%s)' % ('golden vectors' if self.golden else 'not run', self.official.why)))
        print('%(file)s: %(arch)s, %(type)s, fingerprint %(fingerprint)s, official: %(official)s'
              % report, flush=True)

    def temporary(self, *words):
        return os.path.join(self.a.work, '-'.join(words) + '.safetensors')

    def run(self, clip):
        stored = self.golden and not self.official.code
        for case in self.golden_cases() if stored else self.clip_cases(clip):
            if self.info['decoder' if case[0] == 'decode' else 'encoder']:
                self.case(*case)

    def golden_cases(self):
        """(direction, input, result of the official code, clip): here one file holds the first
        two."""
        for direction in ('encode', 'decode'):
            for path in sorted(glob.glob(os.path.join(self.golden, direction + '_*'))):
                if '_weights_' not in path and '_sparse' not in path:
                    yield direction, path, path, None

    def clip_cases(self, clip):
        """The clip, and its latents: made by the official code where it can be run."""
        def want(direction, source):
            return self.official(direction, 'fp32', source)[0] if self.official.code else None
        frames = (clip / 255 * (self.high - self.low) + self.low).astype('<f4')
        video = write(self.temporary('clip'), {'video_u8': clip, 'frames': frames})
        if self.info['encoder']:
            made = want('encode', video)
            yield 'encode', video, made, None
            latent = read(made or self.temporary('ours'))['latent']
        else:
            s, video = self.info['spatial'], None
            latent = np.random.RandomState(2).standard_normal(
                (self.info['latent_channels'], 1 + (len(clip) - 1) // self.info['temporal'],
                 self.a.height // s, self.a.width // s)).astype('<f4')
        if self.info['decoder']:
            source = write(self.temporary('latent'), {'latent': np.ascontiguousarray(latent)})
            yield 'decode', source, want('decode', source), video

    def length(self, direction, source):
        """Frames and size of the video side."""
        if direction == 'encode':
            t, height, width, _ = read(source)['video_u8'].shape
            return t, '%dx%d' % (width, height)
        _, t, h, w = read(source)['latent'].shape
        s, d = self.info['spatial'], self.info['decode']
        return (d['first_out'] + (t - d['first_in']) // d['step_in'] * d['step_out'],
                '%dx%d' % (w * s, h * s))

    def case(self, direction, source, want, clip):
        frames, size = self.length(direction, source)
        results = []
        for backend, precision, plan in self.tool.modes(self.path, size):
            row = {'direction': direction, 'backend': backend, 'precision': precision,
                   'size': size, 'frames': frames, 'plan_bytes': plan.get(direction)}
            self.report['runs'].append(row)
            try:
                results.append(self.one(row, source, want, clip))
            except Failed as e:
                row['failed'] = str(e)
            tell(row)
        if direction == 'decode' and results:
            self.picture([p for p in (clip, want) if p] + results)

    def one(self, row, source, want, clip):
        """Fills the row of one mode; the tensor that came out."""
        direction, precision = row['direction'], row['precision']
        tensor, peak = 'frames' if direction == 'decode' else 'latent', self.high - self.low
        out = self.temporary('ours')
        _, row['peak_memory'] = self.tool.call(
            direction, '--model', self.path, '--backend', row['backend'], '--precision',
            precision, '--threads', self.a.threads, source, out)
        result = read(out)[tensor]
        code = self.official.code
        if tensor == 'frames' and code and code.endswith(('taehv.py', '.json')):
            # The official code clamps, or may.
            result = np.clip(result, self.low, self.high)
            write(out, {'frames': result})
        row['fps'] = self.tool.rate(self.path, row)
        bound = BOUNDS[precision]
        if self.official.code:
            same, said = self.official(direction, precision, source)
            row['official'] = {**said, 'fps': row['frames'] / said['seconds']}
            if precision != 'fp32':
                own = self.tool.compare(want, same, tensor, peak)
                row['official'].update(own)
                bound = bound if own['psnr'] is None else min(bound, own['psnr'] - 1)
        if clip:
            row['clip'] = self.tool.compare(clip, out, 'frames', peak)
        if want:
            row['against_official'] = self.tool.compare(want, out, tensor, peak)
            psnr = row['against_official']['psnr']
            row.update(bound=bound, agrees=psnr is None or psnr >= bound)
        return result

    def picture(self, columns):
        """First, middle and last frame of files and arrays, side by side; last comes 16 times the
        difference of the last two."""
        columns = [read(c)['frames'] if isinstance(c, str) else c for c in columns]
        n = min(len(c) for c in columns)
        columns = [(c[:n] - self.low) / (self.high - self.low) for c in columns]
        if len(columns) > 1:
            columns.append(0.5 + 16 * (columns[-1] - columns[-2]))
        rows = [np.concatenate([c[t] for c in columns], 1) for t in sorted({0, n // 2, n - 1})]
        self.report['picture'] = self.report['file'].replace(os.sep, '-') + '.png'
        write_png(os.path.join(self.a.out, self.report['picture']),
                  np.clip(np.concatenate(rows) * 255, 0, 255).round().astype(np.uint8))


def tell(row):
    words = '  %(direction)s, %(backend)s, %(precision)s, %(size)s, %(frames)d frames' % row
    if 'against_official' in row:
        p = row['against_official']
        words += '; max %.3g, PSNR %.4g dB' % (p['max_abs'], p['psnr'] or np.inf)
    for what, r in (('; ', row), ('; official ', row.get('official', {}))):
        if 'fps' in r:
            words += '%s%.3g frames/s, %d MB' % (what, r['fps'], r['peak_memory'] / 1e6)
    print(words + ('; FAILED: ' + row['failed'] if 'failed' in row else
                   {True: '; agrees', False: '; PAST ITS BOUND'}.get(row.get('agrees'), '')),
          flush=True)


def clip_of(a):
    """As many frames as every network takes whole, [T, H, W, 3]; waves where none are given."""
    path, size = os.path.join(a.work, 'clip.rgb'), a.width * a.height * 3
    have = os.path.getsize(path) // size if os.path.exists(path) else a.frames
    if have < 1:
        sys.exit('the clip has no frame')
    n = (min(a.frames, have) - 1) // 8 * 8 + 1
    if os.path.exists(path):
        return np.fromfile(path, np.uint8, n * size).reshape(n, a.height, a.width, 3)
    t, y, x = np.mgrid[0:n, 0:a.height, 0:a.width].astype(np.float32)
    waves = [np.sin(x / (20 + 9 * c) + y / (31 - 7 * c) + t / 3) for c in range(3)]
    return (127.5 + 110 * np.stack(waves, -1)).astype(np.uint8)


def machine(a, tool):
    with open('/proc/cpuinfo') as f:
        model = re.search(r'model name\s*: (.*)', f.read())
    return {'processor': model.group(1) if model else platform.machine(), 'threads': a.threads,
            'device': a.device, 'system': platform.platform(), 'numpy': np.__version__,
            'vaetool': tool.call('--version')[0].strip(), 'source': commit_of(__file__)}


def main():
    p = argparse.ArgumentParser()
    for name in ('vaetool', 'weights', 'official', 'golden', 'out', 'work', 'size', 'device'):
        p.add_argument('--' + name)
    for name in ('frames', 'threads'):
        p.add_argument('--' + name, type=int)
    a = p.parse_args()
    a.width, a.height = map(int, a.size.split('x'))
    tool, clip, files, goldens = Tool(a), clip_of(a), [], {}
    stored = os.path.join(a.golden, '**/weights.safetensors') if a.golden else ''
    for path in glob.glob(stored, recursive=True):
        goldens[tool.info(path)['model']['fingerprint']] = os.path.dirname(path)
    for path in sorted(glob.glob(os.path.join(a.weights, '**/*'), recursive=True)):
        if not path.endswith(('.pth', '.pt', '.safetensors')):
            continue
        files.append({'file': os.path.relpath(path, a.weights)})
        try:
            Examination(a, tool, path, goldens, files[-1]).run(clip)
        except (Failed, OSError) as why:
            what = 'failed' if 'arch' in files[-1] else 'skipped'
            files[-1][what] = str(why)
            print('%s: %s: %s' % (files[-1]['file'], what, why), flush=True)
    report = os.path.join(a.out, 'report.json')
    with open(report, 'w') as f:
        json.dump({'machine': machine(a, tool), 'files': files}, f, indent=1)
    rows = [r for f in files for r in f.get('runs', [])]
    bad = sum('failed' in r or r.get('agrees') is False for r in rows + files)
    print('%d files, %d recognised; %d runs, %d held against the official code, %d failed or past '
          'a bound; %s' % (len(files), sum('runs' in f for f in files), len(rows),
                           sum('agrees' in r for r in rows), bad, report))
    if bad:
        return 1
    if not any('agrees' in r for r in rows):
        print('nothing was checked: ' + (
            'no official code ran (OFFICIAL, GOLDEN; see --help)' if rows else
            'no file of %s is recognised' % a.weights))
        return 77
    return 0


if __name__ == '__main__':
    sys.exit(network(sys.argv[2]) if sys.argv[1:2] == ['network'] else main())
