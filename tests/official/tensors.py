"""Tensors in safetensors files, and pictures, with numpy only."""
import json
import struct
import zlib

import numpy as np


def read(path):
    """The tensors of a safetensors file, without those of 8 bits and other types that no VAE
    has; 16-bit ones as float32."""
    with open(path, 'rb') as f:
        header = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data, out = f.read(), {}
    header.pop('__metadata__', None)
    for name, t in header.items():
        kind = {'F32': '<f4', 'F16': '<f2', 'BF16': '<u2', 'U8': 'u1',
                'I64': '<i8'}.get(t['dtype'])
        if not kind:
            continue
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
