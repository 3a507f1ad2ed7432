"""The numbers of latents: how they are normalized, and doubts about their spread.

usage: test_normalization.py SOURCE BUILD [TEST...]
"""
import math
import random
import struct
import subprocess

from readers import COMFYUI_MARK, Reading, golden, load, noise, run, statistics, streams


def psnr(a, b):
    squares = sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)
    return 10 * math.log10(4 / squares) if squares else math.inf


# What ComfyUI divides latents of the diffusion model by before it saves them. None: Wan
# has a mean and a deviation for each channel.
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
    def pixels(self, network, latents, *demux):
        """The frames that the elements make of latents, as bytes."""
        self.play(f"filesrc location={latents} ! latentdemux {' '.join(demux)} ! "
                  f"vaedecode backend=ref model={golden(network)} ! video/x-raw,format=RGB ! "
                  f"filesink location={self.path('pixels')}")
        return self.read(self.path("pixels"))

    def saved(self, shape, numbers):
        """Latents as SaveLatent of ComfyUI writes them."""
        return self.clip(shape, numbers, {"prompt": "{}"}, name="latent_tensor",
                         **COMFYUI_MARK)

    def divided(self, network, name, factor):
        shape, numbers = load(golden(network, name), "latent")
        mean, std = [0] * shape[0], [1 / (factor or 1)] * shape[0]
        if factor is None:
            mean, std = statistics(network)
            self.assertNotEqual(std[0], 1)
        plane = len(numbers) // shape[0]
        return self.saved([1] + shape, [v * std[i // plane] + mean[i // plane]
                                        for i, v in enumerate(numbers)])

    def test_vaetool(self):
        for network, name, factor in COMFYUI:
            with self.subTest(network=network):
                got, _ = self.decode(network, self.divided(network, name, factor))
                want = load(golden(network, name), "frames")[1]
                self.assertGreater(psnr(got, want), 60)

    def test_elements(self):
        for network, name, factor in COMFYUI[:3]:
            with self.subTest(network=network):
                got = self.pixels(network, self.divided(network, name, factor))
                want = self.pixels(network, golden(network, name))
                self.assertLessEqual(
                    max(abs(a - b) for a, b in zip(got, want)), 1)

    def test_user_knows_better(self):
        """The user's word counts more than the mark of ComfyUI."""
        network, right = "taehv/taew2_1", golden("taehv/taew2_1", "decode_t1_6x10")
        latents = self.saved(*load(right, "latent"))
        got, _ = self.decode(network, latents, "--normalization", "normalized")
        self.assertGreater(psnr(got, load(right, "frames")[1]), 60)
        self.assertEqual(self.pixels(network, latents, "normalization=normalized"),
                         self.pixels(network, right))

    def test_encode(self):
        """vaetool and the decoder agree on the numbers for ComfyUI."""
        for words in ("normalized", "raw", "comfyui"):
            self.encode("seedvr2", golden("seedvr2", "encode_f1_48x80"),
                        "--normalization", words)
            said = self.tool("info", self.path("latents.safetensors")).stdout
            self.assertIn("raw" if words == "raw" else "normalized", said)
            self.assertNotIn("comfyui", said)


class Doubts(Reading):
    def doubt(self, shape, numbers, *options, network="wan21", **stated):
        """What vaetool says of a clip of latents."""
        return self.decode(network, self.clip(shape, numbers, {
            f"vae.{name}": value for name, value in stated.items()}), *options)[1]

    def test_scale_of_taecvx(self):
        """A stream says once that the scale of its latents is not known."""
        for network, name, times in (("taecvx", "decode_t3_2x2", 1),
                                     ("taehv", "decode_t2_2x2", 0)):
            network = "taehv/" + network
            _, said = self.decode(network, golden(network, name), "--slice", "1")
            self.assertEqual(said.count("if taecvx works on normalized"), times, said)

    def test_constant(self):
        said = self.doubt([16, 2, 4, 4], None)
        self.assertIn("first 2 latents has only one number", said)
        said = self.doubt([16, 1, 4, 4], bytes(4 * 128) + struct.pack("<f", -0.0) * 128)
        self.assertIn("the first latent has only one number", said)
        for constant, said_of in (((0,), 0), ((2,), 2), ((1, 2), 1), ((), None)):
            numbers = [0 if i // 16 % 4 in constant else i % 7 / 7 for i in range(16 * 64)]
            said = self.doubt([16, 4, 4, 4], numbers)
            self.assertEqual(said.count("has only one number"), said_of is not None, said)
            self.assertEqual(f"latent {said_of} has only one number" in said,
                             said_of is not None, said)

    def test_normalization(self):
        """Latents of the spread that the diffusion model gives."""
        shape = [16, 3, 8, 8]
        numbers = noise(5, shape)
        for word, doubted in (("normalized", False), ("raw", True)):
            said = self.doubt(shape, numbers, "--normalization", word)
            self.assertEqual("set normalization to normalized" in said, doubted,
                             said)
            self.assertEqual("are taken as raw" in said, doubted, said)
            said = self.doubt(shape, numbers, normalization=word)
            self.assertEqual("the file states that the latents are raw" in said,
                             doubted, said)

    def played(self, source, demux, decoder=""):
        """What the elements say of latents of wan2.1."""
        done = self.good(run("gst-launch-1.0", *f"{source} ! {demux} ! vaedecode backend=ref "
                             f"{decoder} model={golden('wan21')} ! fakesink".split()))
        return done.stderr + done.stdout

    def test_same_sentence(self):
        """vaetool and vaedecode say the same of a file, each with its own setting, which
        is accepted."""
        shape = [16, 3, 8, 8]
        latents = self.path("clip.safetensors")
        read = "filesrc location=" + latents
        for stated, option in (({"normalization": "raw"}, ()),
                               ({}, ("--normalization", "raw"))):
            tool = self.doubt(shape, noise(5, shape), *option, **stated)
            words = tool.split('tensor "latent": ')[1].strip()
            self.assertIn("the file states that" if stated else "are taken as", words)
            words = words.replace("set normalization", "set normalization of vaedecode")
            for prop in (("", "normalization=raw") if stated else ("normalization=raw",)):
                self.assertIn(f"{latents}: {words}", self.played(read, "latentdemux " + prop))
            said = self.played(read, "latentdemux", "normalization=normalized")
            self.assertNotIn("statistics", said)
        done = self.script("--model", golden("wan21"), "--latent-space", "wan2.1",
                           "--normalization=raw", latents)
        self.assertIn("set it by the option --normalization", done.stderr)
        # Latents that no file states have caps.
        sent = self.path("clip.gdp")
        subprocess.run(["gst-launch-1.0", "-q", *f"{read} ! latentdemux normalization=raw "
                        f"! gdppay ! filesink location={sent}".split()], check=True)
        said = self.played("filesrc location=" + sent, "gdpdepay")
        self.assertIn("the caps state that the latents are raw", said)

    def test_not_stated(self):
        """A notice says that normalized is assumed, whatever tells the space."""
        shape = [16, 3, 8, 8]
        for stated, option, told in (
                ({}, (), True), ({"latent_space": "wan2.1"}, (), True),
                ({}, ("--latent-space=wan2.1",), True),
                ({}, ("--normalization=normalized",), False),
                ({"normalization": "normalized"}, (), False)):
            said = self.doubt(shape, noise(5, shape), *option, **stated)
            self.assertEqual(said, f"vaetool: {self.path('clip.safetensors')} states no "
                             "normalization: the latents are taken as normalized, unless "
                             "normalization is set\n" if told else "")

    def test_no_statistics(self):
        """A network refuses raw latents if only the full VAE of its space has their
        statistics."""
        for network, latents, space in (
                ("taehv/taeltx_2", "decode_t1_2x1", "ltx2"), ("taef2", "decode_t1_3x5", "flux2"),
                ("ltx2_3", "decode_t1_3x5", None), ("taehv/taeos1_3", "decode_t2_2x3", None)):
            latents, out = golden(network, latents), self.path("out.safetensors")
            model = "--backend", "ref", "--model", golden(network)
            self.decode(network, latents)
            done = self.tool("decode", *model, "--normalization=raw", latents, out)
            self.assertEqual(done.returncode, 3 if space else 0, done.stderr)
            if space:
                self.assertIn("normalization is raw, expected normalized: only the weights of "
                              f"a full VAE of {space}", done.stderr)

    def test_raw_of_taef2(self):
        """Nothing calls latents raw which are not."""
        frames, out = golden("taef2", "encode_f1_48x80"), self.path("out.safetensors")
        refused = "normalization is raw, expected normalized: only the weights of a full VAE"
        self.encode("taef2", frames)
        done = self.tool("encode", "--backend=ref", "--model", golden("taef2"),
                         "--normalization=raw", frames, out)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(refused, done.stderr)
        done = run("gst-launch-1.0", *"videotestsrc num-buffers=1 ! video/x-raw,width=64,"
                   f"height=64 ! vaeencode backend=ref model={golden('taef2')} ! "
                   "video/x-vae-latent,normalization=raw ! latentmux ! "
                   f"filesink location={out}".split())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(refused, done.stderr)

    def test_spread(self):
        """A single picture, and numbers that are too large."""
        numbers = random.Random(5)
        for network, shape, spread, mark, said in (
                ("qwenimage21", [64, 1, 4, 4], None, (), "set normalization to raw"),
                ("qwenimage21", [64, 1, 4, 4], None, ("--normalization=raw",), None),
                ("qwenimage21", [64, 1, 4, 4], 0.8, (), None),
                ("qwenimage21", [64, 1, 4, 4], 0.8, ("--normalization=raw",),
                 "set normalization to normalized"),
                ("hunyuan15", [4, 1, 12, 12], 3.6, (), None),
                ("hunyuan15", [4, 1, 12, 12], 5.5, (), "times the spread that normalized"),
                ("hunyuan15", [4, 1, 8, 8], 2.7, (), None),
                ("hunyuan15", [4, 1, 8, 8], 5.5, (), "times the spread that normalized")):
            mean, std = ([0] * shape[0], [spread] * shape[0]) if spread else \
                statistics(network)
            words = self.doubt(shape, [
                numbers.gauss(mean[c], std[c]) for c in range(shape[0])
                for _ in range(math.prod(shape[1:]))], *mark, network=network,
                **({} if mark else {"normalization": "normalized"}))
            if said:
                self.assertIn(said, words)
            self.assertEqual("the latents " in words, said is not None, words)

    def test_one_scale(self):
        """Where all channels have one scale, only spreads far from 1 tell; means of 0
        tell nothing."""
        shape, std = [4, 2, 12, 12], statistics("hunyuan10")[1][0]
        for word, spread, other in (
                ("raw", 0.3, None), ("raw", 0.5, None), ("raw", 1, None),
                ("normalized", 0.3, None), ("normalized", 1, None),
                ("normalized", 2.8, "raw"), ("raw", 0.2, "normalized")):
            half = noise(9, [4, 2, 6, 12], spread * (std if word == "raw" else 1))
            said = self.doubt(shape, [sign * v for v in half for sign in (1, -1)],
                              "--normalization", word, network="hunyuan10")
            words = f"they look {other}: if they are, set normalization to {other}"
            with self.subTest(word=word, spread=spread):
                self.assertIn(words if other else "", said)
                self.assertEqual("the latents" in said, other is not None, said)

    def test_pattern(self):
        """Means and deviations of many channels tell, whatever the spread is."""
        for network, channels in (("wan22", 48), ("wan21", 16), ("kl_flux2", 128)):
            mean, std = statistics(network)
            for spread in (0.3, 1, 1.7):
                numbers = noise(9, [channels, 1, 12, 12], spread)
                raw = [v * std[i // 144] + mean[i // 144] for i, v in enumerate(numbers)]
                for values, right in ((numbers, "normalized"), (raw, "raw")):
                    for word in ("normalized", "raw"):
                        said = self.doubt([channels, 1, 12, 12], values,
                                          "--normalization", word, network=network)
                        with self.subTest(network=network, spread=spread, right=right,
                                          word=word):
                            self.assertEqual("set normalization to " + right in said,
                                             word != right, said)
                            self.assertEqual("the latents" in said, word != right, said)

    def test_one_latent(self):
        """One latent has numbers enough."""
        mean, std = statistics("wan21")
        shape, n = [16, 1, 8, 8], 64
        normalized = noise(7, shape)
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
        shape = [16, 2, 8, 8]
        for factor, doubted in ((1, False), (0.18215, True), (0.1, True)):
            said = self.doubt(shape, noise(8, shape, factor * 0.9))
            self.assertEqual("times the spread that normalized" in said, doubted, said)
        said = self.doubt(shape, [(-1) ** (i // 128) * 0.15 + v
                                  for i, v in enumerate(noise(8, shape, 0.03))],
                          normalization="normalized")
        self.assertEqual(said, "")


if __name__ == "__main__":
    streams.main("vaedecode", "latentdemux")
