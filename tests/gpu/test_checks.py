"""Tests the checks with made-up reports: a number that misses its bound must be
reported, and an unmeasured number must not pass."""
import copy
import math

import checks
import report


def of(mib):
    """Returns a stream's memory that equals its plan."""
    return {'taken': mib << 20, 'plan': {'total': mib << 20}}


def program(copies=4, names=None):
    return {'program': 'next', 'copies': copies, 'graph': {
        'copies': 4, 'others': 0, 'kernels': 2, 'names': names or {
            'sm90_xmma_fprop_implicit_gemm': 1, 'norm_rows': 1}}}


def flow(**more):
    row = {'model': 'wan2.1', 'direction': 'decode', 'precision': 'bf16',
           'size': '832x480', 'slices': 20, 'frames': 801, 'result': 'ok',
           'compute': {'busy': 0.99, 'fps': 110},
           'upload': {'copies': 20, 'hidden': 1},
           'download': {'copies': 20, 'hidden': 0.99}, 'taken': 100 << 20,
           'plan': {'total': 100 << 20},
           'taken_by_plan': 1.01, 'taken_later': 0, 'allocs_later': 0,
           'allocs_host_later': 0, 'selftest_s': 0.1,
           'slice_ms': [10.0] * 20, 'faults': [],
           'release': {'release_s': 0.11, 'copies_out_s': 0.1,
                       'resume_s': 0.11, 'copies_back_s': 0.1},
           'programs': [program()]}
    row.update(more)
    return row


def torch(model, size, mode, fps):
    return {'model': model, 'direction': 'decode', 'precision': 'bf16',
            'size': size, 'mode': mode, 'fps': fps, 'result': 'ok',
            'peak_bytes': 1000 << 20, 'faults': []}


def speed(model, size, fps):
    return {'model': model, 'direction': 'decode', 'precision': 'bf16',
            'size': size, 'fps': fps, 'first_s': 1, 'tflops': 1,
            'steady_s': 2.2,
            'result': 'ok', 'faults': []}


def golden(precision, line):
    return {'test': 'gpu-golden-small-' + precision, 'result': 'OK',
            'lines': [line]}


def line(label, most, psnr):
    return 'ok   %s: max %s at [0 of 1] (got 1, want 1), PSNR %s dB' % (
        label, most, psnr)


STEPS = {
    'build': [], 'kernels': [{'test': 'gpu-check-norm', 'result': 'OK'}],
    'rates': [{'name': 'norm and SiLU 96 832x480', 'type': 'bf16',
               'gbytes_s': 3600}],
    'golden': [golden('fp32', line('wan2.1 decode', '9e-05', '99.0')),
               golden('fp32', line('seedvr2 encode mean', '1.9e-04', '99.0')),
               golden('fp16', line('wan2.1 decode', '0.01', '60.0')),
               golden('bf16', line('taew2_1 decode', '0.04', 'inf')),
               golden('bf16', line('seedvr2 encode mean', '0.1', '38.0'))],
    'streams': [{'test': 'gpu-slices-wan21-bf16', 'result': 'OK'}],
    'start': [{'model': 'wan2.1', 'direction': 'decode', 'precision': 'bf16',
               'size': '832x480', 'store': 'stored', 'seconds': 1.5,
               'parts': {'choices': 0.05, 'first': 0.02, 'rest': 0.3},
               'result': 'ok', 'faults': []}],
    'speed': [speed('wan2.1', '832x480', 101), speed('seedvr2', '832x480', 51),
              speed('taew2_1', '1280x720', 1400)],
    'overlap': [flow(), flow(model='seedvr2', **of(500)), flow(model='seedvr2', **of(400))],
    'torch': [torch('wan2.1', '832x480', 'eager', 30),
              torch('wan2.1', '832x480', 'compile', 50),
              torch('taew2_1', '1280x720', 'graphs', 1000),
              torch('wan2.1', '832x480', 'channels_last', 40),
              torch('seedvr2', '832x480', 'eager', 20),
              torch('seedvr2', '832x480', 'channels_last', 20),
              {'model': 'seedvr2', 'direction': 'decode', 'precision': 'bf16',
               'size': '832x480', 'mode': 'compile', 'result': 'skipped',
               'faults': ['it does not compile']}],
    'exact': [{'case': 'demo decode fp16', 'result': 'ok', 'words': '',
               'psnr': 61.0},
              {'case': 'wan2.1 in slices', 'result': 'ok', 'words': '',
               'same': 'the same bytes'}],
    'failures': [{'case': 'refused', 'result': 'ok', 'words': ''}],
    'pipelines': [{'pipeline': 'decode', 'result': 'ok', 'words': ''}],
    'sanitizer': [{'tool': 'memcheck', 'case': 'norm', 'result': 'ok',
                   'words': ''}],
}


