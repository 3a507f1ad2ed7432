"""Checks of a report. Each check has a number, what is expected of it, and a
result. If the number was not measured, the check says why. A missing number
never passes."""
import math
import re

from runner import short
from measure.speed import HIDDEN_BOUND, PLAN_BOUND, STEADY, apart

# Least frames per second of decoding in bf16 in the step `speed`, by a part of
# the device's name.
GOALS = {'H200': {'wan2.1': {'832x480': 100, '1280x720': 44, '1920x1080': 19},
                  'wan2.2': {'832x480': 83, '1280x720': 36, '1920x1080': 16},
                  'seedvr2': {'832x480': 50, '1280x720': 21, '1920x1080': 9}}}
# An H100 has the arithmetic units of an H200, and 0.70 of its bandwidth: 3.35
# and 4.8 TB/s. The units limit decoding, the bandwidth limits a norm.
GOALS['H100'] = GOALS['H200']
BANDWIDTH = {'H200': 1, 'H100': 0.70}
NORM_GOAL = 3500  # GB/s of norm and SiLU at 96 channels, of an H200
FP16_GAIN = 1.1  # speed of fp16 relative to bf16, from which a layer may run in fp16
FULL_SIZE = ['wan2.1', 'wan2.2', 'seedvr2']
TORCH_GAIN = 1.8  # full-size networks relative to PyTorch's fastest way
TINY_GAIN = 1.3  # TAEHV relative to compiled code in CUDA graphs, at 1280x720
TORCH_MEMORY = 0.6  # SeedVR2's peak of memory relative to PyTorch's
FIRST_FRAME = {'stored': 2, 'none': 10}  # seconds, with timed layers or without
KNOWN_CHOICES = 0.5  # seconds to choose layers that were timed before
TENTH_SLICE = 0.05
SELF_TEST = 0.3  # seconds
RELEASE = 1.2  # relative to the copies of the kept memory
DEMO_PSNR = {'fp16': 60, 'bf16': 50}
# The largest difference from the golden vectors, and the least PSNR in 16 bits.
# SeedVR2's encoder has bounds of its own, as in tests/golden/clip.c: its
# official code itself is below 40 and 58 dB.
ENCODER, TINY = ', SeedVR2 encoder', ', tiny'
GOLDEN = {'fp32': {'': 1e-4, ENCODER: 2e-4},
          'tf32': {'': None, ENCODER: None, TINY: None},
          'fp16': {'': (0.03, 58), ENCODER: (0.03, 55), TINY: (0.008, 62)},
          'bf16': {'': (0.2, 40), ENCODER: (0.2, 37), TINY: (0.05, 45)}}
LEAST_CUDNN = (9, 15)
# Kernels that only change the layout of a tensor, by parts of their names. A
# load as in im2col is part of a convolution.
RELAYOUT = re.compile(r'nchw_?(to|2)_?nhwc|nhwc_?(to|2)_?nchw|transpos|relayout|'
                      r'reorder|convert_?tensor|tensor_?transform|'
                      r'(?<!LOAD_)im2col|concat|CatArray|pad(ding)?_?kernel', re.I)


# The subjects of the checks, by number.
TOPICS = ['steps', 'build', 'results', 'sanitizers', 'overlap', 'speed',
          'start', 'memory', 'failures', 'release', 'self-test', 'elements',
          'device']
# The reason on the emulation, where times mean nothing.
TIMED = [4, 6, 9, 10, 12]
EMULATED = 'an emulated device tells nothing of this'
QUICK = ['overlap', 'speed', 'torch']  # for which --quick omits numbers


