"""The steps. Each returns its status, a sentence, and rows of results."""
import glob
import json
import os
import re
import shutil

from measure import exact, ladder, pipelines, speed, start
from runner import Skip, short

MODELS = ['wan2.1', 'wan2.2', 'seedvr2', 'taew2_1', 'taew2_2', 'taehv1_5',
          'taeltx_2']


def choose(o):
    """Returns the cases, if the options do not name them."""
    if o.emulate:
        o.models = o.models or ['tests/golden/data/wan21/weights.safetensors']
        o.sizes = o.sizes or ['64x48']
    elif o.quick:
        o.models = o.models or ['wan2.1', 'taew2_1']
        o.sizes = o.sizes or ['832x480']
    o.models = o.models or MODELS
    o.sizes = o.sizes or ['832x480', '1280x720', '1920x1080']
    o.usual = not o.precisions
    o.precisions = o.precisions or (
        ['bf16'] if o.quick or o.emulate else ['bf16', 'fp16', 'tf32', 'fp32'])
    o.frames = o.frames or (9 if o.emulate else 33 if o.quick else 81)


# ---------------------------------------------------------------------------
# Tests.

def name_of(test):
    """Returns the name of a test. Meson prints "project:suite / name", and
    later versions "suite - project:name"."""
    return test.split(' / ')[-1].split(':')[-1]


