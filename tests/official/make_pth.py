#!/usr/bin/env python3
"""Writes the tensors of a safetensors file as torch.save() does, without PyTorch.

    make_pth.py IN.safetensors OUT.pth
"""
import collections
import io
import pickle
import sys
import types
import zipfile

from tensors import read


def fake(module, name):
    """A global that a pickle names and that is never called here."""
    thing = type(name, (), {'__module__': module})
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], name, thing)
    return thing


class Tensor:
    """Pickled as a call of _rebuild_tensor_v2() on a stored storage."""

    def __init__(self, key, array):
        self.key, self.array = key, array

    def __reduce__(self):
        strides, step = [], 1
        for n in reversed(self.array.shape):
            strides.insert(0, step)
            step *= n
        return REBUILD, (Storage(self), 0, self.array.shape, tuple(strides), False,
                         collections.OrderedDict())


class Storage:
    def __init__(self, tensor):
        self.tensor = tensor


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        t = obj.tensor
        return 'storage', FLOATS, str(t.key), 'cpu', t.array.size


def main():
    arrays = read(sys.argv[1])
    state = {name: Tensor(i, a) for i, (name, a) in enumerate(arrays.items())}
    body = io.BytesIO()
    Pickler(body, 2).dump(state)
    with zipfile.ZipFile(sys.argv[2], 'w') as out:
        out.writestr('archive/data.pkl', body.getvalue())
        for t in state.values():
            out.writestr('archive/data/%d' % t.key, t.array.tobytes())
        out.writestr('archive/version', '3\n')


FLOATS = fake('torch', 'FloatStorage')
REBUILD = fake('torch._utils', '_rebuild_tensor_v2')

if __name__ == '__main__':
    main()