class Checks:
    def __init__(self, report):
        self.report, self.all = report, []
        self.emulated = report.get('emulated', False)
        self.quick = report.get('settings', {}).get('quick', False)
        self.steps = {s['step']: s for s in report['steps']}
        gpu = report['machine'].get('gpu', '')
        self.gpu = next((k for k in GOALS if k in gpu), None)

    def rows(self, step):
        return [r for s in self.report['steps'] if s['step'] == step
                for r in s.get('rows', [])]

    def why(self, step):
        """Returns the reason why a step has no such number."""
        one = self.steps.get(step)
        if not one:
            return 'the step %s was not run' % step
        if one['status'] == 'passed' and self.emulated:
            return EMULATED
        if one['status'] == 'passed' and self.quick and step in QUICK:
            return 'left out by --quick'
        # The words of a step that passed are a reason only if it skipped a part.
        if one['status'] == 'passed' and ' skipped' not in one['words']:
            return 'the step %s passed without it' % step
        return '%s %s: %s' % (step, one['status'], one['words'])

    def add(self, number, name, value, expected, good, words=''):
        if self.emulated and number in TIMED and value is not None:
            value, words = None, EMULATED
        if isinstance(value, float):
            value = round(value, 6) if math.isfinite(value) else str(value)
        self.all.append({
            'number': number, 'check': name, 'value': value, 'expected': expected,
            'result': 'not measured' if value is None else
            'pass' if good else 'FAIL',
            'words': words if value is not None else short(words, 160)})

    def least(self, number, name, value, bound, step, words=''):
        self.add(number, name, value, '>= %g' % bound,
                 value is not None and value >= bound,
                 self.why(step) if value is None else words)

    def most(self, number, name, value, bound, step, words=''):
        self.add(number, name, value, '<= %g' % bound,
                 value is not None and value <= bound,
                 self.why(step) if value is None else words)

    def told(self, number, name, value, step, words=''):
        """A number that has no bound."""
        self.add(number, name, value, 'reported', True,
                 self.why(step) if value is None else words)


# ---------------------------------------------------------------------------

def steps(c):
    for name, one in c.steps.items():
        if one['status'] == 'failed':
            c.add(0, 'step ' + name, 'failed', 'passed', False, one['words'])


def build(c):
    status = c.steps.get('build', {}).get('status')
    c.add(1, 'built', status, 'passed', status == 'passed',
          c.steps.get('build', {}).get('words', ''))
    said = re.search(r'(\d+)\.(\d+)', c.report['machine'].get('cudnn', ''))
    c.add(1, 'cuDNN', said and said[0], '>= %d.%d' % LEAST_CUDNN,
          said and (int(said[1]), int(said[2])) >= LEAST_CUDNN,
          '' if said else c.why('rates'))


def test_rows(c, number, step, name, chosen=lambda test: True):
    """No chosen test may fail, and at least one must pass. If the step ran out
    of time before all had run, the result is open."""
    rows = [r for r in c.rows(step) if chosen(r['test'])]
    cut = [r['test'] for r in rows if r['result'] == 'INTERRUPT']
    bad = [r['test'] for r in rows
           if r['result'] not in ('OK', 'SKIP', 'INTERRUPT')]
    ok = sum(r['result'] == 'OK' for r in rows)
    skipped = [r['test'] for r in rows if r['result'] == 'SKIP']
    value = '%d passed, %d failed, %d skipped' % (
        ok, len(bad), len(skipped)) if ok or bad else None
    if not bad and (cut or any(s['step'] == step and s['status'] == 'stopped'
                               for s in c.report['steps'])):
        value = None
    c.add(number, name, value, 'all pass', ok and not bad,
          c.why(step) if value is None else ' '.join(bad or skipped))


def tests(c):
    test_rows(c, 2, 'kernels', 'kernels against ref')
    worst, own = {}, {}
    for row in c.rows('golden'):
        said = re.match(r'gpu-golden-(small|more|generated)-(\w+)$',
                        row['test'])
        for line in row.get('lines', []) if said else []:
            found = re.match(r'(?:ok  |FAIL) (\S+) (.*): max (\S+) .*'
                             r'PSNR (\S+) dB', line)
            if not found:
                continue
            kind = (ENCODER if found[1] == 'seedvr2' and 'encode' in found[2]
                    else TINY if found[1].startswith('tae') else '')
            key = said[2], kind if kind in GOLDEN[said[2]] else ''
            if line.startswith('FAIL'):
                own[key] = 'beyond'
            most, least = worst.get(key, (0, math.inf))
            one, psnr = float(found[3]), float(found[4])
            # NaN has to win.
            worst[key] = (one if not one <= most else most,
                          psnr if not psnr >= least else least)
    for precision, kinds in GOLDEN.items():
        for kind, bounds in kinds.items():
            got = worst.get((precision, kind), (None, None))
            name = 'golden %s%s' % (precision, kind)
            if precision == 'fp32':
                c.most(2, name + ', largest difference', got[0], bounds,
                       'golden')
                continue
            if precision == 'tf32':
                c.told(2, name + ', largest difference', got[0], 'golden',
                       got[0] and 'PSNR %.1f dB' % got[1])
                continue
            words = "%s golden.c's own bound" % own.get((precision, kind),
                                                        'within')
            c.most(2, name + ', largest difference', got[0], bounds[0],
                   'golden', words)
            c.least(2, name + ', PSNR', got[1], bounds[1], 'golden', words)
    test_rows(c, 2, 'golden', 'golden tests by their own bounds')
    test_rows(c, 2, 'streams', 'slices of all sizes: the same bytes',
              lambda t: 'slices' in t)
    test_rows(c, 2, 'streams', 'five runs and resets: the same bytes',
              lambda t: '-stream' in t)
    test_rows(c, 2, 'streams', 'other tests of streams',
              lambda t: 'slices' not in t and '-stream' not in t)
    exact = c.rows('exact')
    for precision, bound in DEMO_PSNR.items():
        for direction in 'decode', 'encode':
            found = [r for r in exact if r['case'] ==
                     'demo %s %s' % (direction, precision)]
            value = found[0].get('psnr') if found else None
            if found and found[0]['result'] == 'failed':
                value = math.nan
            c.least(2, 'demo %s %s, PSNR' % (direction, precision), value,
                    bound, 'exact', found[0]['words'] if found else '')
    for r in exact:
        if 'same' in r:
            c.add(2, r['case'], r['same'], 'the same bytes',
                  r['same'] == 'the same bytes', r['words'])