def made(steps):
    return {'machine': {'gpu': 'NVIDIA H200', 'cudnn': 'cuDNN 9.19.0'},
            'steps': [{'step': k, 'status': 'passed', 'words': '', 'rows': v}
                      for k, v in steps.items()]}


def results(steps):
    found = checks.check(made(steps))
    return {'%d %s' % (c['number'], c['check']): c['result'] for c in found}


good = results(STEPS)
# A small plan may differ by the granularity of a device.
slack = copy.deepcopy(STEPS)
slack['overlap'][0].update(taken=(100 << 20) + (18 << 20))
assert results(slack)['7 memory apart from the plan, the most'] == 'pass'
# An H100 has 0.70 of the bandwidth, and must compute as fast.
assert 'FAIL' not in good.values(), good
h100 = copy.deepcopy(STEPS)
h100['rates'][0]['gbytes_s'] = 2460
for fps, expected in (101, 'pass'), (99, 'FAIL'):
    h100['speed'][0]['fps'] = fps
    found = {c['check']: c['result'] for c in checks.check(
        {**made(h100), 'machine': {'gpu': 'NVIDIA H100 80GB HBM3',
                                   'cudnn': 'cuDNN 9.19.0'}})}
    assert found['norm and SiLU of 96 channels, GB/s'] == 'pass', found
    assert found['wan2.1 decode bf16 832x480, frames/s'] == expected, found
assert '0 FAIL' in report.checks_table(checks.check(made(STEPS)))

