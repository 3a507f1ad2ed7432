"""The steps that measure."""
import csv
import io
import json
import os
import re

from build import ask
from runner import Skip, Stopped, TOP, short

# The largest difference of a stream's memory from its plan, and the least part
# of the copies that computing must hide.
PLAN_BOUND = 0.03
HIDDEN_BOUND = 0.95
# A device allocates in steps of 2 MiB, and a stream has some blocks.
PLAN_SLACK = 8 << 21
# Seconds of steady state that a rate needs: clocks settle, and one late slice
# does not count.
STEADY = 2


def tool_of(run):
    tool = run.path('tests/emu/vaetool' if run.emulate else 'engine/vaetool')
    if not os.access(tool, os.X_OK):
        raise Skip('%s is not built' % os.path.relpath(tool, run.build))
    return tool


# The networks of `vaetool make-weights`.
NETWORKS = ['sd', 'sdxl', 'sd3', 'flux1', 'flux2', 'hunyuan1.0', 'hunyuan1.5', 'wan2.1',
            'wan2.2', 'qwenimage2.1', 'seedvr2', 'magi2_turbo', 'ltx2.5_diff',
            'ltx2.0', 'ltx2.3', 'taesd', 'taesdxl', 'taesd3', 'taef1', 'taef2', 'taesana',
            'taew2_1', 'taew2_2', 'taew2_2_super', 'taehv', 'taehv1_5',
            'taehv1_5_super', 'taecvx', 'taeos1_3', 'taeh3', 'taeltx_2',
            'taeltx2_3', 'taeltx2_3_wide', 'lighttaew2_1', 'lighttaew2_2']


def file_of(name):
    """Returns the existing weights of this name, or None."""
    for path in os.path.join(TOP, name), os.path.abspath(name):
        if os.path.exists(path):
            return path
    return None


def weights(run, name):
    """Returns the file of weights of this name, or generated weights of a
    network, which are made once for all steps."""
    if file_of(name):
        return file_of(name)
    path = run.path('weights/%s.safetensors' % name)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = path[:-len('safetensors')] + 'part.safetensors'
        done = run.call([tool_of(run), 'make-weights', name, part])
        if done.stopped:
            raise Stopped('no weights of %s in time' % name)
        if done.code:
            raise RuntimeError('no weights of %s: %s' % (name, done.last()))
        os.replace(part, path)
    return path


def told(text):
    """Returns the JSON that a program printed, without its other output."""
    for at in re.finditer('^{', text, re.M):
        try:
            return json.JSONDecoder().raw_decode(text, at.start())[0]
        except ValueError:
            pass
    raise RuntimeError('it told no numbers, but "%s"' % text.strip()[-200:])


def told_rates(text):
    """Returns the output of `rates`, also if it ended before its last line."""
    lines = text.splitlines()
    while lines:
        whole = '\n'.join(lines)
        begun = whole.rstrip('], ') + (
            ']}' if '"convs"' in whole else '], "convs": []}')
        for text in whole, begun:
            try:
                return told(text)
            except RuntimeError:
                pass
        lines.pop()
    return {}


def rates(run):
    """the highest rates of the device: copies, products, kernels"""
    device = os.path.join(run.out, 'device.json')
    done = run.call([run.program('rates'),
                     *(['--tiny'] if run.emulate else []), device])
    if done.code == 77:
        raise Skip(done.last())
    found = told_rates(done.out)
    if 'kernels' not in found:
        if done.stopped:
            return {'status': 'stopped', 'words': 'no rates in time'}
        raise RuntimeError(done.last())
    run.report['rates'] = found
    run.report['machine'].setdefault('gpu', found['device'])
    run.report['machine']['cudnn'] = found['library']
    run.report['machine']['cuda'] = '%d, driver %d' % (found['runtime'],
                                                       found['driver'])
    best = {}
    for c in found['convs']:
        if c['name'] == 'product':
            best[c['type']] = c['tflops']
    return {'status': 'stopped' if done.stopped else
            'failed' if done.code else 'passed',
            'rows': found['convs'] + found['kernels'],
            'words': '%scopies %.0f GB/s, up %.1f, down %.1f; products %s' % (
                done.last() + '; ' if done.code and not done.stopped else '',
                found['copy_gbytes_s'], found['upload_gbytes_s'],
                found['download_gbytes_s'],
                ', '.join('%s %.0f TFLOP/s' % b for b in best.items()))}