def sanitizers(c):
    for tool in 'memcheck', 'racecheck', 'synccheck':
        rows = [r for r in c.rows('sanitizer') if r['tool'] == tool]
        bad = [r for r in rows if r['result'] == 'failed']
        ok = sum(r['result'] == 'ok' for r in rows)
        late = [r['case'] for r in rows if r['result'] in ('stopped',
                                                           'skipped')]
        value = '%d clean, %d not, %d not in time' % (
            ok, len(bad), len(late)) if bad or (ok and not late) else None
        c.add(3, tool, value, 'all clean', ok and not bad,
              '; '.join('%(case)s: %(words)s' % r for r in bad) or
              ('%d clean, not done: %s' % (ok, ', '.join(late)) if late
               else c.why('sanitizer') if value is None else ''))


def name_of(r):
    return '%(model)s %(direction)s %(precision)s %(size)s' % r


def run(c, number, step):
    """Returns the failed steps, a line for each reason."""
    reasons = {}
    for r in c.rows(step):
        if r['result'] == 'failed' and 'fps' not in r and 'compute' not in r:
            reasons.setdefault(', '.join(r['faults']), []).append(name_of(r))
    for words, names in reasons.items():
        c.add(number, '%s: %s%s' % (
            step, names[0], ' and %d more' % (len(names) - 1)
            if names[1:] else ''), 'failed', 'it runs', False, words)


def flows(c):
    run(c, 7, 'overlap')
    rows = [r for r in c.rows('overlap') if 'compute' in r]
    if not rows:
        for number, name in ((4, 'downloads hidden'), (4, 'uploads hidden'),
                             (7, 'memory by the plan'),
                             (7, 'memory does not grow'), (9, 'release'),
                             (10, 'test at the start'),
                             (5, 'relayout kernels'), (5, 'copies')):
            c.add(number, name, None, '', False, c.why('overlap'))
        return
    for copies in 'download', 'upload':
        least = min(rows, key=lambda r: r[copies]['hidden'])
        c.least(4, copies + 's hidden, the least', least[copies]['hidden'],
                HIDDEN_BOUND, 'overlap', name_of(least))
    most = max(rows, key=apart)
    c.most(7, 'memory apart from the plan, the most', apart(most), PLAN_BOUND,
           'overlap', name_of(most))
    grown = max(rows, key=lambda r: r['taken_later'])
    c.most(7, 'memory grows over %d frames, bytes' %
           max(r['frames'] for r in rows), max(grown['taken_later'], 0), 0,
           'overlap', name_of(grown))
    c.most(7, 'allocations after the first slice',
           max(r['allocs_later'] + r['allocs_host_later'] for r in rows), 0,
           'overlap')
    for key, number, name in (('release', 9, 'giving memory back'),
                              ('resume', 9, 'taking it again')):
        times = [(r['release'][key + '_s'] / max(r['release'][
            'copies_%s_s' % ('out' if key == 'release' else 'back')], 1e-9), r)
            for r in rows if 'release' in r]
        worst = max(times, key=lambda t: t[0]) if times else (None, None)
        c.most(number, name + ', times the copies', worst[0], RELEASE,
               'overlap', worst[1] and '%s: %.3f s' % (
                   name_of(worst[1]), worst[1]['release'][key + '_s']))
    tests = [r['selftest_s'] for r in rows if r.get('selftest_s', -1) >= 0]
    c.most(10, 'test at the start, s', max(tests) if tests else None,
           SELF_TEST, 'overlap')
    slices(c, rows)
    graphs(c, rows)


