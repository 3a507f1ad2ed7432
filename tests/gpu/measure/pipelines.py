"""The elements on the device."""
import os
import shutil

from build import ask
from runner import Skip, TOP

DEMO = os.path.join(TOP, 'pipelines/demo')
MIN_PSNR = 40  # of the demo's frames in bf16 against fp32


def psnr(a, b):
    """PSNR of every 7th byte of two files, in dB; None: other lengths."""
    with open(a, 'rb') as f, open(b, 'rb') as g:
        x, y = f.read(), g.read()
    if len(x) != len(y) or not x:
        return None
    total = sum((p - q) ** 2 for p, q in zip(x[::7], y[::7]))
    if not total:
        return 99.0
    import math
    return 10 * math.log10(255 ** 2 * len(x[::7]) / total)


class Elements:
    def __init__(self, run):
        self.run, self.rows = run, run.rows
        self.tmp = run.tmp
        os.makedirs(self.tmp, exist_ok=True)
        self.env = {'GST_PLUGIN_PATH_1_0': run.path('gst'),
                    'GST_REGISTRY_1_0': os.path.join(self.tmp, 'registry'),
                    'GST_REGISTRY_FORK': 'no'}
        # Over the emulation a clip would take minutes.
        self.backend = 'cpu' if run.emulate else 'cuda'

    def file(self, name):
        return os.path.join(self.tmp, name)

    def play(self, name, *words):
        done = self.run.call(['gst-launch-1.0', '-q', '-e', *words], 60,
                             **self.env)
        failed = done.code or done.stopped
        self.rows.append({'pipeline': name, 'seconds': round(done.seconds, 1),
                          'result': 'stopped' if done.stopped else
                          'failed' if done.code else 'ok',
                          'words': done.last() if failed else ''})
        self.run.save()
        return self.rows[-1]

    def has(self, element):
        return ask('gst-inspect-1.0', element,
                   env={**self.run.env, **self.env})

    def decode(self, name, backend, *after, precision='auto'):
        return self.play(
            name, 'filesrc', 'location=%s/latents.safetensors' % DEMO, '!',
            'latentdemux', '!', 'vaedecode', 'backend=' + backend,
            'precision=' + precision, 'model=%s/demo.safetensors' % DEMO, '!',
            *after)

    def compare(self, row, a, b):
        found = psnr(self.file(a), self.file(b)) if row['result'] == 'ok' \
            else None
        if row['result'] != 'ok':
            return
        row['psnr'] = found and round(found, 2)
        row['words'] = 'other lengths' if found is None else \
            '%.1f dB' % found
        if found is None or found < MIN_PSNR:
            row['result'] = 'failed'


    def same(self, row, a, b):
        """Both memories give the same bytes."""
        if row['result'] != 'ok':
            return
        if not os.path.exists(self.file(b)):
            row.update(result='failed', words='nothing to compare with')
            return
        with open(self.file(a), 'rb') as f, open(self.file(b), 'rb') as g:
            if f.read() != g.read():
                row.update(result='failed',
                           words='other bytes than by CUDAMemory')


def pipelines(run):
    """the elements: decoding, encoding, memory of the device"""
    if not os.path.exists(run.path('gst/libgstvae.so')):
        raise Skip('the plugin was not built: no GStreamer')
    if not shutil.which('gst-launch-1.0',
                        path=run.env.get('PATH', os.defpath)):
        raise Skip('gst-launch-1.0 is not there')
    e = Elements(run)
    raw = ['video/x-raw,format=RGB', '!', 'filesink']
    # By itself it takes bf16 where the processor has it.
    wanted = e.decode('decode by cpu in fp32', 'cpu', *raw, 'location=' +
                      e.file('cpu.rgb'), precision='fp32')
    if wanted['result'] != 'ok':  # a build without oneDNN
        e.rows.pop()
        e.decode('decode by ref', 'ref', *raw, 'location=' + e.file('cpu.rgb'))
    by = ' by ' + e.backend  # not by cuda over the emulation
    row = e.decode('decode' + by, e.backend, *raw, 'location=' + e.file('got.rgb'))
    e.compare(row, 'got.rgb', 'cpu.rgb')
    e.decode('decode to I420' + by, e.backend, 'video/x-raw,format=I420', '!',
             'fakesink')
    e.play('encode' + by, 'videotestsrc', 'num-buffers=17', '!',
           'video/x-raw,format=RGB,width=416,height=240,framerate=16/1', '!',
           'vaeencode', 'backend=' + e.backend,
           'model=%s/demo.safetensors' % DEMO, '!', 'latentmux', '!',
           'filesink', 'location=' + e.file('latents.safetensors'))
    memory = '(memory:CUDAMemory)'
    if memory in (e.has('vaedecode') or '') and e.has('cudadownload'):
        row = e.decode('decode to CUDAMemory', e.backend,
                       'video/x-raw' + memory + ',format=RGBA', '!',
                       'cudadownload', '!', 'videoconvert', '!', *raw,
                       'location=' + e.file('cuda.rgb'))
        e.compare(row, 'cuda.rgb', 'cpu.rgb')
        # The same frames by way of the host's memory.
        row = e.decode('decode to RGBA', e.backend, 'video/x-raw,format=RGBA',
                       '!', 'videoconvert', '!', *raw,
                       'location=' + e.file('host.rgb'))
        e.same(row, 'host.rgb', 'cuda.rgb')
        if e.has('nvh264enc'):
            e.decode('decode to nvh264enc', e.backend,
                     'video/x-raw' + memory + ',format=NV12', '!',
                     'nvh264enc', '!', 'fakesink')
    bad = [r for r in e.rows if r['result'] == 'failed']
    ok = sum(r['result'] == 'ok' for r in e.rows)
    return {'rows': e.rows, 'status': 'failed' if bad else
            'passed' if ok == len(e.rows) else 'stopped',
            'words': '%d of %d played' % (ok, len(e.rows)) + ''.join(
                '; %(pipeline)s: %(words)s' % r for r in bad)}
