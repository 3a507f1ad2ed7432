"""Files that vaesend reads: their headers, types, metadata and tables.

usage: test_containers.py SOURCE BUILD [TEST...]
"""
import os
import re
import shutil
import struct
import subprocess
import sys

from readers import DEMO, Reading, run, safetensors, send, streams, VAETOOL
from streams import floats, packets
from tensor_files import pack, save

import vaesend
import vaesend_file


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


class Containers(Reading):
    def test_headers_refused(self):
        deep = b'{"latents": ' + b"[" * 100000 + b"]" * 100000 + b"}"
        rows = b"{'descr': '<f4', 'fortran_order': False, 'shape': " \
            + b"(" * 9000 + b")" * 9000 + b"}"
        for data, words in (
                (pack(deep), "neither .npy nor"),
                (b"\x93NUMPY\1\0" + struct.pack("<H", len(rows)) + rows,
                 "no header of .npy"),
                (safetensors(shape=[16, 1, -2, -3]), "[16, 1, -2"),
                (safetensors(shape=["16"]), "['16'], expected"),
                (safetensors(shape=16), "neither .npy nor"),
                (safetensors(data=floats(97)), "[16, 1, 2, 3]"),
                (safetensors() + b"more", "388 bytes of data, expected 384"),
                (safetensors(data_offsets=[4, 388], data=floats(97)),
                 "latents are at [4, 388], expected two numbers from 0"),
                (safetensors(data_offsets=[0, 192, 384]),
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
        done = subprocess.run(
            [sys.executable, streams.VAESEND, "--space=wan2.1", saved, "-"], check=False,
            capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": self.folder, "PATH": ""})
        self.assertEqual(done.returncode, 1)
        command = done.stderr.partition("gst-launch-1.0 ")[2].partition(" makes safe")[0]
        self.play(command.replace("OUT.safetensors", whole))
        sent = [send("--space=wan2.1", path, "-")[0] for path in (saved, whole)]
        # The first packet has a random name of the stream.
        self.assertEqual(sent[0][300:], sent[1][300:])
        self.assertIn("the batch index is 1", self.refused("--batch-index=1", saved, "-"))
        self.assertIn("if these are the channels, set --layout cthw", self.refused(
            "--layout=tchw", "--space=wan2.1", saved, "-"))

    def test_types(self):
        """float64 travels as float32. Any other type is an error."""
        count = 16 * 2 * 3
        doubles = struct.pack(f"<{count}d", *range(count))
        for data in (npy("<f8", doubles), safetensors(dtype="F64", data=doubles)):
            array, _ = vaesend_file.open_latents(self.file(data))
            self.assertEqual(array, ("float32", (16, 1, 2, 3), floats(count)))
        for data, kind in ((npy("<i8", doubles), "int64"), (npy("|u1", doubles), "uint8"),
                           (npy(">f8", doubles), "big-endian float64"),
                           (safetensors(dtype="I64", data=doubles), "int64")):
            clip = self.file(data)
            said = self.refused("--space", "wan2.1", clip, self.path("x.gdp"))
            self.assertIn(f"{clip}: the latents are {kind}, expected float32, float16, "
                          "bfloat16, float64", said)

    def test_names_of_types(self):
        """vaesend runs without libvae, so it names types itself: as vaetool does."""
        weights = DEMO.replace("demo.safetensors", "demo-tiny.safetensors")
        for kind in ("I8", "I64", "U8", "BOOL", "C64", "F8_E4M3", "<i8", "|u1", "|b1", "<c8"):
            data = bytes(768 if "64" in kind or kind in ("<i8", "<c8") else 96)
            clip = self.file(npy(kind, data) if kind[0] in "<|" else
                             safetensors(dtype=kind, data=data))
            said = self.tool("decode", "--model", weights, clip, self.path("x.y4m")).stderr
            found = re.search("elements of type ([^,]*),", said)
            self.assertTrue(found, said)
            self.assertIn(f": the latents are {found[1]},", self.refused(
                "--space", "wan2.1", clip, self.path("x.gdp")))

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
            clip = self.file(safetensors(dtype=kind, data=data))
            sent, said = send("--space", "wan2.1", clip, "-")
            self.assertIn(data, sent)
            self.assertEqual(said, (
                f"vaesend: {clip}: has numbers that are not finite, or too large "
                "for float32: all are sent\n" if told else "") + "vaesend: 1 latent, 1 frame\n")

    def halves(self, first, second):
        """A file of two tensors."""
        return self.file(twice(first, second, [0, 192], [192, 384]).replace(
            b"[16, 1, 2, 3]", b"[16, 1, 1, 3]"), f"{first}.safetensors")

    def test_choice_of_a_tensor(self):
        """An error names the tensors, and --tensor selects one."""
        clip = self.halves("a", "b")
        self.assertIn(f"{clip}: 2 tensors may be the latents (a, b): select one by "
                      "--tensor", self.refused(clip, "-"))
        send("--space=wan2.1", "--tensor=b", clip, "-")
        self.assertIn(f"{clip}: no tensor c; found a, b",
                      self.refused("--tensor=c", clip, "-"))
        flat = safetensors(shape=[96]).replace(b"latents", b"flatten")
        self.assertIn("no tensor of 3 to 5 dimensions", self.refused(self.file(flat), "-"))
        one = safetensors(shape=[16, 2, 3]).replace(b"latents", b"flatten")
        send("--space=wan2.1", self.file(one), "-")

    def test_taken_with_a_warning(self):
        """All warnings about the reading are those of vaetool."""
        unmarked = save(self.path("old.latent"),
                        {"latent_tensor": ("F32", [1, 16, 2, 3], floats(96))})
        square = self.file(safetensors(shape=[16, 16, 1, 1], data=bytes(1024)),
                           "square.safetensors")
        states = self.file(safetensors({"vae.latent_space": "wan2.1",
                                        "vae.normalization": "raw"}), "states.safetensors")
        normalized = ["--normalization=normalized"]
        for clip, options, count in (
                (self.halves("samples", "latents"), [], 1), (unmarked, [], 1),
                (square, [], 1), (states, normalized, 2)):
            said = [self.good(run(*words, "--latent-space=gst-vae-demo", *options)).stderr
                    for words in ((streams.VAESEND, clip, f"{clip}.gdp"),
                                  (VAETOOL, "decode", "--model", DEMO, clip, f"{clip}.npy"))]
            warnings = [re.findall(f"warning: {clip}(?:: tensor.*(?: taken|mark|guess)| states).*",
                                   text) for text in said]
            self.assertEqual(len(warnings[0]), count, said)
            self.assertEqual(warnings[0], warnings[1])


class Metadata(Reading):
    def test_metadata_refused(self):
        for metadata, words in (
                ([["vae.frames", "9"]], "__metadata__ is a list"),
                ({"vae.frames": 9}, "__metadata__ has 9 as vae.frames"),
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
            send(f"--{option}", value, clip, "-")
        clip = self.file(safetensors({"vae.latent_space": "wan21"}))
        self.assertIn(f"vaesend: {clip}: the latent space 'wan21' is not known",
                      self.refused(clip, self.path("x.gdp")))

    def test_frames_that_do_not_fit(self):
        """A wrong number of frames gives a warning, and all frames are sent."""
        for count, frames, sent, words in (
                (1, 1, 1, None), (3, 6, 6, None), (3, 9, 9, None),
                (1, 9, 1, "1 latent is 1 frame"),
                (3, 5, 9, "3 latents are 6 to 9 frames"),
                (3, 10, 9, "3 latents are 6 to 9 frames"),
                (3, "-9", 9, "3 latents are 6 to 9 frames"),
                (3, "nine", 9, "3 latents are 6 to 9 frames")):
            clip = self.file(safetensors({"vae.frames": str(frames)}, floats(96 * count),
                                         shape=[16, count, 2, 3]))
            told = (f"vaesend: {vaesend.counted(count, 'latent')}, "
                    f"{vaesend.counted(sent, 'frame')}\n")
            if words:
                told = (f"vaesend: {clip}: vae.frames is '{frames}', but "
                        f"{words}: all are sent\n") + told
            self.assertEqual(send("--space", "wan2.1", clip, "-")[1], told)

    def test_space(self):
        said = self.refused(self.file(safetensors()), self.path("x.gdp"))
        self.assertIn("expected --space, or --temporal and --fps", said)
        clip = self.file(safetensors({"vae.latent_space": "wan2.2",
                                      "vae.normalization": "normalized"}))
        said = send("--space", "wan2.1", "--normalization", "raw", clip, "-")[1]
        for words in ("latent-space wan2.2; latent-space wan2.1",
                      "normalization normalized; normalization raw"):
            self.assertIn(f"vaesend: warning: {clip} states {words} overrides it\n", said)
        self.file(safetensors({"vae.latent_space": "a\33[31m"}))
        self.assertIn("states latent-space a?[31m;", send("--space", "wan2.1", clip, "-")[1])

    def test_unknown_space(self):
        """The nearest known space is named, and what the error asks for works."""
        clip = self.file(safetensors())
        for space, said in (("wan21", "is not known here (the nearest is wan2.1): expected "
                             "--temporal and --fps"),
                            ("Wan 2.1", "letters, digits, and . - _ (the nearest is wan2.1)")):
            self.assertIn(said, self.refused("--space", space, clip, "-"))
        for options in (["--space=wan2.1"], ["--space=wan21", "--temporal=4", "--fps=16"]):
            send(*options, clip, "-")

    def test_open_recording(self):
        """Its complete latents are sent."""
        clip = self.file(safetensors(
            {"vae.recording": "open", "vae.latent_space": "wan2.1", "vae.layout": "tchw"},
            floats(192) + b"cut", shape=[0, 16, 2, 3], data_offsets=[0, 0]))
        sent, said = send(clip, "-")
        self.assertEqual(said, "vaesend: 2 latents, 5 frames\n")
        self.assertIn(floats(96, 96), sent)

    def test_picture(self):
        """What a file says of the picture travels in the caps, or its loss is told."""
        stated = {"vae.latent_space": "wan2.1", "vae.pixel_aspect_ratio": "8/9",
                  "vae.colorimetry": "bt2020-10", "vae.content_light_level": "1000:400"}
        for more, told in (({}, ""), (
                {"vae.tag.image-orientation": "rotate-90", "vae.tag.encoder": "x",
                 "vae.tag.preview-image": "eA==", "vae.chroma_site": "a, b=(int)1"},
                " has vae.chroma_site and the tags preview-image, which are ")):
            sent, said = send(self.file(safetensors({**stated, **more})), "-")
            found = packets(sent)
            self.assertEqual([kind for kind, *_ in found].count(vaesend.TAG), bool(more))
            self.assertIn(b"pixel-aspect-ratio=(fraction)8/9, "
                          b"colorimetry=(string)bt2020-10, "
                          b"content-light-level=(string)1000:400\0", found[1][1])
            self.assertIn(told, said)
            self.assertEqual(said.count("warning"), bool(told))

    def with_table(self, name, *rows, latents=1):
        """A file of latents of wan2.1 with a table of pairs of numbers."""
        return save(self.path("clip.safetensors"), {
            "latents": ("F32", [16, latents, 2, 3], floats(96 * latents)),
            name: ("U8", [len(rows), 16], b"".join(struct.pack("<qq", *row) for row in rows))
        }, {"vae.latent_space": "wan2.1"})

    def test_odd_times(self):
        self.assertIn("latent_times are no valid times",
                      send(self.with_table("latent_times"), "-")[1])

    def test_sequences(self):
        """Each sequence is sent as latentdemux plays it."""
        clip = self.with_table("latent_sequences", (0, 5), (2, 1), (3, 7), latents=6)
        stream, said = send(clip, "-")
        sent = [p for p in packets(stream) if p[0] == vaesend.BUFFER]
        self.assertEqual(["D" if p[5] & vaesend.DELTA_UNIT else "S" for p in sent],
                         list("SDSSDD"))
        frames = [0, 1, 5, 6, 7, 11, 13]
        self.assertEqual([p[2] for p in sent], [n * vaesend.SECOND // 16 for n in frames[:-1]])
        self.assertEqual([p[2] + p[3] for p in sent],
                         [n * vaesend.SECOND // 16 for n in frames[1:]])
        self.assertIn("6 latents, 13 frames", said)
        for rows, said in (([], "begin at latents [], expected"),
                           ([(1, 1)], "begin at latents [1], expected"),
                           ([(0, 5), (2, 1), (2, 1)], "begin at latents [0, 2, 2]"),
                           ([(0, 5), (3, 1)], "begin at latents [0, 3], expected numbers "
                            "that grow, from 0 to less than 3"),
                           ([(0, 1), (1, 9)], "state 9 frames of 2 latents, which are 5"),
                           ([(0, 1), (1, 1)], "state 1 frames of 2 latents, which are 5")):
            clip = self.with_table("latent_sequences", *rows, latents=3)
            self.assertIn(f"{clip}: latent_sequences {said}", self.refused(clip, "-"))


if __name__ == "__main__":
    streams.main()
