"""Which axis of an array is which: what vaetool, vaesend and the elements find and say.

usage: test_axes.py SOURCE BUILD [TEST...]
"""
import contextlib
import io
import itertools
import json
import math
import random
import re
import struct
import types
import zipfile

from readers import COMFYUI_MARK, Reading, golden, safetensors, send, streams
from tensor_files import save

import vaesend
import vaesend_file


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


def made(numbers, shape, axis):
    """Numbers whose means differ along one axis."""
    means = [numbers.gauss(0, 0.6) for _ in range(shape[axis])]
    inner = math.prod(shape[axis + 1:])
    return [means[i // inner % shape[axis]] + numbers.gauss(0, 0.7)
            for i in range(math.prod(shape))]


class Axes(Reading):
    def elements_say(self, said, demux="latentdemux", decode=None):
        """Returns what they say of the clip."""
        decode = decode or f"vaedecode backend=ref model={golden('wan21')}"
        words = f"filesrc location={self.path('clip.safetensors')} ! {demux} ! {decode} ! fakesink"
        process = streams.launch(words, quiet=False)
        with self.assertRaises(AssertionError):
            streams.wait_for(lambda: False, process)  # until an error or the end
        text = streams.ended(process)[1]
        self.assertIn(said, text)
        return text

    def test_axes(self):
        """An array of as many latents or columns as channels may be read in another
        way."""
        numbers = random.Random(9)
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
            clip = self.clip(shape, made(numbers, shape, axis))
            with self.subTest(shape=shape, axis=axis):
                found = self.decode("wan21", clip)[1]
                if said:
                    self.assertIn(said, found)
                else:
                    self.assertNotIn("guess", found)
                for layout in (("cthw", "tchw") if shape[-4] == shape[-3] == 16 else
                               ("tchw",) if shape[-3] == 16 else ("cthw",)):
                    self.assertNotIn("guess",
                                     self.decode("wan21", clip, "--layout", layout)[1])
                if said and shape[0] != 16:
                    self.elements_say(said)

    def test_images_or_video(self):
        """As many images as a space of videos has channels."""
        numbers = random.Random(10)
        shape = [16, 64, 2, 2]
        for axis, doubted in ((0, True), (1, False)):
            latents = self.clip(shape, made(numbers, shape, axis))
            said = self.decode("qwenimage21", latents, "--verbose")[1]
            self.assertIn('"latent" is read as tchw: 16 latents of 64 channels', said)
            self.assertEqual("speak for a video, cthw, 64 latents of 16 channels" in said,
                             doubted, said)
            said = self.decode("qwenimage21", latents, "--layout=tchw")[1]
            self.assertNotIn("video", said)

    def test_other_axes(self):
        """vaedecode advises only what fits the file, also if it finds the model only by
        the caps, after latentdemux has chosen an order."""
        by_caps = ("latentdemux latent-space=gst-vae-demo layout=", "vaedecode backend=ref")
        for shape, layout, said in (
                ([3, 4, 8, 8], "auto", None), ([3, 4, 16, 8], "auto", None),
                ([3, 8, 8, 16], "cthw", "; the last dimension has 16: if these are the "
                 "channels, permute the"),
                ([1, 5, 16, 4, 4], "cthw", "; the other dimension has 16: if these are "
                 "the channels, set layout to tchw"),
                ([16, 5, 4, 16], "tchw", "; the other dimension has 16: if these are "
                 "the channels, set layout to cthw, "
                 "or, if the last")):
            clip = self.clip(shape)
            with self.subTest(shape=shape):
                self.elements_say(" expects 16" + (said or "\n"), by_caps[0] + layout,
                                  by_caps[1])
                if said is None:
                    text = self.elements_say(" expects 16\n")
                    text += self.script("--model", golden("wan21"), clip).stderr
                    self.assertNotRegex(text, "layout=|--layout|layout to|dimension")

    def test_orders(self):
        """An error says which other order would fit."""
        for shape, said in (([1, 5, 16, 4, 4], "if these are the channels, set layout to tchw"),
                            ([1, 24, 16, 4, 4], "if these are the channels, set layout to tchw"),
                            ([1, 5, 4, 4, 16], "if these are the channels, permute the"),
                            ([5, 4, 4, 16], "if these are the channels, permute the"),
                            ([5, 4, 4, 7], None), ([1, 5, 5, 4, 4], None)):
            latents = self.clip(shape)
            done = self.tool("decode", "--model", golden("wan21"), latents,
                             self.path("frames.safetensors"))
            self.assertEqual(done.returncode, 3)
            if said:
                self.assertIn(said, done.stderr)
                self.elements_say(said)
            if said and "layout" in said:
                self.decode("wan21", latents, "--layout", "tchw")
            else:
                self.assertNotIn("set layout", done.stderr)
        frames = save(self.path("frames.safetensors"),
                      {"frames": ("F32", [2, 3, 16, 16], bytes(4 * 1536))})
        done = self.tool("encode", "--model", golden("wan21"), frames,
                         self.path("latents.safetensors"))
        self.assertIn("by moveaxis(x, 1, -1) of numpy or torch", done.stderr)

    def test_not_contiguous(self):
        """All commands say the same of tensors in a list that are not contiguous."""
        video = save_turned(self.path("video.pt"), [1, 16, 16, 3])
        latents = save_turned(self.path("latents.pt"), [16, 1, 4, 6])
        said = "is not contiguous (save it after .contiguous()), expected contiguous"
        for path, words in ((video, ["encode", "--model", golden("wan21")]),
                            (latents, ["decode", "--model", golden("wan21")]),
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


class Sent(Reading):
    """vaesend.py runs without libvae, so it finds layouts itself."""

    def with_layout(self, shape, word):
        return self.file(safetensors({"vae.layout": word} if word else {},
                                     streams.floats(192), shape=shape))

    def test_layouts(self):
        """A layout with a batch gives a warning if the latents have no batch."""
        for shape, word, told in (
                ([2, 16, 2, 3], "btchw", "vae.layout is btchw, but the latents, "
                 "[2, 16, 2, 3], have no batch in front: taken as tchw\n"),
                ([2, 16, 2, 3], "tchw", ""), ([1, 2, 16, 2, 3], "btchw", ""),
                ([1, 2, 16, 2, 3], None, "")):
            clip = self.with_layout(shape, word)
            _, said = send(*([] if word else ["--layout", "btchw"]), "--space", "wan2.1",
                           clip, "-")
            self.assertEqual(said, (f"vaesend: {clip}: {told}" if told else "") +
                             "vaesend: 2 latents, 5 frames\n")

    def test_impossible_layouts(self):
        def expected(*shape):
            return (f"latents of shape {list(shape)} have 2 channels, those of wan2.1 16: "
                    "expected [C, h, w], [C, T, h, w] or [1, C, T, h, w]")
        for shape, word, told in (
                ([2, 16, 2, 3], "hwc", "vae.layout is 'hwc', expected cthw or tchw"),
                ([16, 2, 2, 3], "tchw", "latents of shape [16, 2, 2, 3] have 2 "
                 "channels, those of wan2.1 16: expected [C, h, w], [T, C, h, w] "
                 "or [1, T, C, h, w]; the other dimension has 16: if these are the channels, "
                 "set --layout cthw\n"),
                ([2, 2, 3, 16], None, expected(2, 2, 3, 16) +
                 "; the last dimension has 16: if these are the channels, permute the "
                 "array to [C, T, h, w], by "
                 "moveaxis(x, -1, 0) of numpy or torch\n"),
                ([1, 2, 2, 3, 16], None, expected(1, 2, 2, 3, 16) +
                 "; the last dimension has 16: if these are the channels, permute the "
                 "array to [B, C, T, h, w], by "
                 "moveaxis(x, -1, 1) of numpy or torch\n"),
                ([2, 12, 2, 4], None, expected(2, 12, 2, 4) + "\n"),
                ([2, 16, 1, 2, 3], "cthw", "[2, 16, 1, 2, 3] is a batch of 2 clips, "
                 "expected 1: select one by --batch-index")):
            clip = self.with_layout(shape, word)
            said = self.refused("--space", "wan2.1", clip, self.path("x.gdp"))
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
            data = streams.floats(math.prod(shape))
            clip = save(self.path("clip.safetensors"),
                        {name: ("F32", shape, data), **COMFYUI_MARK})
            with self.subTest(space=space, shape=shape, name=name):
                stream, said = send("--space", space, clip, "-")
                self.assertIn(f"vaesend: {sent} latents", said)
                self.assertEqual("guess" in said, bool(told))
                self.assertIn(told, said)
                layout = "cthw" if told.startswith("cthw") or shape[0] == 4 else "tchw"
                array = vaesend.Array("float32", tuple(shape), data)
                self.assertIn(bytes(list(vaesend.split(array, layout))[1][1]), stream)

    def test_a_guess_of_the_writer(self):
        """It counts only where both orders are possible, and stays a guess."""
        told = "no layout is stated; {}, 16 latents of 16 channels, is a guess"
        for guess, said in (("tchw", told.format("tchw")), ("bcthw", told.format("cthw")),
                            ("maybe", "vae.layout_guess is 'maybe', expected cthw or tchw; "
                             "it is ignored\n")):
            clip = self.clip([16, 16, 2, 2], metadata={"vae.layout_guess": guess})
            stream, words = send("--space", "wan2.1", clip, "-")
            self.assertIn(f"vaesend: warning: {clip}: ", words)
            self.assertIn(said, words)
            self.assertIn(b"layout-guessed=(boolean)true", stream)

    def test_an_option_against_the_file(self):
        """It is a warning, as of vaetool."""
        for stated, option, told in (("tchw", "cthw", True), ("btchw", "bcthw", True),
                                     ("tchw", "btchw", False), ("tchw", "auto", False)):
            clip = self.clip([16, 16, 2, 2], metadata={"vae.layout": stated})
            words = f"{clip} states layout tchw; layout cthw overrides it\n"
            for said in (send("--space", "wan2.1", "--layout", option, clip, "-")[1],
                         self.decode("wan21", clip, "--layout", option)[1]):
                self.assertEqual(words in said, told, said)

    def test_as_the_engine(self):
        """vaesend finds the layout that vaetool finds."""
        sizes = (1, 3, 4, 16, 48, 1025)
        for first, second, space, (mark, guess) in itertools.product(
                sizes, sizes, (None, "wan2.1", "flux1", "sd"),
                (({}, None), (COMFYUI_MARK, None), ({}, "tchw"))):
            shape = [first, second, 1, 1]
            clip = save(self.path("clip.safetensors"), {
                "latent_tensor" if mark else "x": ("F32", shape, bytes(4 * first * second)),
                **mark}, guess and {"vae.layout_guess": guess})
            said = self.tool("info", *(["--latent-space", space] if space else []),
                             clip).stdout
            found = re.search(r"layout ([ct]{2}hw)", said)
            if not found:
                continue  # vaetool refuses such latents
            options = types.SimpleNamespace(latents=clip, tensor=None, space=space)
            array, facts = vaesend_file.open_latents(clip, None)
            with self.subTest(shape=shape, space=space, mark=mark, guess=guess), \
                    contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(vaesend_file.layout_by_channels(options, array, facts),
                                 found[1])


if __name__ == "__main__":
    streams.main("vaedecode", "latentdemux")