# (step, row, changed values, the check that must fail)
NAN = math.nan
BAD = [
    ('kernels', 0, {'result': 'FAIL'}, '2 kernels'),
    ('kernels', 0, {'result': 'TIMEOUT'}, '2 kernels'),
    ('golden', 0, {'lines': [line('wan2.1 decode', '1.1e-04', '99.0')]},
     '2 golden fp32, largest'),
    ('golden', 0, {'lines': [line('wan2.1 decode', 'inf', 'nan')]},
     '2 golden fp32, largest'),
    ('golden', 1, {'lines': [line('seedvr2 encode mean', '3e-4', '99.0')]},
     '2 golden fp32, SeedVR2'),
    ('golden', 2, {'lines': [line('wan2.1 decode', '0.01', '57.9')]},
     '2 golden fp16, PSNR'),
    ('golden', 2, {'lines': [line('wan2.1 decode', '0.01', 'nan')]},
     '2 golden fp16, PSNR'),
    ('golden', 3, {'lines': [line('taew2_1 decode', '0.06', '50.0')]},
     '2 golden bf16, tiny, largest'),
    ('golden', 4, {'lines': [line('seedvr2 encode mean', '0.1', '36.9')]},
     '2 golden bf16, SeedVR2 encoder, PSNR'),
    ('golden', 4, {'lines': [line('seedvr2 decode_t1', '0.1', '38.0')]},
     '2 golden bf16, PSNR'),
    ('streams', 0, {'result': 'FAIL'}, '2 slices'),
    ('exact', 0, {'psnr': 59.9}, '2 demo decode fp16'),
    ('exact', 1, {'same': 'other bytes'}, '2 wan2.1 in slices'),
    ('sanitizer', 0, {'result': 'failed'}, '3 memcheck'),
    ('overlap', 0, {'download': {'copies': 20, 'hidden': 0.5}}, '4 downloads'),
    ('overlap', 0, {'upload': {'copies': 20, 'hidden': 0.5}}, '4 uploads'),
    ('overlap', 0, {'taken': 80 << 20}, '7 memory apart'),
    ('overlap', 0, {'taken': 120 << 20}, '7 memory apart'),
    ('speed', 0, {'steady_s': 1.9}, '5 steady'),
    ('overlap', 0, {'taken_later': 4096}, '7 memory grows'),
    ('overlap', 0, {'allocs_later': 1}, '7 allocations'),
    ('overlap', 0, {'selftest_s': 0.4}, '10 test'),
    ('overlap', 0, {'slice_ms': [11.0] + [10.0] * 19}, '6 slice 1'),
    ('overlap', 0, {'release': {'release_s': 0.13, 'copies_out_s': 0.1,
                                'resume_s': 0.1, 'copies_back_s': 0.1}},
     '9 giving'),
    ('overlap', 0, {'programs': [program(3)]}, '5 copies'),
    ('overlap', 0, {'programs': [{**program(), 'graph': None}]},
     '5 recorded'),
    ('overlap', 0, {'programs': [program(4, {'cudnn_nchwToNhwcKernel': 1})]},
     '5 relayout'),
    ('overlap', 1, of(700), '5 seedvr2 decode bf16 832x480, memory'),
    ('speed', 0, {'fps': 99.9}, '5 wan2.1 decode bf16 832x480, frames'),
    ('speed', 0, {'fps': NAN}, '5 wan2.1 decode bf16 832x480, frames'),
    ('speed', 0, {'fps': 89.0}, '5 wan2.1 decode bf16 832x480, times'),
    ('speed', 2, {'fps': 1200}, '5 taew2_1 decode bf16 1280x720, times'),
    ('rates', 0, {'gbytes_s': 3400}, '5 norm'),
    ('start', 0, {'seconds': 2.1}, '6 first frame'),
    ('start', 0, {'parts': {'choices': 3.1}}, '6 choices of layers'),
    ('failures', 0, {'result': 'failed'}, '8 refused'),
    ('pipelines', 0, {'result': 'failed'}, '11 decode'),
    ('pipelines', 0, {'result': 'stopped'}, '11 decode'),
]
for step, i, change, name in BAD:
    steps = copy.deepcopy(STEPS)
    steps[step][i].update(change)
    found = [v for k, v in results(steps).items() if k.startswith(name)]
    assert found and 'FAIL' in found, (step, change, name, found)

# A step that crashed has no number, and fails.
for step, gone in ('exact', 'psnr'), ('start', 'seconds'):
    steps = copy.deepcopy(STEPS)
    steps[step][0].update(result='failed', faults=['it crashed'])
    del steps[step][0][gone]
    assert 'FAIL' in results(steps).values(), step
crashed = made(STEPS)
crashed['steps'][3]['status'] = 'failed'
assert [c['check'] for c in checks.check(crashed) if c['result'] == 'FAIL'] == [
    'step ' + crashed['steps'][3]['step']]

# A step that was stopped or omitted neither passes nor fails, and says why.
for step in STEPS:
    steps = {k: v for k, v in STEPS.items() if k != step}
    found = results(steps)
    assert 'FAIL' not in found.values() or step == 'build', (step, found)
    assert list(found.values()).count('pass') < list(
        good.values()).count('pass'), step
stopped = copy.deepcopy(STEPS)
stopped['overlap'][0] = {'model': 'wan2.1', 'direction': 'decode', 'precision':
                         'bf16', 'size': '832x480', 'result': 'failed',
                         'faults': ['an illegal memory access']}
assert results(stopped)['7 overlap: wan2.1 decode bf16 832x480'] == 'FAIL'
# A case that had no time is open, unless another one failed.
late = {'tool': 'memcheck', 'case': 'fold', 'result': 'stopped',
        'words': 'not begun in time'}
cut = {'test': 'gpu-convs', 'result': 'INTERRUPT'}
for step, row, name in (('sanitizer', late, '3 memcheck'),
                        ('kernels', cut, '2 kernels against ref')):
    steps = copy.deepcopy(STEPS)
    steps[step].append(row)
    assert results(steps)[name] == 'not measured', step
    steps[step][0]['result'] = 'failed' if step == 'sanitizer' else 'TIMEOUT'
    assert results(steps)[name] == 'FAIL', step
ended = made(STEPS)
for one in ended['steps']:
    if one['step'] == 'streams':
        one['status'] = 'stopped'
