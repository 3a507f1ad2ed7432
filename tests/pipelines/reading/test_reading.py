"""Reads files of latents and frames as people have them, with vaetool and with the
elements.

usage: test_reading.py SOURCE BUILD [TEST...]
"""
import array
import json
import math
import os
import random
import struct
import subprocess
import sys
import unittest
import zipfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import streams
import tensor_files
from tensor_files import save

GOLDEN = os.path.join(streams.SOURCE, "tests", "golden", "data")
VAETOOL = os.path.join(streams.BUILD, "engine", "vaetool")
MARK = ("F32", [0], b"")


def golden(network, name):
    return os.path.join(GOLDEN, network, name + ".safetensors")


def load(path, name):
    """The shape and the numbers of a tensor of floats."""
    kind, shape, data = tensor_files.load(path)[0][name]
    if kind == "F16":
        return shape, array.array("f", struct.unpack(f"<{len(data) // 2}e", data))
    return shape, array.array("f", data)


def save_turned(path, shape):
    """A file of PyTorch with a list of two tensors of zeros, whose last axes are
    exchanged in memory."""
    def text(word):
        return b"X" + struct.pack("<I", len(word)) + word.encode()

    def numbers(*values):
        return b"".join(b"J" + struct.pack("<i", n) for n in values)

    count = math.prod(shape)
    strides = [math.prod(shape[i + 1:]) for i in range(len(shape))]
    strides[-2:] = 1, shape[-2]
    storage = (b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") +
               text("cpu") + numbers(count) + b"tQ")
    tensor = (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + numbers(0) +
              b"(" + numbers(*shape) + b"t(" + numbers(*strides) + b"t\x89" +
              b"ccollections\nOrderedDict\n)RtR")
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("archive/data.pkl", b"\x80\2](" + tensor + tensor + b"e.")
        out.writestr("archive/data/0", bytes(4 * count))
    return path


def psnr(a, b):
    squares = sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)
    return 10 * math.log10(4 / squares) if squares else math.inf