# ---------------------------------------------------------------------------

def flow_cases(o):
    """Returns (model, direction, precision, size, slices, slice). slice 0: as
    in `speed`, to compare the memory with PyTorch's."""
    slices = 3 if o.emulate else 20
    size, precision = o.sizes[0], o.precisions[0]
    cases = [(m, d, precision, size, slices, 1 if o.emulate else 2)
             for m in o.models for d in o.directions]
    cases += [(m, 'decode', precision, size, slices, 0) for m in o.models
              if m == 'seedvr2' and 'decode' in o.directions]
    # The same at a larger size, and a longer run, in which memory must not
    # grow.
    cases += [(o.models[0], 'decode', precision, s, slices, 1)
              for s in o.sizes[1:]]
    if not o.emulate:
        cases.insert(1, (o.models[0], 'decode', precision, size, 203, 1))
    return cases


def apart(row):
    """Returns the difference of a stream's memory from its plan, relative to
    the plan; 0 within the slack."""
    total = row['plan']['total']
    beyond = max(abs(row['taken'] - total) - PLAN_SLACK, 0)
    return beyond / total


def flow_faults(row):
    """Returns the faults as text."""
    faults = []
    if row['allocs_later'] or row['allocs_host_later']:
        faults.append('%d allocations after the first slice' %
                      (row['allocs_later'] + row['allocs_host_later']))
    if row['taken_later'] > 0:
        faults.append('%d bytes more of the device after the first slice' %
                      row['taken_later'])
    if apart(row) > PLAN_BOUND:
        faults.append('it takes %.3f of its plan' % row['taken_by_plan'])
    if row['compute']['slices'] < row['slices'] or \
            not row['compute']['ms'] > 0:
        faults.append('%d of %d slices were seen computing, %g ms' % (
            row['compute']['slices'], row['slices'], row['compute']['ms']))
    for copies in 'upload', 'download':
        if row[copies]['copies'] < row['slices']:
            faults.append('%d of %d %ss were seen' % (
                row[copies]['copies'], row['slices'], copies))
        if not row[copies]['hidden'] >= HIDDEN_BOUND:
            faults.append('%.0f %% of the %ss are hidden' % (
                100 * row[copies]['hidden'], copies))
    return faults


def overlap(run):
    """copies beside computing, memory against the plan"""
    cases = flow_cases(run.options)
    for model, direction, precision, size, slices, steps in cases:
        if run.over():
            break
        with run.case({'model': os.path.basename(model), 'direction': direction,
                       'precision': precision, 'size': size,
                       'slices': slices}) as row:
            one_flow(run, row, weights(run, model), steps)
    return verdict(run.rows, len(cases))


def one_flow(run, row, model, steps):
    done = run.call([run.program('flow'), model, row['direction'],
                     row['precision'], row['size'], row['slices'], steps], 120)
    if done.code or done.stopped:
        row['faults'] = ['stopped' if done.stopped else done.last()]
        row['result'] = ('stopped' if done.stopped else
                         'skipped' if done.code == 77 else 'failed')
        return
    row.update(told(done.out))
    row['taken_by_plan'] = round(row['taken'] / row['plan']['total'], 4)
    row['faults'] = flow_faults(row)
    row['result'] = 'failed' if row['faults'] else 'ok'


def verdict(rows, expected):
    ok = sum(r['result'] == 'ok' for r in rows)
    bad = [r for r in rows if r['result'] == 'failed']
    words = '%d of %d as they should be' % (ok, expected)
    for r in bad[:3]:
        words += '; %s %s %s %s: %s' % (r['model'], r['direction'],
                                        r['precision'], r['size'],
                                        ', '.join(r['faults']))
    if len(bad) > 3:
        words += '; and %d more' % (len(bad) - 3)
    skipped = rows and all(r['result'] == 'skipped' for r in rows)
    return {'rows': rows, 'words': rows[0]['faults'][0] if skipped else words,
            'status': 'failed' if bad else 'skipped' if skipped else
            'passed' if ok == expected else 'stopped'}


