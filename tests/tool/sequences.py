"""Tests vaetool decode and info on a file of several sequences. Each sequence must
give the same frames as a file that has only this sequence.

usage: sequences.py VAETOOL WEIGHTS FOLDER"""
import json
import os
import random
import resource
import struct
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
import tensor_files

TOOL, WEIGHTS, FOLDER = sys.argv[1:]
LATENT = 16 * 2 * 3  # numbers
SEQUENCES = ((0, 9), (3, 1), (4, 4))  # first latent, frames
LATENTS = 6

random.seed(23)
DATA = struct.pack("<%df" % (LATENTS * LATENT),
                   *(random.gauss(0, 1) for _ in range(LATENTS * LATENT)))


def write(name, data, table=None, frames=None, shape=None, dtype="U8"):
    """Writes [T, 16, 2, 3] latents. shape, dtype: those of the table of sequences."""
    path = os.path.join(FOLDER, name)
    meta = {"vae.layout": "tchw", "vae.latent_space": "wan2.1"}
    if frames:
        meta["vae.frames"] = str(frames)
    tensors = {"latent": ("F32", [len(data) // 4 // LATENT, 16, 2, 3], data)}
    if table:
        rows = b"".join(struct.pack("<qq", *row) for row in table)
        tensors["latent_sequences"] = dtype, shape or [len(table), 16], rows
    return tensor_files.save(path, tensors, meta)


def run(*args):
    return subprocess.run([TOOL] + list(args), capture_output=True, text=True)


def decode(path, *args):
    """Returns the number of frames, and their bytes."""
    out = os.path.join(FOLDER, "frames.safetensors")
    done = run("decode", "--model", WEIGHTS, "--backend", "ref", *args, path, out)
    assert done.returncode == 0, done.stderr
    _, shape, data = tensor_files.load(out)[0]["frames"]
    return shape[0], data


def refused(*words, args=(), table=SEQUENCES, **how):
    path = write("bad.safetensors", DATA, table, **how)
    done = run("decode", "--model", WEIGHTS, "--backend", "ref", *args, path,
               os.path.join(FOLDER, "none.safetensors"))
    assert done.returncode not in (0, 2) and done.returncode > 0, done
    for word in (path,) + words:
        assert word in done.stderr, (word, done.stderr)


def resumes(path, expected):
    """A limit on the size of the output ends runs with --resume, each run later than
    the one before."""
    out = os.path.join(FOLDER, "resumed.safetensors")
    point, part = out + ".checkpoint", out + ".part"
    reached = set()

    def go(latents, limit):
        full = (limit, resource.RLIM_INFINITY)
        return subprocess.run(
            [TOOL, "decode", "--model", WEIGHTS, "--backend", "ref", "--resume",
             "--slice", "1", "--checkpoint-interval", "1", latents, out],
            capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, full))

    for old in (point, part, out):
        if os.path.exists(old):
            os.remove(old)
    for frames in (5, 9, 10, 11, 12):
        done = go(path, frames * len(expected) // 14)
        assert done.returncode == 3 and "cannot write" in done.stderr, done
        if os.path.exists(point):
            said = json.loads(run("info", "--json", point).stdout)
            said = said["unfinished"]["checkpoint"]
            reached.add((said["latents"], said["frames"]))
    assert reached == {(1, 1), (2, 5), (3, 9), (4, 10), (5, 11)}, reached
    with open(point, "rb") as a, open(part, "rb") as b:
        kept = a.read(), b.read()
    done = go(path, resource.RLIM_INFINITY)
    assert done.returncode == 0, done
    assert "continuing: 5 of 6 latents are done" in done.stderr, done
    assert tensor_files.load(out)[0]["frames"][2] == expected
    with open(point, "wb") as a, open(part, "wb") as b:
        a.write(kept[0])
        b.write(kept[1])
    done = go(write("other.safetensors", DATA, ((0, 9), (3, 4), (5, 1))),
              resource.RLIM_INFINITY)
    assert done.returncode == 3 and "of another run" in done.stderr, done


def main():
    os.makedirs(FOLDER, exist_ok=True)
    whole = write("all.safetensors", DATA, SEQUENCES)
    expected, count = b"", 0
    for i, (first, frames) in enumerate(SEQUENCES):
        end = SEQUENCES[i + 1][0] if i + 1 < len(SEQUENCES) else LATENTS
        part = write("part.safetensors",
                     DATA[first * LATENT * 4:end * LATENT * 4], frames=frames)
        n, data = decode(part)
        assert n == frames
        expected, count = expected + data, count + n
    for slices in ("1", "3"):
        assert decode(whole, "--slice", slices) == (count, expected), slices
    assert decode(whole, "--devices", "ref,ref") == (count, expected)
    info = run("info", whole)
    assert "  3 sequences, each decoded without those before it\n" in info.stdout
    assert " sequences, each" not in run("info", part).stdout
    assert json.loads(run("info", "--json", whole).stdout)["sequences"] == 3
    resumes(whole, expected)
    for table in ([(0, 9), (3, 2), (4, 4)], [(1, 4), (3, 1)], [(0, 9), (7, 1)],
                  [(0, 9), (3, 0)], [(0, 9), (3, -1)], [(0, 14), (3, 1)],
                  [(0, 5), (3, 1), (2, 1)], [(0, 9), (2 ** 62, 1)]):
        refused("latent_sequences", table=table)
    refused("sequence 0: frames 3, expected 14 to 17", table=[(0, 3), (5, 1)])
    refused("sequence 1: first latent 7, expected 1 to 5", table=[(0, 9), (7, 1)])
    for dtype, shape in (("F32", [3, 4]), ("I64", [3, 2]), ("U8", [48]),
                         ("U8", [4, 12]), ("U8", [3, 4, 4])):
        text = "x".join(map(str, shape))
        refused("latent_sequences", text + ", expected U8 [n, 16] with n from 1 to 6",
                shape=shape, dtype=dtype)
        said = run("info", os.path.join(FOLDER, "bad.safetensors"))
        assert "no latents: " in said.stdout and text in said.stdout, said


main()