def slices(c, rows):
    """The first of the later slices must not be slower than the tenth: it would
    be if something were loaded late. It may be faster, because clocks fall
    under load."""
    apart = [(r['slice_ms'][0] / r['slice_ms'][9] - 1, r) for r in rows
             if r['model'] in FULL_SIZE and len(r.get('slice_ms', [])) >= 10 and
             r['slice_ms'][9] > 0]
    most = max(apart, key=lambda a: a[0]) if apart else (None, None)
    c.most(6, 'slice 1 apart from slice 10, the most', most[0], TENTH_SLICE,
           'overlap', most[1] and '%s: %.2f and %.2f ms' % (
               name_of(most[1]), most[1]['slice_ms'][0],
               most[1]['slice_ms'][9]))


def graphs(c, rows):
    """Checks the kernels and copies of the recorded programs. A program that
    was not recorded runs op by op, which is slower."""
    programs = [p for r in rows for p in r.get('programs', [])]
    seen = [p for p in programs if p['graph']]
    c.add(5, 'recorded programs', len(seen), 'all, %d' % len(programs),
          programs and len(seen) == len(programs), ', '.join(
              p['program'] for p in programs if not p['graph']))
    if not seen:
        for name in 'relayout kernels', 'copies':
            c.add(5, name, None, '', False, 'no program was recorded')
        return
    moved, nameless, other, copies, expected = {}, 0, 0, 0, 0
    for p in seen:
        g = p['graph']
        copies += g['copies']
        expected += p['copies']
        other += (g['copies'] != p['copies']) + g['others']
        for name, n in g['names'].items():
            nameless += n if name == '?' else 0
            if RELAYOUT.search(name):
                moved[name] = moved.get(name, 0) + n
    if nameless and not moved:
        c.add(5, 'relayout kernels', None, '0', False,
              '%d kernels have no name' % nameless)
    else:
        c.most(5, 'relayout kernels', sum(moved.values()), 0, 'overlap',
               short(', '.join(moved), 200))
    c.add(5, 'copies of all programs', copies, 'those of carries, %d' % expected,
          copies == expected and not other,
          other and '%d programs or nodes differ' % other or '')


def speeds(c):
    if c.emulated:
        run(c, 5, 'speed')
        c.add(5, 'frames/s', None, '', False, EMULATED)
        return
    goals = GOALS.get(c.gpu, {})
    fps = {(r['model'], r['direction'], r['precision'], r['size']): r['fps']
           for r in c.rows('speed') if 'fps' in r}
    rates = [r for r in c.rows('speed') if 'steady_s' in r]
    short_one = min(rates, key=lambda r: r['steady_s']) if rates else None
    c.least(5, 'steady state of each rate, s, the least',
            short_one and short_one['steady_s'], STEADY, 'speed',
            short_one and name_of(short_one))
    for model in goals:
        for size, goal in goals[model].items():
            c.least(5, '%s decode bf16 %s, frames/s' % (model, size),
                    fps.get((model, 'decode', 'bf16', size)), goal, 'speed')
    if not goals:
        c.add(5, 'frames/s', None, '', False, 'no goals for this device')
    run(c, 5, 'speed')
    beside_torch(c, fps)
    norm = [r for r in c.rows('rates') if r['type'] == 'bf16' and
            r['name'].startswith('norm and SiLU 96 ')]
    value = norm[0]['gbytes_s'] if norm else None
    if c.gpu:
        c.least(5, 'norm and SiLU of 96 channels, GB/s', value,
                NORM_GOAL * BANDWIDTH[c.gpu], 'rates')
    else:
        c.told(5, 'norm and SiLU of 96 channels, GB/s', value, 'rates')


