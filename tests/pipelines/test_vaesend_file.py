"""Tests pipelines/vaesend.py as a program: its files, and a pipeline that receives them.

usage: test_vaesend_file.py SOURCE BUILD [TEST...]
"""
import contextlib
import errno
import io
import itertools
import json
import math
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import types
import unittest

import streams
import tensor_files
from streams import (DECODE, FRAME, LATENTS, VAESEND, floats, launch,
                     packets, FRAMES)
from tensor_files import pack

import vaesend
import vaesend_file

try:
    import numpy
except ImportError:
    numpy = None


def safetensors(metadata=None, entry=None, data=floats(96)):
    """Returns the bytes of a file with this metadata. entry: replaces fields of the
    tensor's entry."""
    whole = {"dtype": "F32", "shape": [16, 1, 2, 3],
             "data_offsets": [0, len(data)], **(entry or {})}
    return pack({"__metadata__": metadata or {}, "latents": whole}, data)


def twice(first, second, at, then):
    """The bytes of a file with two tensors at these offsets."""
    entries = [f'"{name}": {{"dtype": "F32", "shape": [16, 1, 2, 3], '
               f'"data_offsets": {place}}}' for name, place in ((first, at),
                                                               (second, then))]
    header = "{" + ", ".join(entries) + "}"
    return pack(header.encode(), floats(96))


def npy(kind, data):
    head = (f"{{'descr': '{kind}', 'fortran_order': False, "
            "'shape': (16, 1, 2, 3)}\n").encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data


