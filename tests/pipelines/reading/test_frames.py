"""Frames as people have them: the range of their values, one colour, and lists of them.

usage: test_frames.py SOURCE BUILD [TEST...]
"""
import array
import math

from readers import DEMO, Reading, golden, load, run, streams
from tensor_files import save

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


class Frames(Reading):
    def frames(self, shape, numbers):
        return save(self.path("frames.safetensors"),
                    {"frames": ("F32", shape, array.array("f", numbers).tobytes())})

    def test_ranges(self):
        """Frames of 0..1 or 0..255 for a network of -1..1."""
        count, height, width = 5, 16, 24
        pixels = [(7 * x + 5 * y + 3 * t + 40 * c) % 256 for t in range(count)
                  for y in range(height) for x in range(width) for c in range(3)]
        results = {}
        for value, options, said in RANGES:
            frames = self.frames([count, height, width, 3], map(value, pixels))
            with self.subTest(said=said, options=options):
                words = self.encode("wan21", frames, *options)
                if said:
                    self.assertIn(said, words)
                    self.assertIn("warning: ", words)
                    self.assertEqual(words.count("\n"), 1, words)
                else:
                    self.assertEqual(words, "")
                latents = load(self.path("latents.safetensors"), "latent")[1]
                results.setdefault(tuple(latents), []).append(options)
        # All three readings of the same pixels give nearly the same latents.
        self.assertIn([RANGES[4][1]], results.values())

    def test_range_of_tiny_network(self):
        """Frames of -1..1 for a network of 0..1."""
        shape, pixels = [5, 16, 16, 3], range(5 * 16 * 16 * 3)
        said = self.encode("taehv/taehv", self.frames(
            shape, (v % 255 / 127.5 - 1 for v in pixels)))
        self.assertIn('set pixel-range to "-1 1"', said)
        # A ReLU may hide a NaN.
        said = self.encode("taehv/taehv", self.frames(
            shape, (math.nan if v == 7 else 0.5 for v in pixels)))
        self.assertIn("values of frame 0 are NaN", said)

    def test_range_of_bytes(self):
        frames = save(self.path("frames.safetensors"),
                      {"video_u8": ("U8", [1, 16, 16, 3], bytes(range(256)) * 3)})
        self.assertIn("--pixel-range has no effect",
                      self.encode("wan21", frames, "--pixel-range", "0 1"))

    def test_constant_frames(self):
        """The copies that fill the last group do not count."""
        for count in (2, 4, 6):
            words = f"each of the first {count} frames has only one colour"
            for kind, size in (("U8", 1), ("F32", 4)):
                frames = save(self.path("frames.safetensors"), {"frames": (
                    kind, [count, 16, 16, 3], bytes(count * 768 * size))})
                done = self.tool("encode", "--model", DEMO, frames,
                                 self.path("latents.safetensors"))
                self.assertIn(words, done.stderr)
            done = run("gst-launch-1.0",
                       *f"videotestsrc pattern=black num-buffers={count} ! "
                       "video/x-raw,width=16,height=16,framerate=16/1 ! "
                       f"vaeencode model={DEMO} ! fakesink".split())
            self.assertIn(words, done.stderr + done.stdout)

    def test_list_of_frames(self):
        for shape, said in (([16, 16, 3], "by stack(list) of torch"),
                            ([1, 16, 16, 3], "by cat(list) of torch"),
                            ([1, 4, 4, 48], None)):
            frames = save(self.path("frames.safetensors"), {
                name: ("U8", shape, bytes(768)) for name in "01"})
            done = self.tool("encode", "--model", golden("wan21"), frames,
                             self.path("latents.safetensors"))
            self.assertIn(f'; found "0" {"x".join(map(str, shape))}, "1" ', done.stderr)
            self.assertIn(said or "found", done.stderr)
            self.assertEqual("save them" in done.stderr, said is not None)


if __name__ == "__main__":
    streams.main("vaedecode", "latentdemux")