assert [c['result'] for c in checks.check(ended) if c['check'].startswith(
    'slices of all')] == ['not measured']

# PyTorch's fastest way is known if each way was tried. A number below one that
# was tried fails.
for i, result, name in ((1, 'stopped', 'wan2.1'), (5, 'stopped', 'seedvr2'),
                        (6, 'stopped', 'seedvr2'), (2, 'stopped', 'taew2_1')):
    untried = copy.deepcopy(STEPS)
    untried['torch'][i].update(result=result, faults=[result])
    if i == 2:
        untried['torch'].append(torch('taew2_1', '1280x720', 'compile', 900))
    found = [v for k, v in results(untried).items()
             if k.startswith('5 %s decode' % name) and 'times PyTorch' in k]
    assert found == ['not measured'], (i, found)
loads = copy.deepcopy(STEPS)
loads['overlap'][0]['programs'][0]['graph']['names'] = {
    'cutlass13device_kernelINS_4conv13ConvUniversalSM90_TMA_LOAD_IM2COL': 3}
assert results(loads)['5 relayout kernels'] == 'pass'
loads['overlap'][0]['programs'][0]['graph']['names'] = {'void im2col4d_kernel': 3}
assert results(loads)['5 relayout kernels'] == 'FAIL'
bounds = copy.deepcopy(STEPS)
bounds['golden'][2]['lines'] = [line('wan2.1 decode', '0.01', '57.9')]
bounds['golden'][3]['lines'] = [line('taew2_1 decode', '0.06', '50').replace(
    'ok  ', 'FAIL')]
told = {c['words'] for c in checks.check(made(bounds)) if c['result'] == 'FAIL'}
assert told == {"%s golden.c's own bound" % w for w in ('within', 'beyond')}, told
slower = copy.deepcopy(STEPS)
del slower['torch'][3]
slower['speed'][0]['fps'] = 80
assert results(slower)[
    '5 wan2.1 decode bf16 832x480, times PyTorch'] == 'FAIL'

# On the emulation times are not checked, but the rest is.
slow = copy.deepcopy(STEPS)
slow['overlap'][0].update(selftest_s=9, slice_ms=[11.0] + [10.0] * 19)
slow['start'][0].update(seconds=100)
slow['speed'][0].update(fps=1)
assert 'FAIL' in results(slow).values()
found = checks.check({**made(slow), 'emulated': True})
assert 'FAIL' not in [c['result'] for c in found], found
slow['exact'][1].update(same='other bytes')
found = checks.check({**made(slow), 'emulated': True})
assert 'FAIL' in [c['result'] for c in found]

# The table has the times of cuDNN and of the own kernels.
timed = made({'rates': [
    {'name': 'conv 96 832x480', 'type': 'bf16', 'ms': 1.8559, 'tflops': 428.35,
     'cudnn_ms': 1.95, 'own_ms': 2.5, 'wgmma_ms': 1.8559},
    {'name': 'product', 'type': 'fp32', 'ms': 53.362, 'tflops': 20.6,
     'cudnn_ms': 53.362, 'own_ms': 0.0, 'wgmma_ms': 0.0}]})
found = [row.split() for row in report.rates_table([timed]).splitlines()]
assert found[0][-6:] == ['cuDNN', 'ms', 'own', 'ms', 'wgmma', 'ms'], found
assert found[1][-3:] == ['1.950', '2.500', '1.856'], found
assert found[2][-1] == '53.362', found

# fp16 pays beside bf16 from a tenth more on.
for tflops, word in (439, 'does not pay'), (441, 'pays'):
    both = copy.deepcopy(STEPS)
    both['rates'] += [
        {'name': 'conv 192 832x480', 'type': kind, 'tflops': speed_of}
        for kind, speed_of in (('bf16', 400), ('fp16', tflops))]
    found = [c['words'] for c in checks.check(made(both)) if c['check'] ==
             'convolution of 192 channels, fp16 beside bf16']
    assert found == ['fp16 ' + word], found

# A report with a part that cannot be read fails.
broken = copy.deepcopy(STEPS)
broken['rates'][0] = {'type': 'bf16'}
assert 'FAIL' in results(broken).values()
