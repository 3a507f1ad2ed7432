"""The accuracy of the precisions, and the equality of bytes over slices and
runs, with the timed choices that a user gets."""
import array
import hashlib
import json
import os
import random
import re
import struct

from measure.ladder import RUNGS
from runner import Skip, Stopped, TOP
from measure.speed import tool_of, weights

DEMO = os.path.join(TOP, 'pipelines/demo')


def write_latents(path, dims):
    """Random latents, as a safetensors file."""
    n = 1
    for d in dims:
        n *= d
    dice = random.Random(1)
    data = array.array('f', (dice.uniform(-1.5, 1.5) for _ in range(n)))
    head = json.dumps({'latent': {'dtype': 'F32', 'shape': dims,
                                  'data_offsets': [0, 4 * n]}}).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(head)) + head)
        data.tofile(f)


def latent_of(run, name, model):
    """Returns the channels, and the pixels of a latent pixel. (`info` reads the
    whole file for its fingerprint, which takes long for a large one.)"""
    known = {'wan2.1': (16, 8), 'wan2.2': (48, 16), 'seedvr2': (16, 8)}
    if name in known:
        return known[name]
    info = json.loads(run.call([tool_of(run), 'info', model,
                                '--json']).out)['model']
    return info['latent_channels'], info['spatial']


def digest(path):
    with open(path, 'rb') as f:
        return hashlib.file_digest(f, 'sha256').hexdigest() \
            if hasattr(hashlib, 'file_digest') else \
            hashlib.sha256(f.read()).hexdigest()


class Exact:
    def __init__(self, run):
        self.run, self.rows = run, run.rows
        self.tmp = run.tmp
        os.makedirs(self.tmp, exist_ok=True)

    def file(self, name):
        return os.path.join(self.tmp, name + '.safetensors')

    def do(self, direction, model, source, out, *words):
        """Returns None, or the error."""
        done = self.run.call([tool_of(self.run), direction, '--model', model,
                              '--backend', 'cuda', *words, source,
                              self.file(out)], 120)
        return ('stopped' if done.stopped else
                done.last() if done.code else None)

    def row(self, case, wrong, **more):
        self.rows.append({'case': case, 'result': 'stopped' if
                          wrong == 'stopped' else 'failed' if wrong else 'ok',
                          'words': wrong or '', **more})
        self.run.save()

    def precisions(self):
        """Measures the demo's PSNR against fp32 on the device."""
        model = DEMO + '/demo.safetensors'
        sources = {'decode': DEMO + '/latents.safetensors',
                   'encode': self.file('decode fp32')}
        for direction, source in sources.items():
            wrong = self.do(direction, model, source, direction + ' fp32',
                            '--precision', 'fp32')
            for precision in 'fp16', 'bf16':
                case = 'demo %s %s' % (direction, precision)
                one = wrong or self.do(direction, model, source, case,
                                       '--precision', precision)
                if one:
                    self.row(case, one)
                    continue
                done = self.run.call([tool_of(self.run), 'compare',
                                      self.file(case),
                                      self.file(direction + ' fp32')], 60)
                name = 'frames' if direction == 'decode' else 'latent'
                said = [re.search(r'PSNR (\S+) dB', s)
                        for s in done.out.splitlines() if s.startswith(name)]
                if not said or not said[0]:
                    self.row(case, 'no PSNR: ' + done.last())
                    continue
                self.row(case, None, psnr=float(said[0][1]))

    def slices(self, name, precision, size):
        """Decodes a clip in slices of several sizes, at each rung of the memory
        ladder, and twice."""
        case = '%s %s %s in slices' % (os.path.basename(name), precision, size)
        model = weights(self.run, name)
        channels, spatial = latent_of(self.run, name, model)
        width, height = map(int, size.split('x'))
        latents = self.file('latents')
        write_latents(latents, [channels, 4 if self.run.emulate else 9,
                                -(-height // spatial), -(-width // spatial)])
        seen = {}
        ways = {n: ['--slice', n[0]] for n in ('1', '2', '4', '4 again')}
        for label, words in {**ways, **RUNGS}.items():
            wrong = self.do('decode', model, latents, 'slices', '--precision',
                            precision, *words)
            if wrong:
                self.row(case, '%s: %s' % (label, wrong), same=None
                         if wrong == 'stopped' else 'failed')
                return
            seen[label] = digest(self.file('slices'))
            os.remove(self.file('slices'))
        same = len(set(seen.values())) == 1
        words = ', '.join('%s: %s' % (k, v[:8]) for k, v in seen.items())
        self.row(case, None if same else 'other bytes: ' + words,
                 same='the same bytes' if same else 'other bytes')


def exact(run):
    """PSNR of the demo; bytes of slices with timed choices"""
    e, o = Exact(run), run.options
    if not run.emulate:  # where it would take minutes
        e.precisions()
    names = [m for m in o.models if not m.startswith('tae')][:3]
    for name in names or o.models[:1]:
        if run.over():
            break
        try:
            e.slices(name, o.precisions[0], o.sizes[0])
        except Skip:
            raise
        except Exception as why:  # the rows of the other networks stay
            late = isinstance(why, Stopped)
            e.row('%s in slices' % os.path.basename(name), 'stopped' if late
                  else '%s: %s' % (type(why).__name__, why),
                  same=None if late else 'failed')
    bad = [r for r in e.rows if r['result'] == 'failed']
    ok = sum(r['result'] == 'ok' for r in e.rows)
    return {'rows': e.rows, 'status': 'failed' if bad else 'passed' if
            ok and ok == len(e.rows) else 'stopped',
            'words': '%d of %d cases' % (ok, len(e.rows)) + ''.join(
                '; %(case)s: %(words)s' % r for r in bad)}
