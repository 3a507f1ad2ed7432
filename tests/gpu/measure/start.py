"""Measures the time to the first frame, and tests failures and a damaged file
of timed layers."""
import csv
import glob
import os
import re
import shutil

import timed
from runner import TOP
from measure.speed import tool_of, weights

SMALL = os.path.join(TOP, 'tests/golden/data/wan21/weights.safetensors')
TINY = os.path.join(TOP, 'tests/golden/data/taehv/taew2_1/weights.safetensors')


def first_frame(run, model, precision, size, cache, *more):
    """Runs a process from its start to its end after the first frame."""
    return run.call([tool_of(run), 'bench', '--model', model, '--backend',
                     'cuda', '--precision', precision, '--size', size,
                     '--frames', '1', '--csv', *more], 120,
                    XDG_CACHE_HOME=cache)


def parts(done):
    """Returns the seconds of the parts of such a process with --verbose;
    `rest`: its start and end, and the cost of that option."""
    found = {'model': float(re.search(r'^model opened in ([\d.]+) s$', done.err,
                                      re.M)[1])}
    opened = re.search(r'^opened in [\d.]+ s: (.*)$', done.err, re.M)[1]
    for part in opened.split(', '):
        name, seconds = part.split(' ')
        found[name] = float(seconds)
    row, = csv.DictReader(done.out.splitlines())
    found['first'] = round(float(row['first_s']), 3)
    found['rest'] = round(done.seconds - sum(found.values()), 3)
    return found


def take_parts(run, row, path, cache):
    done = first_frame(run, path, row['precision'], row['size'], cache,
                       '--verbose')
    if done.code and not done.stopped:
        row.update(result='failed', faults=[done.last()])
    elif not done.stopped:
        row['parts'] = parts(done)


def start(run):
    """seconds to the first frame, with timed layers and without"""
    o, rows = run.options, run.rows
    cache = os.path.join(run.tmp, 'cache')
    cases = [(m, s) for m in o.models if not m.startswith('tae')
             for s in (o.sizes[:2] if m == o.models[0] else o.sizes[:1])]
    for model, size in cases or [(o.models[0], o.sizes[0])]:
        shutil.rmtree(cache, ignore_errors=True)
        for store in 'none', 'stored':
            if run.over():
                break
            with run.case({'model': os.path.basename(model),
                           'direction': 'decode', 'precision': o.precisions[0],
                           'size': size, 'store': store, 'faults': []}) as row:
                path = weights(run, model)
                done = first_frame(run, path, o.precisions[0], size, cache)
                if done.code or done.stopped:
                    row['faults'] = ['stopped' if done.stopped else done.last()]
                    row['result'] = 'stopped' if done.stopped else 'failed'
                else:
                    row.update(result='ok', seconds=round(done.seconds, 3))
                    if store == 'stored':
                        take_parts(run, row, path, cache)
        run.take_timed(os.path.join(cache, 'gst-vae'))
    bad = [r for r in rows if r['result'] == 'failed']
    ok = [r for r in rows if r['result'] == 'ok']
    return {'rows': rows, 'status': 'failed' if bad else 'passed' if
            rows and len(ok) == len(rows) else 'stopped',
            'words': ', '.join('%(model)s %(size)s %(store)s %(seconds).2f s' % r
                               for r in ok) +
            ''.join('; %s' % r['faults'][0] for r in bad)}


# ---------------------------------------------------------------------------

def foreign(data):
    """Returns the same complete layers for another device."""
    lines = timed.parse(data)
    return timed.whole([lines[0], b'another ' + lines[1], *lines[2:]])


DAMAGE = [('cut off', lambda d: d[:len(d) // 2]),
          ('empty', lambda d: b''),
          ('changed in one byte', lambda d: d[:40] + bytes([d[40] ^ 1]) +
           d[41:]),
          ('of another device', foreign)]


def stores(run, rows):
    """Checks that a damaged file of timed layers is only written again."""
    cache = os.path.join(run.tmp, 'cache')
    shutil.rmtree(cache, ignore_errors=True)
    size = '32x32' if run.emulate else '96x64'

    def once():
        done = first_frame(run, TINY, 'fp16', size, cache)
        return 'stopped' if done.stopped else done.last() if done.code else None
    wrong = once()
    found = glob.glob(cache + '/gst-vae/cuda-*.txt')
    if wrong or not found or not timed.read(found[0]):
        rows.append({'case': 'timed layers are kept', 'words':
                     wrong or 'no whole file in ' + cache,
                     'result': 'failed'})
        return
    with open(found[0], 'rb') as f:
        good = f.read()
    for label, damage in DAMAGE:
        with open(found[0], 'wb') as f:
            f.write(damage(good))
        wrong = once()
        with open(found[0], 'rb') as f:
            after = f.read()
        if not wrong and not timed.parse(after):
            wrong = 'it is not made anew'
        if not wrong and timed.parse(after)[1] != timed.parse(good)[1]:
            wrong = 'it is still of another device'
        rows.append({'case': 'timed layers, the file ' + label,
                     'words': wrong or '', 'result': 'failed' if wrong
                     else 'ok'})


def beside_torch(run, rows):
    """Streams open and decode while PyTorch captures graphs."""
    python = run.env.get('TORCH', 'python3')
    for graphs in '0', '1':
        done = run.call(
            [python, os.path.join(TOP, 'tests/gpu/programs/beside_torch.py'),
             run.path('python'), TINY], 120,
            VAE_CUDA_MODULE=run.path('engine/libvae-cuda.so'),
            VAE_CUDA_GRAPHS=graphs)
        wrong = done.code or done.stopped
        rows.append({'case': 'beside graphs of PyTorch, VAE_CUDA_GRAPHS=' +
                     graphs, 'words': 'stopped' if done.stopped else
                     ' '.join(done.out.split()) or done.last(),
                     'result': 'skipped' if done.code == 77 else
                     'failed' if wrong else 'ok'})


def failures(run):
    """refused memory, a broken device, damaged files: errors in words"""
    rows = run.rows
    size = '16x16' if run.emulate else '96x64'
    done = run.call([run.program('failures'), SMALL, size], 200)
    for line in done.out.splitlines():
        if line.startswith(('ok   ', 'FAIL ')):
            case, _, words = line[5:].partition(': ')
            rows.append({'case': case, 'words': words, 'result': 'ok' if
                         line.startswith('ok') else 'failed'})
    # It prints FAIL itself, unless a signal ended it.
    if done.stopped or (done.code and
                        all(r['result'] == 'ok' for r in rows)):
        rows.append({'case': 'failures', 'result': 'failed', 'words':
                     'did not end' if done.stopped else done.last()})
    stores(run, rows)
    if not run.emulate:
        beside_torch(run, rows)
    bad = [r for r in rows if r['result'] == 'failed']
    return {'rows': rows, 'status': 'failed' if bad else 'passed',
            'words': '%d of %d as they should be' % (
                sum(r['result'] == 'ok' for r in rows), len(rows)) +
            ''.join('; %(case)s: %(words)s' % r for r in bad[:3])}