# ---------------------------------------------------------------------------

# Networks that represent the others.
MAIN = ['wan2.1', 'wan2.2', 'seedvr2', 'taew2_1', 'taew2_2']


def is_usual(o, model, direction, precision, size):
    """True for a usual combination: the first precision everywhere, fp16 when
    decoding, tf32 when encoding, fp32 once."""
    if not o.usual or precision == o.precisions[0]:
        return True
    chosen = {'fp16': 'decode', 'tf32': 'encode', 'fp32': 'decode'}
    return (chosen.get(precision) == direction and size == o.sizes[0] and
            model in (MAIN[:1] if precision == 'fp32' else MAIN))


def speed_cases(o):
    """The most important come first, because time may run out."""
    cases = [(m, d, p, s) for p in o.precisions for s in o.sizes
             for d in o.directions for m in o.models
             if is_usual(o, m, d, p, s)]

    def later(case):
        model, direction, precision, size = case
        return (precision != o.precisions[0], model not in MAIN and
                model in o.models[1:], direction == 'encode')
    return sorted(cases, key=later)


def bench(run, model, direction, precision, size, frames, *more):
    """Returns the rows of `vaetool bench --csv`, each table as a list of dicts,
    or the error as text."""
    done = run.call([tool_of(run), 'bench', '--model', weights(run, model),
                     '--backend', 'cuda',
                     '--size', size, '--frames', frames, '--precision',
                     precision, '--csv', *more,
                     *(['--encode'] if direction == 'encode' else [])], 180)
    if done.stopped:
        return 'stopped after %d s' % done.seconds
    if done.code:
        return done.last()
    return [list(csv.DictReader(io.StringIO(t)))
            for t in done.out.split('\n\n')]


def floor(found, profile):
    """Returns the share of its time that a run would take if each op ran at the
    rate of a copy, or of a product of the same type, whichever is slower. Also
    returns the time of each kind of op."""
    peak = max([c['tflops'] for c in found['convs']
                if c['type'] == profile['precision']] or [0])
    copy = found['copy_gbytes_s']
    least = spent = 0
    kinds = {}
    for op in profile['ops']:
        if op['program'] == 'first':
            continue
        s = float(op['seconds'])
        flop, moved = float(op['gflops']) * s, float(op['gbytes_s']) * s
        least += max(flop / peak / 1e3 if peak else 0,
                     moved / copy if copy else 0)
        spent += s
        kind = kinds.setdefault(op['op'], {'seconds': 0, 'gflop': 0, 'gb': 0})
        kind['seconds'] += s
        kind['gflop'] += flop
        kind['gb'] += moved
    return {'floor_share': round(least / spent, 3) if spent else None,
            'kinds': {k: {n: round(x, 4) for n, x in v.items()}
                      for k, v in kinds.items()}}


def speed(run):
    """vaetool bench for every network, direction, size and precision"""
    o = run.options
    cases = speed_cases(o)
    for model, direction, precision, size in cases:
        if run.over():
            break
        # The slow networks need fewer frames.
        frames = min(o.frames, 33) if precision == 'fp32' else o.frames
        with run.case({'model': os.path.basename(model), 'direction': direction,
                       'precision': precision, 'size': size, 'frames': frames,
                       'faults': []}) as row:
            one_speed(run, row, model)
    return verdict(run.rows, len(cases))


def one_speed(run, row, model):
    o = run.options
    case = model, row['direction'], row['precision'], row['size']
    said = bench(run, *case, row['frames'])
    if isinstance(said, str):
        # A stream that does not fit is no failure; its error has both words.
        fits = not (' needs ' in said and ' MiB are free' in said)
        row['result'] = ('stopped' if said.startswith('stopped') else
                         'failed' if fits else 'skipped')
        row['faults'] = [said]
        return
    one = said[0][0]
    # Repeats a run that was too short for a steady rate, with more frames.
    fps = float(one['later_fps'])
    needed = 0 if o.emulate else int(1.1 * STEADY * fps) // 4 * 4 + 5
    if fps > 0 and needed > row['frames']:
        row['frames'] = needed
        said = bench(run, *case, needed)
        if isinstance(said, str):
            row.update(result='stopped' if said.startswith('stopped')
                       else 'failed', faults=[said])
            return
        one = said[0][0]
    row.update(result='ok', fps=float(one['later_fps']),
               first_s=float(one['first_s']), slice=int(one['slice']),
               tflops=round(float(one['later_gflops']) / 1e3, 3))
    row['steady_s'] = round(row['frames'] / row['fps'], 2) if fps > 0 else 0
    if row['precision'] != o.precisions[0] or row['size'] != o.sizes[0]:
        return
    said = bench(run, *case, min(row['frames'], 17), '--profile')
    if not isinstance(said, str) and len(said) > 1:
        row['ops'] = said[1]
        row.update(floor(run.report['rates'], row)
                   if 'rates' in run.report else {})
    else:
        row.update(result='stopped' if str(said).startswith('stopped')
                   else 'failed', faults=['--profile: %s' % said])


