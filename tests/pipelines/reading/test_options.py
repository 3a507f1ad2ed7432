"""Options that say how to read a file, and what a file states after that.

usage: test_options.py SOURCE BUILD [TEST...]
"""
import array
import os
import subprocess
import sys
import unittest

from readers import DEMO, VAETOOL, Reading, golden, noise, run, send, streams
from tensor_files import load, save

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
            done = self.good(run(os.path.join(streams.SOURCE, reader[0]), *reader[1:],
                                 "--help"))
            lacks = [option for part, options in LACKS.items() if part in reader[0]
                     for option in options]
            for option in set(OPTIONS).difference(lacks):
                with self.subTest(reader=reader, option=option):
                    self.assertIn("--" + option, done.stdout)
            self.assertIn("auto (default): as", " ".join(done.stdout.split()))

    def batch(self):
        """The second clip of a batch, in another order, and the clip alone, each with
        its options."""
        shape = [2, 3, 16, 6, 8]
        data = array.array("f", noise(9, shape)).tobytes()
        both = save(self.path("both.safetensors"), {
            "other": ("F32", [2, 16, 3, 4, 4], bytes(4 * 2 * 16 * 3 * 16)),
            "x": ("F32", shape, data)})
        alone = save(self.path("alone.safetensors"),
                     {"x": ("F32", shape[1:], data[len(data) // 2:])},
                     {"vae.layout": "tchw", "vae.latent_space": "gst-vae-demo",
                      "vae.framerate": "5/1", "vae.normalization": "raw"})
        return (both, ["--tensor", "x", "--layout", "tchw", "--batch-index", "1",
                       "--framerate", "5/1", "--normalization", "raw", "--latent-space",
                       "gst-vae-demo"]), (alone, [])

    def test_vaetool(self):
        results = []
        for latents, words in self.batch():
            out = self.path("frames.safetensors")
            self.good(self.tool("decode", "--model", DEMO, *words, latents, out))
            results.append(self.read(out))
        self.assertEqual(*results)
        (both, options), _ = self.batch()
        said = self.tool("info", *options, both).stdout
        for words in ("3 latents of 16 channels, 8x6", "5/1 frames", "raw",
                      "gst-vae-demo"):
            self.assertIn(words, said)
        done = self.tool("decode", "--model", DEMO, *options[:-1], "wan2.1", both,
                         self.path("frames.safetensors"))
        self.assertIn("wan2.1", done.stderr)
        self.assertEqual(done.returncode, 3)

    def video(self, *options):
        self.good(self.script(*options))
        return self.read(self.path("video.y4m"))

    def test_script(self):
        self.assertEqual(*(self.video(*words, latents) for latents, words in self.batch()))

    def test_other_pictures(self):
        """A script passes on the options that choose between pictures."""
        for network, latents, words in (
                ("hunyuan10", "decode_t39_1x1_official_tiles",
                 ["--tile-plan", "official"]),
                ("ltx2_5_diff", "decode_t1_3x5", ["--seed", "1"])):
            results = [self.video(*more, "--model", golden(network), golden(network, latents))
                       for more in ([], words)]
            with self.subTest(network=network):
                self.assertEqual(*map(len, results))
                self.assertNotEqual(*results)

    def test_advice(self):
        """A script says which of its options is meant."""
        (both, options), _ = self.batch()
        tensor, layout, batch = (options[i:i + 2] for i in (0, 2, 4))
        for words, said in ((layout + batch, "tensor"),
                            (tensor + layout, "batch-index"),
                            (tensor + batch, "layout")):
            done = self.script(*words, "--latent-space=gst-vae-demo", both)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"latents-to-video.sh: set it by the option --{said}; see",
                          done.stderr)

    def test_sender(self):
        # The first packet has a random name of the stream.
        self.assertEqual(*(send(*words, latents, "-")[0][300:]
                           for latents, words in self.batch()))


class Stated(Reading):
    """What latentdemux or vaesend assumes is no statement of a file that latentmux
    writes."""

    def written(self, source):
        """What the file states of the latents of this source."""
        out = self.path("out.safetensors")
        self.play(f"{source} ! latentmux ! filesink location={out}")
        return load(out)[1]

    def sent(self, *arguments):
        """The same of the latents that vaesend sends."""
        sent = self.file(send("--latent-space", "wan2.1", *arguments, "-")[0], "sent.gdp")
        return self.written(f"filesrc location={sent} ! gdpdepay")

    def test_assumed_rate(self):
        latents = self.clip([16, 3, 2, 2])
        code = f"vaedecode model={DEMO} ! vaeencode model={DEMO}"
        for between, said in (("latentdemux", None), ("latentdemux ! queue", None),
                              ("latentdemux framerate=5/1", "5/1"),
                              ("latentdemux ! gdppay ! gdpdepay", None),
                              ("latentdemux framerate=5/1 ! gdppay ! gdpdepay", "5/1"),
                              (f"latentdemux latent-space=gst-vae-demo ! {code}", "16/1")):
            if "gdp" in between and not streams.has("gdppay", "gdpdepay"):
                continue
            with self.subTest(between=between):
                facts = self.written(f"filesrc location={latents} ! {between}")
                self.assertEqual(facts.get("vae.framerate"), said)

    @unittest.skipUnless(streams.has("gdpdepay"), "no gdpdepay")
    def test_sent_guesses(self):
        latents = self.clip([16, 16, 2, 2])
        for options, stated in (
                ([], (None, None, None)),
                (["--layout", "cthw", "--normalization", "raw"], ("raw", "tchw", None)),
                (["--normalization", "auto"], (None, None, None)),
                (["--framerate", "5"], (None, None, "5/1"))):
            with self.subTest(options=options):
                facts = self.sent(*options, latents)
                self.assertEqual(tuple(facts.get("vae." + name) for name in (
                    "normalization", "layout", "framerate")), stated)


if __name__ == "__main__":
    streams.main("vaedecode", "latentdemux")