class Tool(tensor_files.Test):
    """The program vaesend with files that no pipeline wrote."""

    def file(self, data, name="clip.safetensors"):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def refused(self, *arguments):
        """Returns the error of the program, which must be one line."""
        done = subprocess.run([sys.executable, VAESEND, *arguments],
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"\Avaesend: .*\n\Z")
        return done.stderr

    def test_runs_by_itself(self):
        done = subprocess.run([VAESEND, "--help"], stdout=subprocess.PIPE,
                              check=True)
        self.assertIn(b"--receive TARGET COMMAND", done.stdout)

    def test_same_file(self):
        clip = self.file(safetensors())
        os.symlink(clip, self.path("symbolic"))
        os.link(clip, self.path("hard"))
        for target in (clip, self.path("symbolic"), self.path("hard")):
            said = self.refused("--space", "wan2.1", clip, target)
            self.assertIn(f"{target}: is the input; write to another file", said)
            self.assertEqual(streams.Streams.read(clip), safetensors())

    def test_older_file(self):
        """A target must be new. Latents that are refused make no target."""
        clip = self.file(safetensors())
        older = self.file(b"precious", "older.gdp")
        said = self.refused("--space", "wan2.1", clip, older)
        self.assertIn(f"{older}: is there already; write to a new file", said)
        self.assertEqual(streams.Streams.read(older), b"precious")
        self.refused("--space", "ltx2", clip, self.path("new.gdp"))
        self.refused("--space", "wan2.1", "--temporal", "8", clip,
                     self.path("new.gdp"))
        self.assertFalse(os.path.exists(self.path("new.gdp")))

    def test_full_disk(self):
        """The message has no number, and the cut file is removed."""
        clip, target = self.file(safetensors()), self.path("cut.gdp")
        done = subprocess.run(
            [sys.executable, VAESEND, "--space", "wan2.1", clip, target],
            stderr=subprocess.PIPE, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99)))
        self.assertEqual((done.returncode, done.stderr), (
            1, f"vaesend: {target}: after 0 latents: {os.strerror(errno.EFBIG)}\n"))
        self.assertFalse(os.path.exists(target))

        with open("/dev/full", "wb") as full:
            done = subprocess.run([sys.executable, VAESEND, "--space", "wan2.1", clip, "-"],
                                  stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertTrue(done.stderr.startswith("vaesend: <stdout>: after 0 latents: "))

    def test_not_finite(self):
        """A warning; the receiver decides."""
        for kind, data, told in (
                ("F32", floats(95) + b"\0\0\xc0\x7f", True),
                ("F32", floats(95) + b"\0\0\x80\xff", True),
                ("F32", floats(95) + b"\xff\x7f\x7f\x7f", False),
                ("F16", bytes(190) + b"\x01\x7c", True),
                ("F16", bytes(190) + b"\xff\x7b", False),
                ("BF16", bytes(190) + b"\x80\x7f", True),
                ("BF16", bytes(190) + b"\xff\x7e", False)):
            clip = self.file(safetensors(entry={"dtype": kind}, data=data))
            done = subprocess.run(
                [sys.executable, VAESEND, "--space", "wan2.1", clip, "-"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
            self.assertIn(data, done.stdout)
            self.assertEqual(done.stderr.decode(), (
                f"vaesend: {clip}: has numbers that are not finite, or too large "
                "for float32: all are sent\n" if told else "") + "vaesend: 1 latent, 1 frame\n")

    def test_metadata_refused(self):
        for metadata, words in (
                ([["vae.frames", "9"]], "__metadata__ is a list"),
                ({"vae.frames": 9}, "__metadata__ has 9 as vae.frames"),
                ({"vae.frames": "-9"}, "vae.frames is '-9'"),
                ({"vae.width": "wide", "vae.height": "16"}, "vae.width is"),
                ({"vae.width": "0", "vae.height": "0"}, "vae.width is '0', expected a"),
                ({"vae.title": "a\0b"}, "__metadata__ has 'a\\x00b' as vae.title"),
                ({"vae.framerate": "16/0"}, "vae.framerate: '16/0' frames")):
            clip = self.file(safetensors(metadata))
            said = self.refused("--space", "wan2.1", clip, self.path("x.gdp"))
            self.assertIn(f"{clip}: {words}", said)
        for name, option, value, words in (
                ("normalization", "normalization", "raw", "normalized, raw or comfyui"),
                ("latent_space", "space", "wan2.1", "a name of at most 63 letters"),
                ("layout", "layout", "cthw", "cthw or tchw"),
                ("framerate", "framerate", "16", "a number above 0")):
            clip = self.file(safetensors({"vae.latent_space": "wan2.1",
                                          "vae." + name: "raw ish"}))
            said = self.refused(clip, self.path("x.gdp"))
            self.assertRegex(said, f"{clip}: vae.{name}(:| is) 'raw ish'.*expected {words}"
                             f".*; to override it, use --{option}")
            subprocess.run([sys.executable, VAESEND, f"--{option}", value, clip, "-"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
        clip = self.file(safetensors({"vae.latent_space": "wan21"}))
        self.assertIn(f"vaesend: {clip}: the latent space 'wan21' is not known",
                      self.refused(clip, self.path("x.gdp")))

    def test_frames_that_do_not_fit(self):
        """A wrong number of frames gives a warning, and all frames are sent."""
        def clip(count, frames):
            return self.file(safetensors(
                {"vae.frames": str(frames)},
                {"shape": [16, count, 2, 3],
                 "data_offsets": [0, 384 * count]}, floats(96 * count)))

        for count, frames, sent, words in (
                (1, 1, 1, None), (3, 6, 6, None), (3, 9, 9, None),
                (1, 9, 1, "1 latent is 1 frame"),
                (3, 5, 9, "3 latents are 6 to 9 frames"),
                (3, 10, 9, "3 latents are 6 to 9 frames")):
            path = clip(count, frames)
            done = subprocess.run(
                [sys.executable, VAESEND, "--space", "wan2.1", path, "-"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                check=True)
            told = (f"vaesend: {vaesend.counted(count, 'latent')}, "
                    f"{vaesend.counted(sent, 'frame')}\n")
            if words:
                told = (f"vaesend: {path}: vae.frames is {frames}, but "
                        f"{words}: all are sent\n") + told
            self.assertEqual(done.stderr, told)

    def test_types(self):
        """float64 travels as float32. Any other type is an error."""
        count = 16 * 2 * 3
        doubles = struct.pack(f"<{count}d", *range(count))
        for data in (npy("<f8", doubles), safetensors(entry={"dtype": "F64"}, data=doubles)):
            array, _ = vaesend_file.open_latents(self.file(data))
            self.assertEqual(array, ("float32", (16, 1, 2, 3), floats(count)))
        for data, kind in ((npy("<i8", doubles), "int64"), (npy("|u1", doubles), "uint8"),
                           (npy(">f8", doubles), "big-endian float64"),
                           (safetensors(entry={"dtype": "I64"}, data=doubles), "int64")):
            clip = self.file(data)
            said = self.refused("--space", "wan2.1", clip, self.path("x.gdp"))
            self.assertIn(f"{clip}: the latents are {kind}, expected float32, float16, "
                          "bfloat16, float64", said)

    def test_layouts(self):
        """An impossible layout is an error. A layout with a batch gives a warning if the
        latents have no batch."""
        two = {"shape": [2, 16, 2, 3], "data_offsets": [0, 768]}
        batch = {**two, "shape": [1, 2, 16, 2, 3]}
        turned = {**two, "shape": [16, 2, 2, 3]}
        to = ["--space", "wan2.1"]
        for entry, word, told in (
                (two, "btchw", "vae.layout is btchw, but the latents, "
                 "[2, 16, 2, 3], have no batch in front: taken as tchw\n"),
                (two, "tchw", ""), (batch, "btchw", ""), (batch, None, "")):
            clip = self.file(safetensors({"vae.layout": word} if word else {}, entry,
                                         floats(192)))
            named = [] if word else ["--layout", "btchw"]
            done = subprocess.run(
                [sys.executable, VAESEND, *named, *to, clip, "-"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                check=True)
            if told:
                told = f"vaesend: {clip}: {told}"
            self.assertEqual(done.stderr,
                             f"{told}vaesend: 2 latents, 5 frames\n")
        expected = ("latents of shape [{}] have 2 channels, those of wan2.1 16: expected "
                    "[C, h, w], [C, T, h, w] or [1, C, T, h, w]")
        for entry, word, told in (
                (two, "hwc", "vae.layout is 'hwc', expected cthw or tchw"),
                (turned, "tchw", "latents of shape [16, 2, 2, 3] have 2 "
                 "channels, those of wan2.1 16: expected [C, h, w], [T, C, h, w] "
                 "or [1, T, C, h, w]; the other dimension has 16: set --layout cthw\n"),
                ({**two, "shape": [2, 2, 3, 16]}, None, expected.format("2, 2, 3, 16") +
                 "; the last dimension has 16: permute the array to [C, T, h, w], by "
                 "moveaxis(x, -1, 0) of numpy or torch\n"),
                ({**two, "shape": [1, 2, 2, 3, 16]}, None,
                 expected.format("1, 2, 2, 3, 16") + "; the last dimension has 16: permute "
                 "the array to [B, C, T, h, w], by moveaxis(x, -1, 1) of numpy or torch\n"),
                ({**two, "shape": [2, 12, 2, 4]}, None,
                 expected.format("2, 12, 2, 4") + "\n"),
                ({**two, "shape": [2, 16, 1, 2, 3]}, "cthw", "[2, 16, 1, 2, 3] is a "
                 "batch of 2 clips, expected 1: select one by --batch-index")):
            clip = self.file(safetensors({"vae.layout": word} if word else {}, entry,
                                         floats(192)))
            said = self.refused(*to, clip, self.path("x.gdp"))
            self.assertIn(f"{clip}: {told}", said)

    def test_channels_tell_the_layout(self):
        """Those of the latent space, as in the engine."""
        guess = ", 16 latents of 16 channels, is a guess: set layout to cthw or tchw"
        for space, shape, name, sent, told in (
                ("sd", [16, 4, 1, 1], "x", 16, ""), ("sd", [3, 4, 1, 1], "x", 3, ""),
                ("sd", [4, 16, 1, 1], "x", 16, ""),
                ("flux1", [16, 16, 1, 1], "x", 16, "tchw" + guess),
                ("wan2.1", [16, 16, 1, 1], "latent_tensor", 16, ""),
                ("wan2.1", [16, 16, 1, 1], "x", 16, "cthw" + guess)):
            count = math.prod(shape)
            entries = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * count]},
                       "latent_format_version_0": {"dtype": "F32", "shape": [0],
                                                   "data_offsets": [0, 0]}}
            clip = self.file(pack(entries, floats(count)))
            with self.subTest(space=space, shape=shape, name=name):
                done = subprocess.run([sys.executable, VAESEND, "--space", space, clip, "-"],
                                      capture_output=True, check=True)
                said = done.stderr.decode()
                self.assertIn(f"vaesend: {sent} latents", said)
                self.assertEqual("guess" in said, bool(told))
                self.assertIn(told, said)
                layout = "cthw" if told.startswith("cthw") or shape[0] == 4 else "tchw"
                array = vaesend.Array("float32", tuple(shape), floats(count))
                self.assertIn(bytes(list(vaesend.split(array, layout))[1][1]), done.stdout)

    def test_as_the_engine(self):
        """vaesend.py runs without libvae, so it finds layouts and names types itself: as
        vaetool does."""
        vaetool = os.path.join(streams.BUILD, "engine", "vaetool")
        sizes = (1, 3, 4, 16, 48, 1025)
        for first, second, space, comfyui in itertools.product(
                sizes, sizes, (None, "wan2.1", "flux1", "sd"), (False, True)):
            shape, name = [first, second, 1, 1], "latent_tensor" if comfyui else "x"
            entries = {name: {"dtype": "F32", "shape": shape,
                              "data_offsets": [0, 4 * first * second]}}
            if comfyui:
                entries["latent_format_version_0"] = {
                    "dtype": "F32", "shape": [0],
                    "data_offsets": [4 * first * second] * 2}
            clip = self.file(pack(entries, bytes(4 * first * second)))
            said = subprocess.run(
                [vaetool, "info", *(["--latent-space", space] if space else []), clip],
                capture_output=True, text=True, check=False).stdout
            found = re.search(r"layout ([ct]{2}hw)", said)
            if not found:
                continue  # vaetool refuses such latents
            options = types.SimpleNamespace(latents=clip, tensor=None, space=space)
            array, facts = vaesend_file.open_latents(clip, None)
            with self.subTest(shape=shape, space=space, comfyui=comfyui), \
                    contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(vaesend_file.layout_by_channels(options, array, facts),
                                 found[1])
        weights = os.path.join(streams.SOURCE, "pipelines", "demo", "demo-tiny.safetensors")
        for kind in ("I8", "I64", "U8", "BOOL", "C64", "F8_E4M3", "<i8", "|u1", "|b1", "<c8"):
            count = 8 if "64" in kind or kind[-1] == "8" and kind[0] == "<" else 1
            clip = self.file(npy(kind, bytes(96 * count)) if kind[0] in "<|" else safetensors(
                {}, {"dtype": kind}, bytes(96 * count)))
            said = subprocess.run([vaetool, "decode", "--model", weights, clip,
                                   self.path("x.y4m")], capture_output=True, text=True,
                                  check=False).stderr
            found = re.search("elements of type ([^,]*),", said)
            self.assertTrue(found, said)
            self.assertIn(f": the latents are {found[1]},", self.refused(
                "--space", "wan2.1", clip, self.path("x.gdp")))

    def test_space(self):
        said = self.refused(self.file(safetensors()), self.path("x.gdp"))
        self.assertIn("expected --space, or --temporal and --fps", said)
        clip = self.file(safetensors({"vae.latent_space": "wan2.2",
                                      "vae.normalization": "normalized"}))
        done = subprocess.run(
            [sys.executable, VAESEND, "--space", "wan2.1", "--normalization", "raw",
             clip, self.path("x.gdp")], stderr=subprocess.PIPE, text=True, check=True)
        for words in ("latent-space wan2.2; latent-space wan2.1",
                      "normalization normalized; normalization raw"):
            self.assertIn(f"vaesend: warning: {clip} states {words} overrides it\n",
                          done.stderr)
        self.file(safetensors({"vae.latent_space": "a\33[31m"}))
        done = subprocess.run([sys.executable, VAESEND, "--space", "wan2.1", clip, "-"],
                              capture_output=True, check=True)
        self.assertIn(b"states latent-space a?[31m;", done.stderr)

    def test_open_recording(self):
        """Its complete latents are sent."""
        clip = self.file(safetensors(
            {"vae.recording": "open", "vae.latent_space": "wan2.1", "vae.layout": "tchw"},
            {"shape": [0, 16, 2, 3], "data_offsets": [0, 0]}, floats(192) + b"cut"))
        done = subprocess.run([sys.executable, VAESEND, clip, "-"], capture_output=True,
                              check=True)
        self.assertEqual(done.stderr, b"vaesend: 2 latents, 5 frames\n")
        self.assertIn(floats(96, 96), done.stdout)

    def test_picture(self):
        """What a file says of the picture travels in the caps, or its loss is told."""
        stated = {"vae.latent_space": "wan2.1", "vae.pixel_aspect_ratio": "8/9",
                  "vae.colorimetry": "bt2020-10", "vae.content_light_level": "1000:400"}
        for more, said in (({}, ""), (
                {"vae.tag.image-orientation": "rotate-90", "vae.tag.encoder": "x",
                 "vae.tag.preview-image": "eA==", "vae.chroma_site": "a, b=(int)1"},
                " has vae.chroma_site and the tags preview-image, which are ")):
            clip = self.file(safetensors({**stated, **more}))
            done = subprocess.run([sys.executable, VAESEND, clip, "-"],
                                  capture_output=True, check=True)
            found = packets(done.stdout)
            caps = found[1][1]
            self.assertEqual([kind for kind, *_ in found].count(vaesend.TAG), bool(more))
            self.assertIn(b"pixel-aspect-ratio=(fraction)8/9, "
                          b"colorimetry=(string)bt2020-10, "
                          b"content-light-level=(string)1000:400\0", caps)
            self.assertEqual(said in done.stderr.decode(), True, done.stderr)
            self.assertEqual(done.stderr.count(b"warning"), bool(said))
        clip = self.with_table("latent_times")
        done = subprocess.run([sys.executable, VAESEND, clip, "-"],
                              capture_output=True, check=False)
        self.assertIn("latent_times are no valid times", done.stderr.decode())

    def with_table(self, name, *rows, latents=1):
        """A file of latents of wan2.1 with a table of pairs of numbers."""
        table = b"".join(struct.pack("<qq", *row) for row in rows)
        size = latents * 384
        return self.file(pack({
            "__metadata__": {"vae.latent_space": "wan2.1"},
            "latents": {"dtype": "F32", "shape": [16, latents, 2, 3],
                        "data_offsets": [0, size]},
            name: {"dtype": "U8", "shape": [len(rows), 16],
                   "data_offsets": [size, size + len(table)]}},
            floats(size // 4) + table))

    def test_sequences(self):
        """Each sequence is sent as latentdemux plays it."""
        clip = self.with_table("latent_sequences", (0, 5), (2, 1), (3, 7), latents=6)
        done = subprocess.run([sys.executable, VAESEND, clip, "-"],
                              capture_output=True, check=True)
        sent = [p for p in packets(done.stdout) if p[0] == vaesend.BUFFER]
        self.assertEqual(["D" if p[5] & vaesend.DELTA_UNIT else "S" for p in sent],
                         list("SDSSDD"))
        frames = [0, 1, 5, 6, 7, 11, 13]
        self.assertEqual([p[2] for p in sent], [n * vaesend.SECOND // 16 for n in frames[:-1]])
        self.assertEqual([p[2] + p[3] for p in sent],
                         [n * vaesend.SECOND // 16 for n in frames[1:]])
        self.assertIn(b"6 latents, 13 frames", done.stderr)
        for rows, said in (([], "begin at latents [], expected"),
                           ([(1, 1)], "begin at latents [1], expected"),
                           ([(0, 5), (2, 1), (2, 1)], "begin at latents [0, 2, 2]"),
                           ([(0, 5), (3, 1)], "begin at latents [0, 3], expected numbers "
                            "that grow, from 0 to less than 3"),
                           ([(0, 1), (1, 9)], "state 9 frames of 2 latents, which are 5"),
                           ([(0, 1), (1, 1)], "state 1 frames of 2 latents, which are 5")):
            clip = self.with_table("latent_sequences", *rows, latents=3)
            self.assertIn(f"{clip}: latent_sequences {said}", self.refused(clip, "-"))

    def test_choice_of_a_tensor(self):
        """An error names the tensors, and --tensor selects one."""
        clip = self.file(twice("a", "b", [0, 192], [192, 384]).replace(
            b"[16, 1, 2, 3]", b"[16, 1, 1, 3]"))
        self.assertIn(f"{clip}: 2 tensors may be the latents (a, b): select one by "
                      "--tensor", self.refused(clip, "-"))
        subprocess.run([sys.executable, VAESEND, "--space=wan2.1", "--tensor=b", clip, "-"],
                       capture_output=True, check=True)
        self.assertIn(f"{clip}: no tensor c; found a, b",
                      self.refused("--tensor=c", clip, "-"))
        flat = safetensors(entry={"shape": [96]}).replace(b"latents", b"flatten")
        self.assertIn("no tensor of 3 to 5 dimensions", self.refused(self.file(flat), "-"))
        one = safetensors(entry={"shape": [16, 2, 3]}).replace(b"latents", b"flatten")
        subprocess.run([sys.executable, VAESEND, "--space=wan2.1", self.file(one), "-"],
                       capture_output=True, check=True)

    def test_taken_with_a_warning(self):
        """All warnings about the reading are those of vaetool."""
        both = self.file(twice("samples", "latents", [0, 192], [192, 384]).replace(
            b"[16, 1, 2, 3]", b"[16, 1, 1, 3]"))
        unmarked = self.file(
            pack({"latent_tensor": {"dtype": "F32", "shape": [1, 16, 2, 3],
                                    "data_offsets": [0, 384]}}, floats(96)), "old.latent")
        vaetool = os.path.join(streams.BUILD, "engine", "vaetool")
        weights = os.path.join(streams.SOURCE, "pipelines", "demo", "demo.safetensors")
        square = self.file(safetensors(entry={"shape": [16, 16, 1, 1],
                                              "data_offsets": [0, 1024]}, data=bytes(1024)),
                           "square.safetensors")
        states = self.file(safetensors({"vae.latent_space": "wan2.1",
                                        "vae.normalization": "raw"}), "states.safetensors")
        space, normalized = "--latent-space=gst-vae-demo", "--normalization=normalized"
        for clip, count in ((both, 1), (unmarked, 1), (square, 1), (states, 2)):
            options = [space, normalized] if clip == states else [space]
            said = [subprocess.run(command, capture_output=True, text=True,
                                   check=True).stderr for command in (
                [sys.executable, VAESEND, clip, f"{clip}.gdp", *options],
                [vaetool, "decode", "--model", weights, clip, f"{clip}.npy", *options])]
            warnings = [re.findall(f"warning: {clip}(?:: tensor.*(?: taken|mark|guess)| states).*",
                                   text) for text in said]
            self.assertEqual(len(warnings[0]), count, said)
            self.assertEqual(warnings[0], warnings[1])

    def test_unknown_space(self):
        """The nearest known space is named, and what the error asks for works."""
        clip = self.file(safetensors())
        for space, said in (("wan21", "is not known here (the nearest is wan2.1): expected "
                             "--temporal and --fps"),
                            ("Wan 2.1", "letters, digits, and . - _ (the nearest is wan2.1)")):
            self.assertIn(said, self.refused("--space", space, clip, "-"))
        for options in (["--space=wan2.1"], ["--space=wan21", "--temporal=4", "--fps=16"]):
            subprocess.run([sys.executable, VAESEND, *options, clip, "-"],
                           capture_output=True, check=True)

    def test_headers_refused(self):
        deep = b'{"latents": ' + b"[" * 100000 + b"]" * 100000 + b"}"
        rows = b"{'descr': '<f4', 'fortran_order': False, 'shape': " \
            + b"(" * 9000 + b")" * 9000 + b"}"
        for data, words in (
                (pack(deep), "neither .npy nor"),
                (b"\x93NUMPY\1\0" + struct.pack("<H", len(rows)) + rows,
                 "no header of .npy"),
                (safetensors(entry={"shape": [16, 1, -2, -3]}), "[16, 1, -2"),
                (safetensors(entry={"shape": ["16"]}), "['16'], expected"),
                (safetensors(entry={"shape": 16}), "neither .npy nor"),
                (safetensors(data=floats(97)), "[16, 1, 2, 3]"),
                (safetensors() + b"more", "388 bytes of data, expected 384"),
                (safetensors(entry={"data_offsets": [4, 388]}, data=floats(97)),
                 "latents are at [4, 388], expected two numbers from 0"),
                (safetensors(entry={"data_offsets": [0, 192, 384]}),
                 "latents are at [0, 192, 384], expected two"),
                (twice("a", "b", [0, 384], [0, 384]),
                 "of the tensor b are at [0, 384], expected two numbers from 384"),
                (twice("a", "a", [0, 384], [0, 384]),
                 'header: duplicate key "a"'),
                (npy("<f4", floats(97)), "388 bytes of latents, expected 384"),
                (pack({}), "has no tensors, expected one with latents"),
                (struct.pack("<Q", 99) + b'{"a":', "header of 99 bytes, but 5 follow"),
                (struct.pack("<Q", 5) + b'{"a":', "header of 5 bytes: no valid JSON"),
                (b"{}", "2 bytes, too short for a file of latents"),
                (b"PK\3\4" + bytes(26) + b"latent.npy", "is not read: save the array alone"),
                (b"PK\3\4 of PyTorch", "broken zip archive")):
            clip = self.file(data)
            said = self.refused("--space", "wan2.1", clip, self.path("x.gdp"))
            self.assertIn(f"{clip}: ", said)
            self.assertIn(words, said)

    def test_pytorch(self):
        """The package gst_vae reads files of PyTorch; the error without it has a command
        that converts one."""
        saved, whole = self.path("x.pt"), self.path("OUT.safetensors")
        shutil.copy(os.path.join(streams.SOURCE, "tests/files/torch/data/latent.pt"), saved)
        send = [sys.executable, VAESEND, "--space=wan2.1", saved, "-"]
        done = subprocess.run(send, capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": self.folder, "PATH": ""})
        self.assertEqual(done.returncode, 1)
        command = done.stderr.partition("gst-launch-1.0 ")[2].partition(" makes safe")[0]
        streams.Streams.play(command.replace("OUT.safetensors", whole))
        sent = [subprocess.run([*send[:-2], path, "-"], capture_output=True, check=True).stdout
                for path in (saved, whole)]
        # The first packet has a random name of the stream.
        self.assertEqual(sent[0][300:], sent[1][300:])
        self.assertIn("the batch index is 1", self.refused("--batch-index=1", saved, "-"))
        self.assertIn("has 16: set --layout cthw", self.refused(
            "--layout=tchw", "--space=wan2.1", saved, "-"))

    def test_alone(self):
        """A program needs only vaesend.py. The command says which file is missing."""
        with open(VAESEND, "rb") as file:
            alone = self.file(file.read(), "vaesend.py")
        done = subprocess.run(
            [sys.executable, "-c", "import vaesend; vaesend.Sender"],
            cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 0)
        done = subprocess.run([sys.executable, alone, "--help"],
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("vaesend_file.py and vaesend_read.py, which read files", done.stderr)

    def test_stale_socket(self):
        """The socket of a killed receiver is replaced. A used socket or a file is an
        error."""
        path = self.path("socket")
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        os.mkdir(self.path("other"))
        with socket.socket(socket.AF_UNIX) as other:
            before = os.getcwd()
            os.chdir(self.path("other"))
            other.bind("socket") # a name that the kernel lists without its folder
            self.assertTrue(vaesend.bound("socket"))
            os.chdir(before)
            self.assertFalse(vaesend.bound(path))
        found = []
        receiver = threading.Thread(
            target=lambda: found.append(vaesend.accept(f"unix://{path}")))
        receiver.start()
        with vaesend.Sender(f"unix://{path}", "wan2.1", retry=600) as sender:
            sender.send(vaesend.Array("float32", (16, 2, 3), floats(96)))
        receiver.join()
        self.assertEqual(found[0].recv(1), b"\1")
        found[0].close()
        clip = self.file(safetensors())
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            other.listen(1)
            said = self.refused("--receive", f"unix://{path}", "true")
            self.assertIn("in use", said)
            self.assertIn(path, said)
            other.setblocking(False)
            with self.assertRaises(BlockingIOError): # nobody connected
                other.accept()
        os.unlink(path)
        said = self.refused("--receive", f"unix://{clip}", "true")
        self.assertIn("in use", said)
        self.assertEqual(streams.Streams.read(clip), safetensors())

    def test_interrupted(self):
        """Ctrl-C removes the socket."""
        path = self.path("socket")
        receiver = subprocess.Popen(
            [sys.executable, VAESEND, "--receive", f"unix://{path}", "true"],
            stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while not os.path.exists(path):
            time.sleep(0.05)
        receiver.send_signal(signal.SIGINT)
        self.assertEqual((receiver.communicate()[1], receiver.returncode),
                         ("vaesend: interrupted\n", 130))
        self.assertFalse(os.path.exists(path))


class Files(streams.Streams):
    def send(self, *arguments, **more):
        return subprocess.run([sys.executable, VAESEND, *arguments],
                              stderr=subprocess.PIPE, text=True, check=False,
                              **more)

    def sent(self, *arguments, **more):
        done = self.send(*arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{LATENTS} latents, {streams.FRAMES} frames",
                      done.stderr)

    def receiver(self, source, **more):
        self.out = self.path("out.rgb")
        return launch(f"{source} ! gdpdepay ! {DECODE} ! filesink "
                      f"location={self.out}", **more)

    def test_tcp(self):
        port = streams.free_port()
        process = self.receiver(f"tcpserversrc host=127.0.0.1 port={port}")
        self.sent("--retry", "600", self.clip, f"tcp://127.0.0.1:{port}")
        self.finish(process)
        self.assert_frames(self.out)

    def test_listen(self):
        port = streams.free_port()
        sender = threading.Thread(target=self.sent, args=[
            "--listen", self.clip, f"tcp://127.0.0.1:{port}"])
        sender.start()
        while True: # until it listens
            status, said = streams.ended(self.receiver(
                f"tcpclientsrc host=127.0.0.1 port={port}"))
            if status == 0:
                break
            self.assertIn("refused", said)
        sender.join()
        self.assert_frames(self.out)

    def test_unix(self):
        address = "unix://" + self.path("socket")
        self.out = self.path("out.rgb")
        receiver = subprocess.Popen(
            [sys.executable, VAESEND, "--receive", address, "gst-launch-1.0",
             "-q"] + f"fdsrc ! gdpdepay ! {DECODE} ! filesink "
            f"location={self.out}".split())
        self.sent("--retry", "600", self.clip, address)
        self.assertEqual(receiver.wait(), 0)
        self.assert_frames(self.out)
        self.assertFalse(os.path.exists(self.path("socket")))

    def test_named_pipe(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        process = self.receiver(f"filesrc location={pipe}")
        self.sent(self.clip, pipe)
        self.finish(process)
        self.assert_frames(self.out)

    def test_standard_output(self):
        process = self.receiver("fdsrc", stdin=subprocess.PIPE)
        self.sent(self.clip, "-", stdout=process.stdin)
        process.stdin.close()
        self.finish(process)
        self.assert_frames(self.out)

    def test_file(self):
        self.sent(self.clip, self.path("clip.gdp"))
        self.finish(self.receiver("filesrc location=" + self.path("clip.gdp")))
        self.assert_frames(self.out)

    def timed(self):
        """Makes a copy of the clip with tags, and latents that last half as long again."""
        data = self.read(self.clip)
        size = struct.unpack("<Q", data[:8])[0]
        header, latents = json.loads(data[8:8 + size]), data[8 + size:]
        header["__metadata__"].update({
            "vae.title": 'ä, "b\\', "vae.tag.artist": "x", "vae.tag.artist.2": "y z",
            "vae.tag.track-number": "3", "vae.tag.geo-location-latitude": "-1.5",
            "vae.tag.date": "2020-01-02", "vae.tag.datetime": "2020-01-02T03:04:05Z",
            "vae.tag.image-orientation": "rotate-90"})
        starts = [10**8 * n for n in range(LATENTS + 1)]
        times = struct.pack(f"<{2 * LATENTS}q", *(n for start in starts[:-1]
                                                  for n in (start, 10**8)))
        header["latent_times"] = {"dtype": "U8", "shape": [LATENTS, 16], "data_offsets":
                                  [len(latents), len(latents) + len(times)]}
        with open(self.path("timed.safetensors"), "wb") as file:
            file.write(pack(header, latents + times))

    def decoded(self, source):
        """The bytes, times and durations of the frames that a source gives."""
        self.play(f"{source} ! {DECODE} ! gdppay crc-header=false crc-payload=false ! "
                  f"filesink location={self.path('out.gdp')}")
        return [facts[1:4] for facts in packets(self.read(self.path("out.gdp")))
                if facts[0] == vaesend.BUFFER]

    def test_times_and_tags(self):
        """They arrive as latentdemux reads them, and also through gdppay."""
        self.timed()
        read = f"filesrc location={self.path('timed.safetensors')} ! latentdemux"
        expected = self.decoded(read)
        self.assertEqual(len(expected), FRAMES)
        self.assertEqual(expected[1][1:], (10**8, 25 * 10**6))
        self.sent(self.path("timed.safetensors"), self.path("sent.gdp"))
        self.play(f"{read} ! gdppay ! filesink location={self.path('paid.gdp')}")
        for name in ("sent.gdp", "paid.gdp"):
            self.assertEqual(self.decoded(f"filesrc location={self.path(name)} ! gdpdepay"),
                             expected)
        self.play(f"filesrc location={self.path('sent.gdp')} ! gdpdepay ! latentmux ! "
                  f"filesink location={self.path('again.safetensors')}")
        first, again = (vaesend_file.open_latents(self.path(name))[1]
                        for name in ("timed.safetensors", "again.safetensors"))
        first.pop("vae.tag.encoder")
        again.pop("vae.tag.encoder", None)
        self.assertEqual(again, first)
        self.sent("--fps", "16", self.path("timed.safetensors"), self.path("even.gdp"))
        self.assertEqual(self.decoded(f"filesrc location={self.path('even.gdp')} ! gdpdepay"),
                         self.decoded(f"{read} framerate=16/1"))

    @unittest.skipUnless(numpy, "no numpy")
    def test_npy(self):
        """Sends the same latents from a .npy file of [C, T, h, w], with options for the
        space and rate. It states no number of frames, so the last group is complete."""
        array, _ = vaesend_file.open_latents(self.clip)
        data = numpy.frombuffer(array.data, "<f4").reshape(array.shape)
        numpy.save(self.path("clip.npy"), numpy.asfortranarray(data))
        done = self.send("--space", "gst-vae-demo", "--fps", "16",
                         self.path("clip.npy"), self.path("array.gdp"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("Fortran", done.stderr)
        numpy.save(self.path("clip.npy"),
                   numpy.ascontiguousarray(data.transpose(1, 0, 2, 3)))
        done = self.send("--space", "gst-vae-demo", "--fps", "16",
                         self.path("clip.npy"), self.path("array.gdp"))
        self.assertEqual(done.returncode, 0, done.stderr)
        said = self.finish(launch(
            "filesrc location=" + self.path("array.gdp") + " ! gdpdepay ! "
            f"{DECODE} ! videocrop right=4 ! filesink "
            f"location={self.path('out.rgb')}"))
        self.assertEqual(said, "")
        found = self.read(self.path("out.rgb"))
        self.assertEqual(found[:len(self.frames)], self.frames)
        self.assertEqual(len(found) // FRAME, 4 * LATENTS - 3)

    def test_refused(self):
        empty = self.path("empty")
        open(empty, "wb").close()
        cut = self.path("cut")
        with open(cut, "wb") as file:
            file.write(self.read(self.clip)[:-1])
        text = self.path("text")
        with open(text, "w", encoding="ascii") as file:
            file.write("no latents at all")
        weights = os.path.join(streams.PIPELINES, "demo", "demo.safetensors")
        for path, words in ((empty, "empty"), (cut, "expected"),
                            (text, "neither .npy nor safetensors"),
                            (weights, "67 tensors may be"), ("/none", "/none")):
            done = self.send("--space", "wan2.1", path, self.path("x.gdp"))
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_receiver_dies(self):
        port = streams.free_port()
        process = launch(f"tcpserversrc host=127.0.0.1 port={port} ! gdpdepay "
                         f"! {DECODE} ! fakesink")
        array, _ = vaesend_file.open_latents(self.clip)
        with self.assertRaisesRegex(vaesend.ReceiverGone, "closed the"):
            with vaesend.Sender(f"tcp://127.0.0.1:{port}", "gst-vae-demo",
                                layout="tchw", retry=600) as sender:
                sender.send(array)
                process.kill()
                while True:
                    sender.send(array)
        streams.ended(process)


if __name__ == "__main__":
    streams.main("gdpdepay", "tcpserversrc", "vaedecode")
