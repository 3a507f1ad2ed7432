"""The engine's file of timed layers, as engine/cuda/conv/plan_cache.c writes it: a title,
a line for the device, one line for each layer, a checksum."""
import os


def checksum(data):
    """FNV-1a."""
    total = 0xcbf29ce484222325
    for byte in data:
        total = (total ^ byte) * 0x100000001b3 % (1 << 64)
    return total


def whole(lines):
    body = b''.join(lines)
    return body + b'end %016x\n' % checksum(body)


def parse(data):
    """Returns the lines without the checksum, or None if the file is damaged.
    """
    lines = data.splitlines(keepends=True)[:-1]
    return lines if len(lines) > 1 and whole(lines) == data else None


def read(path):
    try:
        with open(path, 'rb') as f:
            return parse(f.read())
    except OSError:
        return None


def merge(path, into):
    """Adds the layers of one file that the other lacks."""
    new, old = read(path), read(into)
    if not new:
        return
    if old and old[:2] == new[:2]:
        known = {line.split(b'\t')[0] for line in old}
        new = old + [line for line in new[2:]
                     if line.split(b'\t')[0] not in known]
    os.makedirs(os.path.dirname(into), exist_ok=True)
    with open(into, 'wb') as f:
        f.write(whole(new))