# ---------------------------------------------------------------------------

PLAIN = 'eager', 'channels_last'
COMPILED = 'compile', 'graphs'  # takes minutes


def torch_cases(o, models):
    """Returns (model, direction, mode, size), the most important first: Wan2.1
    compiled; each full-size network without a compiler, and a tiny one in
    graphs, at the second size; then the others compiled, because the fastest
    way counts."""
    if o.emulate:
        return [(m, d, mode, o.sizes[0]) for mode in PLAIN
                for d in o.directions for m in models]
    tiny = [m for m in models if m.startswith('tae')]
    full = [m for m in models if m not in tiny]
    second = o.sizes[min(1, len(o.sizes) - 1)]

    def ask(some, direction, ways, size):
        return [(m, direction, mode, size) for m in some for mode in ways
                if direction in o.directions]
    first = o.sizes[0]
    cases = ask([m for m in full if m == 'wan2.1'], 'decode', ['compile'],
                first)
    cases += ask(full, 'decode', PLAIN, first)
    cases += ask(tiny[:1], 'decode', ['graphs'], second)
    cases += ask(full, 'encode', PLAIN, first)
    for direction in 'decode', 'encode':
        cases += ask(full, direction, ['compile'], first)
    cases += ask(tiny[:1], 'decode', ['compile'], second)
    for direction in 'decode', 'encode':
        cases += ask(full, direction, (*PLAIN, 'compile'), second)
    for direction in 'decode', 'encode':
        cases += ask(tiny, direction, (*COMPILED, *PLAIN), first)
    return list(dict.fromkeys(cases))


def torch(run):
    """the official code in PyTorch, four ways, on the same device"""
    o = run.options
    official = run.env.get('OFFICIAL')
    python = run.env.get('TORCH', 'python3')
    if not official:
        raise Skip('OFFICIAL is not set: no checkouts of the official code')
    if not os.path.isdir(official):
        raise Skip('OFFICIAL=%s: no such folder' % official)
    version = ask(python, '-c', 'import torch; print(torch.__version__)')
    if not version:
        raise Skip('%s has no PyTorch; TORCH names one that has' % python)
    run.report['machine']['torch'] = version
    known = ['wan2.1', 'wan2.2', 'seedvr2', 'taew2_1', 'taew2_2']
    models = [m for m in o.models if m in known] or (
        ['taew2_1'] if o.emulate else [])
    device = 'cpu' if o.emulate else 'cuda'
    # In some of its ways longer clips do not fit in memory.
    frames = min(o.frames, 33)
    cases = torch_cases(o, models)
    for model, direction, mode, size in cases:
        if run.over():
            break
        with run.case({'model': model, 'direction': direction, 'mode': mode,
                       'precision': o.precisions[0], 'size': size,
                       'faults': []}) as row:
            done = run.call(
                [python, os.path.join(TOP, 'tests/bench/torch_bench.py'),
                 '--device', device, '--mode', mode, '--json', official, model,
                 direction, o.precisions[0], size, frames],
                300 if mode in COMPILED else 120, own=True)
            if done.code or done.stopped:
                row['faults'] = ['stopped' if done.stopped
                                 else short(done.last(), 300)]
                # A network that PyTorch's code cannot run is no failure of
                # gst-vae.
                row['result'] = 'stopped' if done.stopped else 'skipped'
            else:
                row.update(told(done.out), result='ok')
    return verdict(run.rows, len(cases))