class Reading(streams.Streams):
    def tool(self, *arguments):
        return subprocess.run([VAETOOL, *arguments], capture_output=True,
                              text=True, check=False)

    def decode(self, network, latents, *options):
        """The frames of latents, and what vaetool says."""
        out = self.path("frames.safetensors")
        done = self.tool("decode", "--backend", "ref", "--model",
                         golden(network, "weights"), *options, latents, out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return load(out, "frames")[1], done.stderr

    def pixels(self, network, latents, *demux):
        """The frames that the elements make of latents, as bytes."""
        self.play(f"filesrc location={latents} ! latentdemux {' '.join(demux)} ! "
                  f"vaedecode backend=ref model={golden(network, 'weights')} ! "
                  f"video/x-raw,format=RGB ! "
                  f"filesink location={self.path('pixels')}")
        return self.read(self.path("pixels"))


# What ComfyUI divides latents of the diffusion model by before it saves them.
COMFYUI = (("seedvr2", "decode_t1_6x10", 1),
           ("ltx2_3", "decode_t1_3x5", 1),
           ("taehv/taehv", "decode_t2_2x2", 0.476986),
           ("taehv/taehv1_5", "decode_t2_1x2", 1.03682),
           ("taehv/taecvx", "decode_t3_2x2", 0.7),
           ("taehv/taeos1_3", "decode_t2_2x3", 1),
           ("taehv/taeh3", "decode_t7_1x1", 1),
           ("taehv/taeltx_2", "decode_t1_2x1", 1),
           ("taehv/taew2_1", "decode_t1_6x10", None),
           ("wan22", "decode_t1_5x7", None))


class ComfyUI(Reading):
    def saved(self, network, name, factor):
        """Latents as SaveLatent of ComfyUI writes them. factor None: the latents of
        Wan, with a mean and a deviation for each channel."""
        shape, numbers = load(golden(network, name), "latent")
        mean = std = None
        if factor is None:
            done = self.tool("info", "--json", golden(network, "weights"))
            model = json.loads(done.stdout)["model"]
            mean, std = model["mean"], model["std"]
            self.assertNotEqual(std[0], 1)
        plane = len(numbers) // shape[0]
        raw = array.array("f", (
            numbers[i] / factor if factor else
            numbers[i] * std[i // plane] + mean[i // plane]
            for i in range(len(numbers))))
        return save(self.path("clip.latent"),
                    {"latent_tensor": ("F32", [1] + shape, raw.tobytes()),
                     "latent_format_version_0": MARK}, {"prompt": "{}"})

    def test_vaetool(self):
        for network, name, factor in COMFYUI:
            with self.subTest(network=network):
                latents = self.saved(network, name, factor)
                got, _ = self.decode(network, latents)
                want = load(golden(network, name), "frames")[1]
                self.assertGreater(psnr(got, want), 60)

    def test_elements(self):
        for network, name, factor in COMFYUI[:3]:
            with self.subTest(network=network):
                latents = self.saved(network, name, factor)
                got = self.pixels(network, latents)
                want = self.pixels(network, golden(network, name))
                self.assertLessEqual(
                    max(abs(a - b) for a, b in zip(got, want)), 1)

    def test_user_knows_better(self):
        """The user's word counts more than the mark of ComfyUI."""
        shape, numbers = load(golden("taehv/taew2_1", "decode_t1_6x10"), "latent")
        latents = save(self.path("clip.latent"),
                       {"latent_tensor": ("F32", shape, numbers.tobytes()),
                        "latent_format_version_0": MARK})
        want = load(golden("taehv/taew2_1", "decode_t1_6x10"), "frames")[1]
        got, _ = self.decode("taehv/taew2_1", latents, "--normalization",
                             "normalized")
        self.assertGreater(psnr(got, want), 60)
        self.assertEqual(
            self.pixels("taehv/taew2_1", latents, "normalization=normalized"),
            self.pixels("taehv/taew2_1",
                        golden("taehv/taew2_1", "decode_t1_6x10")))

    def test_encode(self):
        """vaetool and the decoder agree on the numbers for ComfyUI."""
        latents = self.path("latents.safetensors")
        for words in ("normalized", "raw", "comfyui"):
            done = self.tool("encode", "--backend", "ref", "--normalization",
                             words, "--model", golden("seedvr2", "weights"),
                             golden("seedvr2", "encode_f1_48x80"), latents)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = self.tool("info", latents).stdout
            self.assertIn("raw" if words == "raw" else "normalized", said)
            self.assertNotIn("comfyui", said)


# Values of the frames, as a function of bytes; options; what vaetool must say, or
# None if it must say nothing.
RANGES = (
    (lambda v: v / 255, (), 'set pixel-range to "0 1"'),
    (lambda v: v / 255, ("--pixel-range", "0 1"), None),
    (float, (), 'set pixel-range to "0 255"'),
    (float, ("--pixel-range=0 255",), None),
    (lambda v: v / 127.5 - 1, (), None),
    (lambda v: v / 127.5 - 1, ("--pixel-range", "0 1"),
     'taken as 0 to 1, but are from -1 to 1: if black and white are "-1 1", set '
     'pixel-range to "-1 1"'),
    (float, ("--pixel-range", "0 1"), 'taken as 0 to 1, but are from 0 to 255: if'),
    (lambda v: v / 255, ("--pixel-range", "0 255"), "has only one colour"),
    (lambda v: 0.5, (), "has only one colour"),
)


class Doubts(Reading):
    def test_ranges(self):
        """Frames of 0..1 or 0..255 for a network of -1..1."""
        count, height, width = 5, 16, 24
        pixels = [(7 * x + 5 * y + 3 * t + 40 * c) % 256 for t in range(count)
                  for y in range(height) for x in range(width) for c in range(3)]
        results = {}
        for value, options, said in RANGES:
            frames = save(self.path("frames.safetensors"), {"frames": (
                "F32", [count, height, width, 3],
                array.array("f", map(value, pixels)).tobytes())})
            out = self.path("latents.safetensors")
            done = self.tool("encode", "--backend", "ref", "--model",
                             golden("wan21", "weights"), *options, frames, out)
            with self.subTest(said=said, options=options):
                self.assertEqual(done.returncode, 0, done.stderr)
                if said:
                    self.assertIn(said, done.stderr)
                    self.assertIn("warning: ", done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                else:
                    self.assertEqual(done.stderr, "")
                results.setdefault(tuple(load(out, "latent")[1]), []).append(
                    options)
        # All three readings of the same pixels give nearly the same latents.
        self.assertIn([RANGES[4][1]], results.values())

    def test_range_of_tiny_network(self):
        """Frames of -1..1 for a network of 0..1."""
        shape, pixels = [5, 16, 16, 3], range(5 * 16 * 16 * 3)
        frames = save(self.path("frames.safetensors"), {"frames": (
            "F32", shape,
            array.array("f", (v % 255 / 127.5 - 1 for v in pixels)).tobytes())})
        done = self.tool("encode", "--backend", "ref", "--model",
                         golden("taehv/taehv", "weights"), frames,
                         self.path("latents.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('set pixel-range to "-1 1"', done.stderr)
        # A ReLU may hide a NaN.
        save(frames, {"frames": ("F32", shape, array.array("f", (
            math.nan if v == 7 else 0.5 for v in pixels)).tobytes())})
        done = self.tool("encode", "--backend", "ref", "--model",
                         golden("taehv/taehv", "weights"), frames,
                         self.path("latents.safetensors"))
        self.assertIn("values of frame 0 are NaN", done.stderr)

    def test_scale_of_taecvx(self):
        """A stream says once that the scale of its latents is not known."""
        for network, times in (("taecvx", 1), ("taehv", 0)):
            name = "taehv/" + network
            at = {"taecvx": "decode_t3_2x2", "taehv": "decode_t2_2x2"}[network]
            _, said = self.decode(name, golden(name, at), "--slice", "1")
            self.assertEqual(said.count("if taecvx works on normalized"), times, said)

    def test_range_of_bytes(self):
        frames = save(self.path("frames.safetensors"),
                      {"video_u8": ("U8", [1, 16, 16, 3], bytes(range(256)) * 3)})
        done = self.tool("encode", "--backend", "ref", "--pixel-range", "0 1",
                         "--model", golden("wan21", "weights"), frames,
                         self.path("latents.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--pixel-range has no effect", done.stderr)

    def test_constant(self):
        zeros = save(self.path("zeros.safetensors"),
                     {"latent": ("F32", [16, 2, 4, 4], bytes(4 * 16 * 2 * 16))})
        _, said = self.decode("wan21", zeros)
        self.assertIn("first 2 latents has only one number", said)
        signs = save(self.path("signs.safetensors"),
                     {"latent": ("F32", [16, 1, 4, 4], bytes(4 * 128) +
                                 struct.pack("<f", -0.0) * 128)})
        _, said = self.decode("wan21", signs)
        self.assertIn("the first latent has only one number", said)
        for constant, said_of in (((0,), 0), ((2,), 2), ((1, 2), 1), ((), None)):
            numbers = [0 if i // 16 % 4 in constant else i % 7 / 7 for i in range(16 * 64)]
            said = self.doubt([16, 4, 4, 4], numbers)
            self.assertEqual(said.count("has only one number"), said_of is not None, said)
            self.assertEqual(f"latent {said_of} has only one number" in said,
                             said_of is not None, said)

    def test_constant_frames(self):
        """The copies that fill the last group do not count."""
        model = os.path.join(streams.SOURCE, "pipelines", "demo", "demo.safetensors")
        for count in (2, 4, 6):
            words = f"each of the first {count} frames has only one colour"
            for kind, size in (("U8", 1), ("F32", 4)):
                frames = save(self.path("frames.safetensors"), {"frames": (
                    kind, [count, 16, 16, 3], bytes(count * 768 * size))})
                done = self.tool("encode", "--model", model, frames,
                                 self.path("latents.safetensors"))
                self.assertIn(words, done.stderr)
            done = subprocess.run(
                ["gst-launch-1.0", *f"videotestsrc pattern=black num-buffers={count} ! "
                 "video/x-raw,width=16,height=16,framerate=16/1 ! "
                 f"vaeencode model={model} ! fakesink".split()],
                capture_output=True, text=True, check=False)
            self.assertIn(words, done.stderr + done.stdout)

    def test_normalization(self):
        """Latents of the spread that the diffusion model gives."""
        numbers = random.Random(5)
        shape = [16, 3, 8, 8]
        data = array.array("f", (numbers.gauss(0, 0.8)
                                 for _ in range(math.prod(shape)))).tobytes()
        latents = save(self.path("clip.safetensors"),
                       {"latent": ("F32", shape, data)})
        for word, doubted in (("normalized", False), ("raw", True)):
            _, said = self.decode("wan21", latents, "--normalization", word)
            self.assertEqual("set normalization to normalized" in said, doubted,
                             said)
            self.assertEqual("are taken as raw" in said, doubted, said)
            stating = save(self.path("stating.safetensors"),
                           {"latent": ("F32", shape, data)},
                           {"vae.normalization": word})
            _, said = self.decode("wan21", stating)
            self.assertEqual("the file states that the latents are raw" in said,
                             doubted, said)

    def played(self, source, demux, decoder=""):
        """What the elements say of latents of wan2.1."""
        done = subprocess.run(
            ["gst-launch-1.0", *f"{source} ! {demux} ! vaedecode backend=ref {decoder} "
             f"model={golden('wan21', 'weights')} ! fakesink".split()],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr + done.stdout

    def test_same_sentence(self):
        """vaetool and vaedecode say the same of a file, each with its own setting, which
        is accepted."""
        numbers, shape = random.Random(5), [16, 3, 8, 8]
        data = array.array("f", (numbers.gauss(0, 0.8)
                                 for _ in range(math.prod(shape)))).tobytes()
        latents = self.path("clip.safetensors")
        read = "filesrc location=" + latents
        for stated, option in (("raw", ()), (None, ("--normalization", "raw"))):
            save(latents, {"latent": ("F32", shape, data)},
                 {"vae.normalization": stated} if stated else {})
            tool = self.decode("wan21", latents, *option)[1]
            words = tool.split('tensor "latent": ')[1].strip()
            self.assertIn("the file states that" if stated else "are taken as", words)
            words = words.replace("set normalization", "set normalization of vaedecode")
            for prop in (("", "normalization=raw") if stated else ("normalization=raw",)):
                self.assertIn(f"{latents}: {words}", self.played(read, "latentdemux " + prop))
            said = self.played(read, "latentdemux", "normalization=normalized")
            self.assertNotIn("statistics", said)
        done = subprocess.run(
            [os.path.join(streams.PIPELINES, "latents-to-video.sh"), "--model",
             golden("wan21", "weights"), "--latent-space", "wan2.1", "--normalization=raw",
             latents, self.path("video.y4m")], capture_output=True, text=True, check=False)
        self.assertIn("set it by the option --normalization", done.stderr)
        # Latents that no file states have caps.
        sent = self.path("clip.gdp")
        subprocess.run(["gst-launch-1.0", "-q", *f"{read} ! latentdemux normalization=raw "
                        f"! gdppay ! filesink location={sent}".split()], check=True)
        said = self.played("filesrc location=" + sent, "gdpdepay")
        self.assertIn("the caps state that the latents are raw", said)

    def test_no_statistics(self):
        """Only the full VAEs of some spaces have statistics."""
        for network, latents, doubted in (
                ("taehv/taeltx_2", "decode_t1_2x1", True), ("ltx2_3", "decode_t1_3x5", False),
                ("taehv/taeos1_3", "decode_t2_2x3", False)):
            for word in ("raw", "normalized"):
                said = self.decode(network, golden(network, latents), "--normalization",
                                   word)[1]
                self.assertEqual("normalization raw changes nothing: only the weights of a "
                                 "full VAE of ltx2" in said, doubted and word == "raw", said)

    def test_spread(self):
        """A single picture, and numbers that are too large."""
        numbers = random.Random(5)
        for network, shape, spread, mark, said in (
                ("qwenimage21", [64, 1, 4, 4], None, (), "set normalization to raw"),
                ("qwenimage21", [64, 1, 4, 4], None, ("--normalization=raw",), None),
                ("qwenimage21", [64, 1, 4, 4], 0.8, (), None),
                ("qwenimage21", [64, 1, 4, 4], 0.8, ("--normalization=raw",),
                 "set normalization to normalized"),
                ("hunyuan15", [4, 1, 12, 12], 2.7, (), "times the spread that normalized"),
                ("hunyuan15", [4, 1, 8, 8], 2.7, (), None),
                ("hunyuan15", [4, 1, 8, 8], 5.5, (), "times the spread that normalized")):
            mean, std = [0] * shape[0], [spread] * shape[0]
            if spread is None:
                model = json.loads(self.tool(
                    "info", "--json", golden(network, "weights")).stdout)["model"]
                mean, std = model["mean"], model["std"]
            latents = save(self.path("clip.safetensors"), {"latent": (
                "F32", shape, array.array("f", (
                    numbers.gauss(mean[c], std[c]) for c in range(shape[0])
                    for _ in range(math.prod(shape[1:])))).tobytes())})
            words = self.decode(network, latents, *mark)[1]
            if said:
                self.assertIn(said, words)
            self.assertEqual("the latents " in words, said is not None, words)

    def doubt(self, shape, numbers, *options):
        """What vaetool says of latents of wan2.1 that file states nothing of."""
        latents = save(self.path("clip.safetensors"), {
            "latent": ("F32", shape, array.array("f", numbers).tobytes())})
        return self.decode("wan21", latents, *options)[1]

    def test_one_latent(self):
        """One latent has numbers enough."""
        numbers = random.Random(7)
        model = json.loads(self.tool("info", "--json", golden("wan21", "weights")).stdout)
        mean, std = model["model"]["mean"], model["model"]["std"]
        shape, n = [16, 1, 8, 8], 64
        normalized = [numbers.gauss(0, 0.8) for _ in range(16 * n)]
        raw = [v * std[i // n] + mean[i // n] for i, v in enumerate(normalized)]
        for values, word, other in ((normalized, "normalized", "raw"),
                                    (raw, "raw", "normalized")):
            said = self.doubt(shape, values, "--normalization", word)
            self.assertNotIn("normalization", said)
            said = self.doubt(shape, values, "--normalization", other)
            self.assertIn(f"clip.safetensors: tensor \"latent\": the latents are taken as "
                          f"{other}", said)
            self.assertIn(f"set normalization to {word}", said)

    def test_small_spread(self):
        """Latents that were scaled twice; a flat picture has as small numbers."""
        numbers = random.Random(8)
        for factor, doubted in ((1, False), (0.18215, True), (0.1, True)):
            said = self.doubt([16, 2, 8, 8], [factor * numbers.gauss(0, 0.9)
                                              for _ in range(16 * 2 * 64)])
            self.assertEqual("times the spread that normalized" in said, doubted, said)
        said = self.doubt([16, 2, 8, 8], [(-1) ** (i // 128) * 0.15 + numbers.gauss(0, 0.03)
                                          for i in range(16 * 2 * 64)])
        self.assertEqual(said, "")

    def test_axes(self):
        """An array of as many latents or columns as channels may be read in another
        way."""
        numbers = random.Random(9)
        means = [numbers.gauss(0, 0.6) for _ in range(16)]

        def made(shape, axis):
            inner = math.prod(shape[axis + 1:])
            return [means[i // inner % 16] + numbers.gauss(0, 0.7)
                    for i in range(math.prod(shape))]
        order = "16 latents of 16 channels, is a guess: set layout to cthw or tchw"
        for shape, axis, said in (
                ([1, 16, 16, 2, 2], 1, f"16x16x2x2: no layout is stated; cthw, {order}; "
                 "the means along the axes speak for cthw"),
                ([1, 16, 16, 2, 2], 2, f"cthw, {order}; the means along the axes speak for "
                 "tchw"),
                ([16, 16, 2, 2], 1, f"cthw, {order}; the means along the axes speak for tchw"),
                ([2, 16, 2, 16], 1, None), ([16, 2, 2, 16], 0, None),
                ([2, 16, 2, 16], 3, "tchw, 2 latents of 16 channels, is a guess; the last "
                 "dimension is also 16, and the means along it differ more"),
                ([1, 16, 2, 2, 16], 4, "cthw, 2 latents of 16 channels, is a guess; the last")):
            values = made(shape, axis)
            with self.subTest(shape=shape, axis=axis):
                found = self.doubt(shape, values)
                if said:
                    self.assertIn(said, found)
                else:
                    self.assertNotIn("guess", found)
                for layout in (("cthw", "tchw") if shape[-4] == shape[-3] == 16 else
                               ("tchw",) if shape[-3] == 16 else ("cthw",)):
                    self.assertNotIn("guess", self.doubt(shape, values, "--layout", layout))
                if said and shape[0] != 16:
                    self.elements_say(said)

    def test_images_or_video(self):
        """As many images as a space of videos has channels."""
        numbers = random.Random(10)
        shape = [16, 64, 2, 2]
        for axis, doubted in ((0, True), (1, False)):
            means = [numbers.gauss(0, 0.6) for _ in range(shape[axis])]
            inner = math.prod(shape[axis + 1:])
            latents = save(self.path("clip.safetensors"), {"latent": (
                "F32", shape, array.array("f", (
                    means[i // inner % shape[axis]] + numbers.gauss(0, 0.7)
                    for i in range(math.prod(shape)))).tobytes())})
            said = self.decode("qwenimage21", latents, "--verbose")[1]
            self.assertIn('"latent" is read as tchw: 16 latents of 64 channels', said)
            self.assertEqual("speak for a video, cthw, 64 latents of 16 channels" in said,
                             doubted, said)
            said = self.decode("qwenimage21", latents, "--layout=tchw")[1]
            self.assertNotIn("video", said)

    def elements_say(self, said, demux="latentdemux", decode=None):
        """Returns what they say."""
        decode = decode or f"vaedecode backend=ref model={golden('wan21', 'weights')}"
        words = f"filesrc location={self.path('clip.safetensors')} ! {demux} ! {decode} ! fakesink"
        process = streams.launch(words, quiet=False)
        with self.assertRaises(AssertionError):
            streams.wait_for(lambda: False, process)  # until an error or the end
        text = streams.ended(process)[1]
        self.assertIn(said, text)
        return text

    def test_other_axes(self):
        """vaedecode advises only what fits the file, also if it finds the model only by
        the caps, after latentdemux has chosen an order."""
        by_caps = ("latentdemux latent-space=gst-vae-demo layout=", "vaedecode backend=ref")
        for shape, layout, said in (
                ([3, 4, 8, 8], "auto", None), ([3, 4, 16, 8], "auto", None),
                ([3, 8, 8, 16], "cthw", "; the last dimension has 16: permute the"),
                ([1, 5, 16, 4, 4], "cthw", "; the other dimension has 16: set layout to tchw"),
                ([16, 5, 4, 16], "tchw", "; the other dimension has 16: set layout to cthw, "
                 "or, if the last")):
            save(self.path("clip.safetensors"), {
                "latents": ("F32", shape, bytes(4 * math.prod(shape)))})
            with self.subTest(shape=shape):
                self.elements_say(" expects 16" + (said or "\n"), by_caps[0] + layout,
                                  by_caps[1])
                if said is None:
                    text = self.elements_say(" expects 16\n")
                    text += subprocess.run(
                        [os.path.join(streams.PIPELINES, "latents-to-video.sh"), "--model",
                         golden("wan21", "weights"), self.path("clip.safetensors"),
                         self.path("x.y4m")], capture_output=True, text=True,
                        check=False).stderr
                    self.assertNotRegex(text, "layout=|--layout|layout to|dimension")

    def test_orders(self):
        """An error says which other order would fit."""
        for shape, said in (([1, 5, 16, 4, 4], "has 16: set layout to tchw"),
                            ([1, 24, 16, 4, 4], "has 16: set layout to tchw"),
                            ([1, 5, 4, 4, 16], "has 16: permute the"),
                            ([5, 4, 4, 16], "has 16: permute the"),
                            ([5, 4, 4, 7], None), ([1, 5, 5, 4, 4], None)):
            count = math.prod(shape)
            latents = save(self.path("clip.safetensors"),
                           {"latents": ("F32", shape, bytes(4 * count))})
            done = self.tool("decode", "--model", golden("wan21", "weights"),
                             latents, self.path("frames.safetensors"))
            self.assertEqual(done.returncode, 3)
            if said:
                self.assertIn(said, done.stderr)
            if said and "layout" in said:
                done = self.tool("decode", "--backend", "ref", "--model",
                                 golden("wan21", "weights"), "--layout", "tchw",
                                 latents, self.path("frames.safetensors"))
                self.assertEqual(done.returncode, 0, done.stderr)
            else:
                self.assertNotIn("set layout", done.stderr)
            if said:
                self.elements_say(said)
        frames = save(self.path("frames.safetensors"),
                      {"frames": ("F32", [2, 3, 16, 16], bytes(4 * 1536))})
        done = self.tool("encode", "--model", golden("wan21", "weights"), frames,
                         self.path("latents.safetensors"))
        self.assertIn("by moveaxis(x, 1, -1) of numpy or torch", done.stderr)

    def test_not_contiguous(self):
        """All commands say the same of tensors in a list that are not contiguous."""
        weights = golden("wan21", "weights")
        video = save_turned(self.path("video.pt"), [1, 16, 16, 3])
        latents = save_turned(self.path("latents.pt"), [16, 1, 4, 6])
        said = "is not contiguous (save it after .contiguous()), expected contiguous"
        for path, words in ((video, ["encode", "--model", weights]),
                            (latents, ["decode", "--model", weights]),
                            (video, ["compare", video])):
            done = self.tool(*words, "--tensor", "0", path, *(
                [self.path("x.safetensors")] if "--model" in words else []))
            self.assertEqual(done.returncode, 3)
            self.assertIn(f'{path}: tensor "0" (', done.stderr)
            self.assertIn(said, done.stderr)
        listed = self.tool("info", "--tensors", video).stdout
        self.assertIn("F32   1x16x16x3 (not contiguous)", listed)
        listed = json.loads(self.tool("info", "--json", "--tensors", video).stdout)
        self.assertFalse(listed["tensors"][0]["contiguous"])

    def test_list_of_frames(self):
        for shape, said in (([16, 16, 3], "by stack(list) of torch"),
                            ([1, 16, 16, 3], "by cat(list) of torch"),
                            ([1, 4, 4, 48], None)):
            frames = save(self.path("frames.safetensors"), {
                name: ("U8", shape, bytes(768)) for name in "01"})
            done = self.tool("encode", "--model", golden("wan21", "weights"), frames,
                             self.path("latents.safetensors"))
            self.assertIn(f'; found "0" {"x".join(map(str, shape))}, "1" ', done.stderr)
            self.assertIn(said or "found", done.stderr)
            self.assertEqual("save them" in done.stderr, said is not None)


class Rates(Reading):
    def test_assumed_rate(self):
        """A rate that latentdemux assumes is no statement of a file that latentmux
        writes."""
        demo = os.path.join(streams.PIPELINES, "demo", "demo.safetensors")
        latents = save(self.path("clip.safetensors"), {"latent": (
            "F32", [16, 3, 2, 2], bytes(4 * 16 * 3 * 4))})
        out = self.path("out.safetensors")
        code = f"vaedecode model={demo} ! vaeencode model={demo}"
        for between, said in (("latentdemux", None), ("latentdemux ! queue", None),
                              ("latentdemux framerate=5/1", "5/1"),
                              ("latentdemux ! gdppay ! gdpdepay", None),
                              ("latentdemux framerate=5/1 ! gdppay ! gdpdepay", "5/1"),
                              (f"latentdemux latent-space=gst-vae-demo ! {code}", "16/1")):
            if "gdp" in between and not streams.has("gdppay", "gdpdepay"):
                continue
            self.play(f"filesrc location={latents} ! {between} ! latentmux ! "
                      f"filesink location={out}")
            with self.subTest(between=between):
                self.assertEqual(tensor_files.load(out)[1].get("vae.framerate"), said)
        if not streams.has("gdpdepay"):
            return
        sent = self.path("stream.gdp")
        for options, said in (([], None), (["--framerate", "5"], "5/1")):
            subprocess.run([streams.VAESEND, "--latent-space", "wan2.1", *options, latents,
                            sent], capture_output=True, check=True)
            self.play(f"filesrc location={sent} ! gdpdepay ! latentmux ! "
                      f"filesink location={out}")
            os.remove(sent)
            with self.subTest(options=options):
                self.assertEqual(tensor_files.load(out)[1].get("vae.framerate"), said)

    @unittest.skipUnless(streams.has("gdpdepay"), "no gdpdepay")
    def test_sent_guesses(self):
        """What vaesend guesses is no statement of a file that latentmux writes."""
        latents, sent, out = (self.path(name) for name in ("clip.safetensors", "stream.gdp",
                                                           "out.safetensors"))
        save(latents, {"latent": ("F32", [16, 16, 2, 2], bytes(4 * 16 * 16 * 4))})
        for options, stated in (([], (None, None)), (
                ["--layout", "cthw", "--normalization", "raw"], ("raw", "tchw"))):
            subprocess.run([streams.VAESEND, "--latent-space", "wan2.1", *options, latents,
                            sent], capture_output=True, check=True)
            self.play(f"filesrc location={sent} ! gdpdepay ! latentmux ! "
                      f"filesink location={out}")
            os.remove(sent)
            facts = tensor_files.load(out)[1]
            self.assertEqual((facts.get("vae.normalization"), facts.get("vae.layout")), stated)


OPTIONS = ("tensor", "layout", "batch-index", "framerate", "normalization",
           "latent-space", "variant", "tile-plan", "seed")
# Options that a program, or all of a folder, lack.
LACKS = {"vaesend": ("variant", "tile-plan", "seed"), "cluster": ("tile-plan", "seed")}
READERS = ([VAETOOL, "decode"], ["pipelines/latents-to-video.sh"],
           ["pipelines/live-preview.sh"], ["pipelines/preview-and-record.sh"],
           ["pipelines/compare-live.sh"], ["pipelines/live/live.py"],
           ["pipelines/vaesend.py"], ["pipelines/cluster/decode.py"],
           ["pipelines/cluster/segments.py"])


class Options(Reading):
    def test_live_tells_options(self):
        """As latents-to-video.sh, also for a property of another element."""
        said = subprocess.run(
            [sys.executable, "-c", "import live; live.tell('set normalization of vaedecode to raw')"],
            cwd=os.path.join(streams.PIPELINES, "live"), capture_output=True, text=True,
            check=True).stderr
        self.assertIn("live.py: set it by the option --normalization; see --help", said)

    def test_all_readers(self):
        for reader in READERS:
            done = subprocess.run([os.path.join(streams.SOURCE, reader[0]),
                                   *reader[1:], "--help"], capture_output=True,
                                  text=True, check=True)
            lacks = [option for part, options in LACKS.items() if part in reader[0]
                     for option in options]
            for option in set(OPTIONS).difference(lacks):
                with self.subTest(reader=reader, option=option):
                    self.assertIn("--" + option, done.stdout)
            self.assertIn("auto (default): as", " ".join(done.stdout.split()))

    def batch(self):
        """The second clip of a batch, in another order, and the clip alone."""
        numbers = random.Random(9)
        shape = [2, 3, 16, 6, 8]
        data = array.array("f", (numbers.gauss(0, 0.8)
                                 for _ in range(math.prod(shape)))).tobytes()
        half = len(data) // 2
        both = save(self.path("both.safetensors"), {
            "other": ("F32", [2, 16, 3, 4, 4], bytes(4 * 2 * 16 * 3 * 16)),
            "x": ("F32", shape, data)})
        alone = save(self.path("alone.safetensors"),
                     {"x": ("F32", shape[1:], data[half:])},
                     {"vae.layout": "tchw", "vae.latent_space": "gst-vae-demo",
                      "vae.framerate": "5/1", "vae.normalization": "raw"})
        return both, alone, ["--tensor", "x", "--layout", "tchw", "--batch-index",
                             "1", "--framerate", "5/1", "--normalization", "raw",
                             "--latent-space", "gst-vae-demo"]

    def test_vaetool(self):
        both, alone, options = self.batch()
        demo = os.path.join(streams.PIPELINES, "demo", "demo.safetensors")
        results = []
        for latents, words in ((both, options), (alone, [])):
            out = self.path("frames.safetensors")
            done = self.tool("decode", "--model", demo, *words, latents, out)
            self.assertEqual(done.returncode, 0, done.stderr)
            results.append(self.read(out))
        self.assertEqual(*results)
        said = self.tool("info", *options, both).stdout
        for words in ("3 latents of 16 channels, 8x6", "5/1 frames", "raw",
                      "gst-vae-demo"):
            self.assertIn(words, said)
        done = self.tool("decode", "--model", demo, *options[:-1], "wan2.1", both,
                         self.path("frames.safetensors"))
        self.assertIn("wan2.1", done.stderr)
        self.assertEqual(done.returncode, 3)

    def test_script(self):
        both, alone, options = self.batch()
        results = []
        for latents, words in ((both, options), (alone, [])):
            out = self.path("video.y4m")
            done = subprocess.run(
                [os.path.join(streams.PIPELINES, "latents-to-video.sh"), *words,
                 latents, out], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            results.append(self.read(out))
        self.assertEqual(*results)

    def test_other_pictures(self):
        """A script passes on the options that choose between pictures."""
        for network, latents, words in (
                ("hunyuan10", "decode_t18_1x2_official_tiles",
                 ["--tile-plan", "official"]),
                ("ltx2_5_diff", "decode_t1_3x5", ["--seed", "1"])):
            results = []
            for more in ([], words):
                out = self.path("video.y4m")
                done = subprocess.run(
                    [os.path.join(streams.PIPELINES, "latents-to-video.sh"), *more,
                     "--model", golden(network, "weights"), golden(network, latents),
                     out], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                results.append(self.read(out))
            with self.subTest(network=network):
                self.assertEqual(*map(len, results))
                self.assertNotEqual(*results)

    def test_advice(self):
        """A script says which of its options is meant."""
        both, _, options = self.batch()
        tensor, layout, batch = (options[i:i + 2] for i in (0, 2, 4))
        for words, said in ((layout + batch, "tensor"),
                            (tensor + layout, "batch-index"),
                            (tensor + batch, "layout")):
            done = subprocess.run(
                [os.path.join(streams.PIPELINES, "latents-to-video.sh"),
                 *words, "--latent-space=gst-vae-demo", both,
                 self.path("video.y4m")], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"latents-to-video.sh: set it by the option --{said}; see",
                          done.stderr)

    def test_sender(self):
        both, alone, options = self.batch()
        results = []
        for latents, words in ((both, options), (alone, [])):
            out = self.path(f"stream{len(results)}.gdp")
            done = subprocess.run([streams.VAESEND, *words, latents, out],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            # The first packet has a random name of the stream.
            results.append(self.read(out)[300:])
        self.assertEqual(*results)


if __name__ == "__main__":
    streams.main("vaedecode", "latentdemux")