def beside_torch(c, fps):
    best, graphed, peak, known = {}, {}, {}, {}
    for r in c.rows('torch'):
        key = (r['model'], r['direction'], r['precision'], r['size'])
        if r['result'] == 'ok' or (r['result'] == 'skipped' and r['faults']):
            known.setdefault(key, set()).add(r['mode'])
        if r['result'] != 'ok':
            continue
        best[key] = max(best.get(key, 0), r['fps'])
        if r['mode'] in ('compile', 'graphs'):
            graphed[key] = max(graphed.get(key, 0), r['fps'])
        if r.get('peak_bytes'):
            peak[key] = min(peak.get(key, 1 << 62), r['peak_bytes'])
    version = 'PyTorch ' + c.report['machine'].get('torch', 'unknown')

    def gain(key, name, beside, modes, bound):
        """Compares with PyTorch's fastest way. If a way was not measured, it
        could be faster: the check can then fail, but not pass."""
        value = fps[key] / beside[key] if key in beside and key in fps else None
        left = [m for m in modes if m not in known.get(key, ())]
        if value is not None and value >= bound and left:
            c.add(5, name % key, None, '>= %g' % bound, False,
                  'not measured: ' + ', '.join(left))
        else:
            c.least(5, name % key, value, bound,
                    'speed' if key in beside else 'torch', version)
    cases = [k for k in best if k[0] in FULL_SIZE]
    for model in FULL_SIZE:  # also report what was not measured
        for direction in 'decode', 'encode':
            if not any(k[:2] == (model, direction) for k in cases):
                cases.append((model, direction, 'bf16', '832x480'))
    for key in cases:
        gain(key, '%s %s %s %s, times PyTorch', best,
             ('eager', 'channels_last', 'compile'), TORCH_GAIN)
    gain(('taew2_1', 'decode', 'bf16', '1280x720'),
         '%s %s %s %s, times PyTorch compiled', graphed, ('graphs',), TINY_GAIN)
    taken = {}  # the largest, over slices of any size
    for r in c.rows('overlap'):
        if 'taken' in r:
            key = (r['model'], r['direction'], r['precision'], r['size'])
            taken[key] = max(taken.get(key, 0), r['taken'])
    keys = [k for k in taken if k[0] == 'seedvr2' and k in peak]
    for k in keys or [('seedvr2', 'decode', 'bf16', '832x480')]:
        c.most(5, "%s %s %s %s, memory beside PyTorch's" % k,
               taken[k] / peak[k] if keys else None, TORCH_MEMORY,
               'overlap' if k in peak else 'torch', version)


def starts(c):
    for store, bound in FIRST_FRAME.items():
        rows = [r for r in c.rows('start') if r.get('store') == store]
        for r in rows or [None]:
            c.most(6, 'first frame, %s, s' % (
                'layers timed before' if store == 'stored' else
                'nothing timed before'), r and r.get(
                    'seconds', math.nan if r['result'] == 'failed' else None),
                bound, 'start', r and ', '.join([name_of(r), *r['faults']])
                or '')
    for r in c.rows('start'):
        if 'parts' in r:
            c.most(6, 'choices of layers, timed before, s',
                   r['parts']['choices'], KNOWN_CHOICES, 'start', name_of(r))


def failures(c):
    rows = c.rows('failures')
    if not rows:
        c.add(8, 'failures', None, '', False, c.why('failures'))
    for r in rows:
        c.add(8, r['case'], r['result'], 'ok', r['result'] == 'ok', r['words'])


def others(c):
    rows = c.rows('pipelines')
    if not rows:
        c.add(11, 'pipelines', None, '', False, c.why('pipelines'))
    for r in rows:
        c.add(11, r['pipeline'], r['result'], 'ok', r['result'] == 'ok',
              r['words'])
    if rows and not any('CUDAMemory' in r['pipeline'] for r in rows):
        c.add(11, 'CUDAMemory', None, '', False, 'the plugin was built without '
              'it')
    c.told(12, "the device's properties", 'device.json'
           if c.rows('rates') else None, 'rates')
    for channels in 96, 192, 384, 512:
        for precision in 'bf16', 'fp16':
            found = [r['tflops'] for r in c.rows('rates') if precision ==
                     r['type'] and r['name'].startswith('conv %d ' % channels)]
            c.told(12, 'convolution of %d channels, %s, TFLOP/s' % (
                channels, precision), found[0] if found else None, 'rates')
    for channels in 96, 192:
        both = [[r['tflops'] for r in c.rows('rates') if r['type'] == p and
                 r['name'].startswith('conv %d ' % channels)]
                for p in ('fp16', 'bf16')]
        ratio = both[0][0] / both[1][0] if all(both) and both[1][0] else None
        c.told(12, 'convolution of %d channels, fp16 beside bf16' % channels,
               ratio, 'rates', ratio and 'fp16 %s' % (
                   'pays' if ratio >= FP16_GAIN else 'does not pay'))
    c.add(12, 'range of fp16 on released weights', None, '', False,
          'there are no released weights here: tests/official/run.sh')


def check(report):
    """Returns the list of checks for the steps that ran."""
    c = Checks(report)
    for part in (steps, build, tests, sanitizers, flows, speeds, starts, failures,
                 others):
        try:
            part(c)
        except Exception as why:  # an incomplete report
            c.add(0, part.__name__, 'unreadable', 'readable', False,
                  '%s: %s' % (type(why).__name__, why))
    return sorted(c.all, key=lambda one: one['number'])
