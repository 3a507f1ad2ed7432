"""The elements on the device."""
import json
import math
import os
import shutil

from build import ask, extend
from runner import Skip, TOP

DEMO = os.path.join(TOP, 'pipelines/demo')
WIDTH = 416  # of the demo's clip
MIN_PSNR = 40  # of the demo's frames in bf16 against fp32


def cut(path, steps, rows):
    """Writes the upper rows of the first latents of the demo's clip."""
    with open(os.path.join(DEMO, 'latents.safetensors'), 'rb') as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), 'little')))
        data = f.read()
    _, channels, height, width = head['latent']['shape']
    plane = height * width * 2
    data = b''.join(data[i * plane:i * plane + rows * width * 2]
                    for i in range(steps * channels))
    head['latent'].update(shape=[steps, channels, rows, width],
                          data_offsets=[0, len(data)])
    head['__metadata__'].update({'vae.frames': str(frames(steps)),
                                 'vae.height': str(8 * rows)})
    text = json.dumps(head).encode()
    with open(path, 'wb') as f:
        f.write(len(text).to_bytes(8, 'little') + text + data)


def frames(steps):
    return 1 + 4 * (steps - 1)


def psnr(x, y):
    """Returns the PSNR of every 7th byte of the frames that both have, in dB.
    """
    x, y = x[:len(y):7], y[::7]
    total = sum((p - q) ** 2 for p, q in zip(x, y))
    return 10 * math.log10(255 ** 2 * len(y) / total) if total else 99.0


class Elements:
    def __init__(self, run):
        self.run, self.rows = run, run.rows
        self.tmp = run.tmp
        os.makedirs(self.tmp, exist_ok=True)
        self.env = {'GST_PLUGIN_PATH_1_0': run.path('gst'),
                    'GST_REGISTRY_1_0': os.path.join(self.tmp, 'registry')}
        # Number of latents, and of rows of each. The emulation would need
        # minutes for all.
        self.steps, self.high = (2, 2) if run.emulate else (9, 30)
        if run.emulate:
            self.env['VAE_CUDA_MODULE'] = run.path(
                'tests/emu/runtime/libvae-cuda-emu.so')
            self.env['LD_LIBRARY_PATH'] = run.env.get('LD_LIBRARY_PATH', '')
            extend(self.env, 'LD_LIBRARY_PATH', run.path('tests/emu/driver'))

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

    def decode(self, name, backend, *after, precision='auto', steps=None):
        clip = self.file('clip.safetensors')
        cut(clip, steps or self.steps, self.high)
        return self.play(
            name, 'filesrc', 'location=' + clip, '!', 'latentdemux', '!',
            'vaedecode', 'backend=' + backend, 'precision=' + precision,
            'model=%s/demo.safetensors' % DEMO, '!', *after)

    def known(self):
        """Decodes the reference. Returns the row, and the number of latents."""
        after = ('video/x-raw,format=RGB', '!', 'filesink',
                 'location=' + self.file('known.rgb'))
        # By default it uses bf16 if the processor has it.
        row = self.decode('decode by cpu in fp32', 'cpu', *after,
                          precision='fp32')
        if row['result'] != 'failed':
            return row, self.steps
        self.rows.pop()  # a build without oneDNN
        steps = min(5, self.steps)  # all would take half a minute
        return self.decode('decode by ref', 'ref', *after, steps=steps), steps

    def pictures(self, name, steps, channels):
        """Returns the RGB bytes of a file's frames. None: it has not the frames
        of this number of latents."""
        with open(self.file(name), 'rb') as f:
            data = f.read()
        line, lines = WIDTH * channels, frames(steps) * 8 * self.high
        pitch = len(data) // lines  # rows are padded in the device's memory
        if pitch < line or len(data) != pitch * lines:
            return None
        data = bytearray(b''.join(data[i * pitch:i * pitch + line]
                                  for i in range(lines)))
        if channels == 4:
            del data[3::4]
        return data

    def compare(self, row, name, channels, known):
        """Checks that the frames are near those of the reference."""
        if row['result'] != 'ok':
            return
        wanted, steps = known
        if wanted['result'] != 'ok':
            row.update(result=wanted['result'], words='nothing to compare with')
            return
        got = self.pictures(name, self.steps, channels)
        other = self.pictures('known.rgb', steps, 3)
        found = psnr(got, other) if got and other else None
        row['psnr'] = found and round(found, 2)
        row['words'] = 'other lengths' if found is None else \
            '%.1f dB' % found
        if found is None or found < MIN_PSNR:
            row['result'] = 'failed'

    def same(self, row, a, b):
        """Checks that both memories give the same bytes."""
        if row['result'] != 'ok':
            return
        if not os.path.exists(self.file(b)):
            row.update(result='failed', words='nothing to compare with')
            return
        got = self.pictures(a, self.steps, 4)
        if not got or got != self.pictures(b, self.steps, 4):
            row.update(result='failed', words='other bytes than by CUDAMemory')


def pipelines(run):
    """the elements: decoding, encoding, memory of the device"""
    if not os.path.exists(run.path('gst/libgstvae.so')):
        raise Skip('the plugin was not built: no GStreamer')
    if not shutil.which('gst-launch-1.0',
                        path=run.env.get('PATH', os.defpath)):
        raise Skip('gst-launch-1.0 is not there')
    e = Elements(run)
    seen = [(e.decode('decode by cuda', 'cuda', 'video/x-raw,format=RGB', '!',
                      'filesink', 'location=' + e.file('got.rgb')),
             'got.rgb', 3)]
    memory = '(memory:CUDAMemory)'
    on_device = memory in (e.has('vaedecode') or '')
    if on_device:
        # The plugin exists only with a driver that has video codecs, but a
        # mapped memory downloads, too.
        down = ['cudadownload', '!'] if e.has('cudadownload') else []
        row = e.decode('decode to CUDAMemory', 'cuda',
                       'video/x-raw' + memory + ',format=RGBA', '!', *down,
                       'filesink', 'location=' + e.file('cuda.rgba'))
        seen.append((row, 'cuda.rgba', 4))
        # The same frames through host memory.
        row = e.decode('decode to RGBA', 'cuda', 'video/x-raw,format=RGBA', '!',
                       'filesink', 'location=' + e.file('host.rgba'))
        e.same(row, 'host.rgba', 'cuda.rgba')
    e.play('encode by cuda', 'videotestsrc',
           'num-buffers=%d' % frames(min(5, e.steps)), '!',
           'video/x-raw,format=RGB,width=%d,height=%d,framerate=16/1' %
           (WIDTH, 8 * e.high), '!', 'vaeencode', 'backend=cuda',
           'model=%s/demo.safetensors' % DEMO, '!', 'latentmux', '!',
           'filesink', 'location=' + e.file('latents.safetensors'))
    e.decode('decode to I420 by cuda', 'cuda', 'video/x-raw,format=I420', '!',
             'fakesink')
    if on_device and e.has('nvh264enc'):
        e.decode('decode to nvh264enc', 'cuda',
                 'video/x-raw' + memory + ',format=NV12', '!', 'nvh264enc', '!',
                 'fakesink')
    known = e.known()  # takes longest
    for row, name, channels in seen:
        e.compare(row, name, channels, known)
    bad = [r for r in e.rows if r['result'] == 'failed']
    ok = sum(r['result'] == 'ok' for r in e.rows)
    return {'rows': e.rows, 'status': 'failed' if bad else
            'passed' if ok == len(e.rows) else 'stopped',
            'words': '%d of %d played' % (ok, len(e.rows)) + ''.join(
                '; %(pipeline)s: %(words)s' % r for r in bad)}