def processes(run):
    """Returns the number of parallel tests. Most of their time is that of the
    reference."""
    return 1 if run.emulate else max(4, (os.cpu_count() or 4) * 3 // 4)


def tests(run, suite, emulated):
    """Runs the tests of a suite, or named tests that need no device."""
    results = run.path('meson-logs/%s.json' % suite)
    if os.path.exists(results):
        os.remove(results)
    done = run.call(run.meson + [
        'test', '-C', run.build, '--no-rebuild', '--print-errorlogs',
        '--num-processes', processes(run), '--logbase', suite,
        *(emulated if run.emulate else ['--suite', suite])])
    rows, skips = run.rows, set()
    if not os.path.exists(results):
        raise RuntimeError('no test ran: ' + done.last())
    with open(results) as f:
        for line in f:
            try:
                one = json.loads(line)
            except ValueError:
                continue  # the last test, if it was stopped
            lines = (one.get('stdout') or '').splitlines()
            name = name_of(one['name'])
            rows.append({
                'test': name, 'result': one['result'],
                'seconds': round(one['duration'], 1),
                'failed': [s for s in lines if s.startswith('FAIL')][:20],
                'lines': [s for s in lines if s.startswith(('ok ', 'FAIL'))
                          and ': max ' in s][:200]
                if suite == 'gpu-golden' and 'trace' not in name else []})
            if one['result'] == 'SKIP':
                skips.update(s for s in lines if s.startswith('skipped: '))
    count = {k: sum(r['result'] == k for r in rows) for k in ('OK', 'SKIP')}
    # INTERRUPT: the end of the step stopped the test.
    cut = [r['test'] for r in rows if r['result'] == 'INTERRUPT']
    bad = [r['test'] for r in rows
           if r['result'] not in ('OK', 'SKIP', 'INTERRUPT')]
    words = '%d passed' % count['OK']
    if count['SKIP']:
        words += ', %d skipped (%s)' % (
            count['SKIP'], short('; '.join(sorted(s[9:] for s in skips)), 200))
    if bad:
        words += ', %d failed: %s' % (len(bad), ' '.join(bad))
    if cut:
        words += ', %d stopped: %s' % (len(cut), ' '.join(cut))
    status = ('failed' if bad else 'stopped' if done.stopped or cut else
              'passed' if count['OK'] else 'skipped')
    return {'status': status, 'words': words, 'rows': rows}


def kernels(run):
    """every kernel and convolution against the reference"""
    return tests(run, 'gpu-kernels', ['gpu-table-latent', 'gpu-table-rearrange'])


def golden(run):
    """golden vectors, in fp32, tf32, bf16 and fp16"""
    return tests(run, 'gpu-golden', ['golden-small-cuda-fp32'])


def streams(run):
    """slices of all sizes, resets, five runs: the same bytes"""
    return tests(run, 'gpu-streams', ['counts-taew2_1-cuda-bf16'])


# ---------------------------------------------------------------------------
# compute-sanitizer.

def find_sanitizer(run):
    path = run.env.get('PATH', os.defpath)
    places = ['/usr/local/cuda/bin', '/usr/local/cuda/compute-sanitizer',
              *glob.glob('/opt/nvidia/*/*/compute-sanitizer')]
    found = shutil.which('compute-sanitizer',
                         path=os.pathsep.join([path, *places]))
    if not found:
        raise Skip('compute-sanitizer is not there')
    return found


def sanitizer_cases(run):
    """Returns (tool, label, command, environment), the most important first."""
    exact = {'VAE_GPU_GUARD': '0'}

    def check(tool, family, only=None):
        words = ['--seed', '1'] + (['--only', only] if only else [])
        return (tool, '%s %s' % (family, only or ''),
                [run.program('check-' + family), *words],
                exact if tool == 'memcheck' else {})
    cases = [check('memcheck', 'latent'),
             check('memcheck', 'types', 'c96'),
             check('racecheck', 'norm', 'x96'),
             check('racecheck', 'attention', '33x96'),
             check('memcheck', 'attention', '33x96'),
             check('synccheck', 'norm', 'x96')]
    if run.options.quick or run.emulate:
        return cases
    # Under memcheck each tensor of a call took 5 ms beside other steps. All of
    # `picture` has 82,000, all of `types` or `norm` 7,000. The cases of memcheck
    # here have 13,000 together.
    cases += [check('memcheck', 'conv_matrix'),
              check('racecheck', 'conv_matrix', 'bf16'),
              check('memcheck', 'attention', '60x384'),
              check('racecheck', 'attention', '60x384'),
              check('memcheck', 'window', 'x128'),
              check('racecheck', 'window', 'x128'),
              check('memcheck', 'norm', 'silu'),
              check('racecheck', 'norm', 'silu'),
              check('memcheck', 'fold'),
              check('memcheck', 'rearrange'),
              check('memcheck', 'picture', 'many'),
              check('memcheck', 'picture', '_601_low-1'),
              check('memcheck', 'types', '_4'),
              check('memcheck', 'types', 'depthwise')]
    # These kernels have no shared memory.
    cases += [check('racecheck', 'latent'), check('racecheck', 'rearrange'),
              check('racecheck', 'fold'), check('racecheck', 'picture', 'many')]
    # The whole backend, its copies and cuDNN's kernels, with the layers that
    # the step golden has timed: timing every way under the tool would take too
    # long.
    cases.append(('memcheck', 'golden small bf16',
                  [run.path('tests/golden/golden'), 'small', 'cuda', 'bf16',
                   'wan21/decode_t2', 'seedvr2/encode_f1_'],
                  {'VAE_CUDA_MODULE': run.path('engine/libvae-cuda.so'),
                   'XDG_CACHE_HOME': run.path('tests/cache')}))
    return cases


def sanitizer(run):
    """compute-sanitizer's memcheck, racecheck and synccheck"""
    tool = find_sanitizer(run)
    rows = run.rows
    cases = sanitizer_cases(run)
    for kind, label, command, env in cases:
        if run.over():
            rows.append({'tool': kind, 'case': label.strip(),
                         'result': 'stopped', 'words': 'not begun in time'})
            continue
        # A failed call is no access: cuDNN makes calls that may fail, and the
        # programs check their own calls.
        more = ['--report-api-errors', 'no'] if kind == 'memcheck' else []
        done = run.call([tool, '--tool', kind, '--error-exitcode', '99',
                         '--print-limit', '20', *more, *command], 120, **env)
        text = done.out + done.err
        if 'Device not supported' in text:
            raise Skip('compute-sanitizer does not support this device')
        said = re.search(r'(ERROR|RACECHECK) SUMMARY: (.*)', text)
        rows.append({'tool': kind, 'case': label.strip(),
                     'result': 'stopped' if done.stopped else
                     'ok' if done.code == 0 else
                     'skipped' if done.code == 77 else 'failed',
                     'words': said[2] if said else done.last(),
                     'seconds': round(done.seconds, 1)})
        run.save()
    bad = [r for r in rows if r['result'] == 'failed']
    ok = sum(r['result'] == 'ok' for r in rows)
    return {'rows': rows,
            'status': 'failed' if bad else 'stopped' if ok < len(cases) else
            'passed',
            'words': '%d of %d cases clean' % (ok, len(cases)) +
            ''.join('; %(tool)s %(case)s: %(words)s' % r for r in bad)}


# The most important come first, because time may run out.
STEPS = [('rates', speed.rates, 120), ('kernels', kernels, 180),
         ('golden', golden, 240), ('start', start.start, 120),
         ('overlap', speed.overlap, 240), ('speed', speed.speed, 540),
         ('ladder', ladder.ladder, 300),
         ('torch', speed.torch, 540), ('exact', exact.exact, 240),
         ('streams', streams, 240), ('failures', start.failures, 150),
         ('pipelines', pipelines.pipelines, 60),
         ('sanitizer', sanitizer, 300)]
