#!/usr/bin/env python3
"""Runs released weights through their official code and through vaetool.

run.sh --help tells what for; it calls this with its words as options.
"""
import argparse
import functools
import glob
import json
import os
import platform
import re
import subprocess
import sys

import numpy as np

import networks
from tensors import read, write, write_png

# PSNR in dB that a run must reach against the official one in fp32, unless the official code in
# the same type is further off itself: then 1 dB below that. It is what other orders of summation
# and 16-bit types cost random networks of these structures; trained ones forgive more.
BOUNDS = {'fp32': 75, 'tf32': 58, 'fp16': 58, 'bf16': 40}


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
        said = done.stderr.strip() or done.stdout.strip() or 'ended without a word'
        raise Failed(said.splitlines()[-1])
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


class Official:
    """The official code for one file of weights, or why there is none."""

    def __init__(self, a, path, info):
        self.a, self.path, self.info, self.done = a, path, info, {}
        self.code, self.why = networks.choose_code(path, a.official, info)

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
            text, peak = run([sys.executable, networks.__file__, name + '.json'], self.a.work)
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
            networks.name_of(code) if code else
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
        if clip:  # without alpha
            colours = write(self.temporary('colours'),
                            {'frames': np.ascontiguousarray(result[..., :3])})
            row['clip'] = self.tool.compare(clip, colours, 'frames', peak)
        if want:
            row['against_official'] = self.tool.compare(want, out, tensor, peak)
            psnr = row['against_official']['psnr']
            row.update(bound=bound, agrees=psnr is None or psnr >= bound)
        return result

    def picture(self, columns):
        """First, middle and last frame of files and arrays, side by side; last comes 16 times the
        difference of the last two."""
        columns = [(read(c)['frames'] if isinstance(c, str) else c)[..., :3] for c in columns]
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
            'vaetool': tool.call('--version')[0].strip(), 'source': networks.commit_of(__file__)}


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
        if not path.endswith(('.ckpt', '.pth', '.pt', '.safetensors')):
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
    sys.exit(main())
