"""Encodes with what each program can set.

usage: test_encoding.py SOURCE BUILD [TEST...]
"""
import os
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import streams
import tensor_files

WEIGHTS = os.path.join(streams.SOURCE, "tests", "golden", "data", "wan21",
                       "weights.safetensors")


def parts(*rates):
    """A pipeline's words: three frames of each rate follow each other."""
    return "concat name=all ! capssetter caps=video/x-raw,framerate=16/1 ! " \
        "matroskamux ! filesink location={} " + " ".join(
            "videotestsrc num-buffers=3 horizontal-speed=2 ! video/x-raw,format=I420,"
            f"width=64,height=48,framerate={rate}/1 ! all." for rate in rates)


VAETOOL = os.path.join(streams.BUILD, "engine", "vaetool")
SCRIPT = os.path.join(streams.PIPELINES, "video-to-latents.sh")
# What each program can set, as vaetool calls it.
OPTIONS = ("backend", "precision", "memory-limit", "tiles", "threads", "normalization",
           "posterior", "seed", "deterministic", "history", "tile-plan", "nan-policy",
           "tail", "dtype", "variant", "framerate")
PYTHON = """
import inspect, gst_vae
print(*gst_vae.SETTINGS, *inspect.signature(gst_vae.VAE.encode).parameters,
      *inspect.signature(gst_vae.open).parameters)"""


class Options(unittest.TestCase):
    def test_all_programs(self):
        def said(*words):
            return subprocess.run(words, capture_output=True, text=True, check=False)

        shown = said(VAETOOL, "encode", "--help").stdout
        names = said(sys.executable, "-c", PYTHON).stdout.split()
        for option in OPTIONS:
            with self.subTest(option=option):
                self.assertRegex(shown, rf"--{option}\b")
                self.assertNotIn("unknown option", said(SCRIPT, f"--{option}=").stderr)
                if option != "framerate":  # tensors have none
                    self.assertIn("latents" if option == "dtype" else option.replace("-", "_"),
                                  names)


class Script(streams.Streams):
    def encode(self, *words):
        """What video-to-latents.sh says; it writes "out.safetensors"."""
        done = subprocess.run(
            [SCRIPT, *words, self.path("out.safetensors")], capture_output=True, text=True,
            check=False)
        return done.returncode, done.stderr

    def encoded(self, *words):
        status, said = self.encode(*words)
        self.assertEqual(status, 0, said)
        return said, tensor_files.load(self.path("out.safetensors"))

    def test_variable_rate(self):
        video = self.path("varies.mkv")
        self.play(parts(16, 1, 16).format(video))
        said, (tensors, _) = self.encoded(video)
        self.assertIn("Put videorate before vaeencode\n"
                      "video-to-latents.sh: the option --framerate does this", said)
        self.assertIn("latent_times", tensors)
        for rate, stated in (("16", "16/1"), ("30000/1001", "30000/1001")):
            said, (tensors, facts) = self.encoded("--framerate", rate, video)
            self.assertNotIn("videorate", said)
            self.assertEqual((set(tensors), facts["vae.framerate"]), ({"latent"}, stated))

    def test_settings(self):
        """An option of the script is a property of the element, or a field of caps."""
        video = self.path("clip.mkv")
        self.play(parts(16).format(video))
        given = ("--backend=ref", "--model", WEIGHTS, "--posterior=sample", "--seed", "3",
                 "--normalization", "raw", "--dtype", "f16", "--tail=drop", video)
        _, (tensors, facts) = self.encoded(*given)
        kind, shape, data = tensors["latent"]
        self.assertEqual((kind, shape[0], facts["vae.normalization"]), ("F16", 1, "raw"))
        out = self.path("right.safetensors")
        self.play(f"filesrc location={video} ! matroskademux ! videoconvert ! vaeencode "
                  f"backend=ref model={WEIGHTS} posterior=sample seed=3 tail=drop ! "
                  "video/x-vae-latent,normalization=raw,type=float16 ! latentmux ! "
                  f"filesink location={out}")
        self.assertEqual(tensor_files.load(out)[0]["latent"], (kind, shape, data))
        for word, said in (("--posterior=none", "vaeencode does not take this, expected "
                            "mean or sample"), ("--qoz=1", "unknown option --qoz"),
                           ("--name=1", "unknown option --name"),
                           ("--dtype=f8", "expected f32, f16 or bf16"),
                           ("--normalization=x", "expected normalized, raw or comfyui")):
            status, line = self.encode(word, video)
            self.assertEqual(status, 1)
            self.assertIn(said, line)

    def test_no_video(self):
        """An error of an element of GStreamer names the file."""
        text = self.path("text.mp4")
        with open(text, "w", encoding="ascii") as file:
            file.write("no video at all\n" * 9)
        status, said = self.encode(text)
        self.assertEqual(status, 1)
        self.assertTrue(said.startswith(f"video-to-latents.sh: {text}: "), said)


if __name__ == "__main__":
    streams.main("vaeencode", "latentmux", "matroskamux", "capssetter", "videorate")
