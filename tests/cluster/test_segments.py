"""Segments without Ray: one process for each segment with kills and signals,
and the join."""
import contextlib
import io
import os
import random
import signal
import subprocess
import sys
import time
import unittest.mock

import clips
from clips import DEMO, SEGMENTS, TINY, TOOL

import cut
import gst_vae
import output
import segments
import sources
from frames import open_frames, stated_by
from worker import Worker, identify


class Index(clips.Clips):
    def start(self, index, count=3, clip=None, out="out.safetensors", model=TINY,
              options=()):
        return subprocess.Popen(
            [sys.executable, SEGMENTS, *options, "--model", model, "--threads", "1",
             "--index", str(index), "--count", str(count), clip or self.clip, self.path(out)],
            stderr=subprocess.PIPE, text=True)

    def run_index(self, index, **more):
        process = self.start(index, **more)
        said = process.communicate()[1]
        return process.returncode, said

    def test_any_order(self):
        for index in (2, 0, 1):
            self.assertEqual(self.run_index(index)[0], 0)
        self.assert_same(self.whole, self.path("out.safetensors"))
        self.assertEqual(os.listdir(self.work), ["out.safetensors"])
        code, said = self.run_index(1)
        self.assertEqual((code, "is complete" in said), (0, True), said)

    def test_all_at_once(self):
        running = [self.start(i, 4) for i in range(5)]
        said = [p.communicate()[1] for p in running]
        self.assertEqual([p.returncode for p in running], [0] * 5, said)
        self.assert_same(self.whole, self.path("out.safetensors"))
        self.assertEqual(os.listdir(self.work), ["out.safetensors"])

    def test_other_settings(self):
        # A process that was killed leaves an empty file.
        os.mkdir(self.path("out.safetensors.segments"))
        with open(self.path("out.safetensors.segments/settings"), "wb"):
            pass
        self.assertEqual(self.run_index(0)[0], 0)
        for name, other, more in (("threads", "2", ["--threads", "2"]),
                                  ("backend", "ref", ["--backend", "ref"])):
            said = subprocess.run(
                [sys.executable, SEGMENTS, "--model", TINY, "--threads", "1", *more,
                 "--index", "1", "--count", "3", self.clip, self.path("out.safetensors")],
                capture_output=True, text=True)
            self.assertEqual(said.returncode, 3, said.stderr)
            self.assertIn(f"settings: the {name} of the other segments is ", said.stderr)
            self.assertIn(f"and is {other} here", said.stderr)

    def test_rgb(self):
        vaetool_rgb = self.path("one.rgb")
        for name, count in (("one.rgb", 1), ("two.rgb", 2)):
            for index in range(count):
                self.assertEqual(self.run_index(index, count=count, out=name)[0], 0)
        self.assert_same(vaetool_rgb, self.path("two.rgb"))

    def test_alpha(self):
        vectors = os.path.join(clips.SOURCE, "tests/golden/data/qwenimage21")
        model, clip = (f"{vectors}/{name}.safetensors" for name in (
            "weights", "decode_t3_2x3"))
        clips.vaetool("decode", "--threads", "1", "--model", model, clip,
                      self.path("whole.safetensors"))
        for out, told in (("out.safetensors", 0), ("out.rgb", 1)):
            code, said = self.run_index(0, count=1, clip=clip, out=out, model=model)
            self.assertEqual((code, said.count("alpha, which is lost")), (0, told), said)
        self.assert_same(self.path("whole.safetensors"), self.path("out.safetensors"))
        frames = open_frames(self.path("whole.safetensors"), None)
        self.assertEqual((frames.pixels, len(frames.read(0, 3))),
                         ("rgba_f32", 3 * 32 * 48 * 16))

    def test_warns(self):
        zeros = clips.save(self.path("zeros.safetensors"),
                           {"latent": ("F32", [16, 9, 4, 6], bytes(4 * 16 * 9 * 24))})
        code, said = self.run_index(0, count=1, clip=zeros)
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("has only one number"), 1, said)
        stated = clips.save(
            self.path("stated.safetensors"),
            {"latent": ("F32", [16, 1, 4, 6], bytes(4 * 16 * 24))},
            {"vae.normalization": "raw", "vae.latent_space": "wan2.1"})
        code, said = self.run_index(0, count=1, clip=stated, out="other.rgb", options=[
            "--normalization=normalized", "--latent-space=gst-vae-demo"])
        self.assertEqual(code, 0, said)
        for words in ("normalization raw; normalization normalized",
                      "latent-space wan2.1; latent-space gst-vae-demo"):
            self.assertIn(f"{stated} states {words} overrides it\n", said)
        code, said = self.run_index(0, count=1, clip=stated, out="auto.rgb", options=[
            "--normalization=auto", "--latent-space=gst-vae-demo"])
        self.assertNotIn("normalization", said)

    def test_lost(self):
        """What the frames have no place for, and advice with the options' names."""
        turned = clips.save(
            self.path("turned.safetensors"),
            {"latent": ("F32", [16, 1, 4, 6], bytes(4 * 16 * 24)),
             "latent_times": ("U8", [1, 16], bytes(16))},
            {"vae.tag.image-orientation": "rotate-90", "vae.latent_space": "hunyuan",
             "vae.pixel_aspect_ratio": "4/3"})
        code, said = self.run_index(0, count=1, clip=turned,
                                    options=["--latent-space=gst-vae-demo"])
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count(
            f"{turned} states times of its own and an orientation, which are lost in "), 1,
            said)
        self.assertEqual(clips.load(self.path("out.safetensors"))[1][
            "vae.pixel_aspect_ratio"], "4/3")
        wrong = clips.save(self.path("wrong.safetensors"),
                           {"latent": ("F32", [16, 1, 4, 6], bytes(4 * 16 * 24))},
                           {"vae.framerate": "fast"})
        code, said = self.run_index(0, count=1, clip=wrong, out="wrong.rgb")
        self.assertEqual(code, 3, said)
        self.assertIn("to override it, set --framerate\n", said)

    def interrupted(self, kind, models=TINY):
        """Ends processes by a signal until one gets to its end. Returns what was said.
        """
        said = ""
        part = self.path("out.safetensors.segments/00001-of-00002.part")
        for _ in range(50):
            process = self.start(1, 2, self.long, model=models)
            before = clips.size(part)
            while process.poll() is None and clips.size(part) <= before:
                time.sleep(0.01)
            process.send_signal(kind)
            said += process.communicate()[1]
            if process.returncode == 0:
                return said
            self.assertIn(process.returncode, (143, -kind), said)
        self.fail(said)

    def check_interrupted(self, kind):
        self.long = self.path("long.safetensors")
        clips.make_clip(self.long, 120, 8, 12)
        whole = self.path("whole.safetensors")
        clips.vaetool("decode", "--threads", "1", "--model", TINY, self.long, whole)
        said = self.interrupted(kind)
        code, more = self.run_index(0, count=2, clip=self.long)
        self.assertEqual(code, 0, more)
        self.assert_same(whole, self.path("out.safetensors"))
        return said

    def test_killed(self):
        self.check_interrupted(signal.SIGKILL)

    def test_told_to_end(self):
        said = self.check_interrupted(signal.SIGTERM)
        self.assertIn("ended by a signal", said)
        self.assertNotIn("computed again", said)

    def test_ctrl_c(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)  # may be ignored
        clips.make_clip(self.path("long"), 2000, 8, 12)
        process = self.start(0, 1, self.path("long"))
        part = self.path("out.safetensors.segments/00000-of-00001.part")
        while process.poll() is None and not clips.size(part):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
        self.assertEqual((process.returncode, said),
                         (130, "segments: interrupted; the same command goes on\n"))

    def test_carries_that_cannot_be_written(self):
        worker = Worker(TINY, {"threads": 1})
        name = self.path("out.rgb")
        source = sources.Decoding(worker.model, self.clip, name)
        worker.open(source.job())
        worker.leaving = True
        whole = cut.Segment(0, self.LATENTS)
        out = output.Output(name, source, {})
        with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
            self.assertFalse(segments.compute(source, worker, out, whole, 8,
                                              self.path("none/point")))
        out.close()
        self.assertIn(self.path("none/point") + ": cannot write: No such file",
                      said.getvalue())

    def test_refuses(self):
        code, said = self.run_index(0, model=self.path("none"))
        self.assertEqual(code, 3)
        self.assertIn(self.path("none"), said)
        folder = self.path("out.safetensors.segments")
        os.mkdir(folder)
        name = os.path.join(folder, "00000-of-00003")
        for text, expected in (('{"model": "another"}\n', "the backend was None"),
                             ("?\n", "is damaged")):
            with open(name + ".journal", "w", encoding="utf-8") as file:
                file.write(text)
            code, said = self.run_index(0)
            self.assertEqual(code, 3)
            self.assertIn(name + ".journal: " + expected, said)
            self.assertEqual(len(said.splitlines()), 1, said)
        os.unlink(name + ".journal")
        for more, expected in (({"out": "out.txt"}, "out.txt: the name must end in"),
                               ({"out": "none/out.rgb"}, "out.rgb: there is no folder "),
                               ({"options": ["--slice=-2"]}, "--slice is -2, expected")):
            code, said = self.run_index(0, **more)
            self.assertEqual((code, len(said.splitlines())), (3, 1), said)
            self.assertIn(expected, said)
        self.assertFalse(os.path.exists(self.path("none")))
        for file, kind in ((self.clip, "input"), (TINY, "model")):
            os.symlink(file, self.path(f"{kind}.safetensors"))
            code, said = self.run_index(0, out=f"{kind}.safetensors")
            self.assertEqual(code, 3)
            self.assertIn(f"{kind}.safetensors: is the {kind}; write to another file",
                          said)

    def test_full_disk(self):
        name = self.path("out.safetensors.segments/00000-of-00002")
        folder = os.path.dirname(name)
        for blocks, end in ((0, "settings"), (0, ".journal"), (200, ".part")):
            done = subprocess.run(
                ["sh", "-c", f"ulimit -f {blocks}; exec \"$@\"", "sh", sys.executable,
                 SEGMENTS, "--model", TINY, "--threads", "1", "--index", "0", "--count",
                 "2", self.clip, self.path("out.safetensors")], stderr=subprocess.PIPE,
                text=True, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            if end == "settings":
                self.assertIn(f"{folder}/settings: cannot write: File too large; the "
                              "same command goes on", done.stderr)
                self.assertEqual(os.listdir(folder), [])
                self.assertEqual(self.run_index(1, count=2)[0], 0)
                continue
            self.assertIn(f"{name}{end}: cannot write: File too large; what is done is "
                          "kept, the same command goes on", done.stderr)
            self.assertFalse(os.path.exists(name + ".journal.tmp"))
        for index in (0, 1):
            self.assertEqual(self.run_index(index, count=2)[0], 0)
        self.assert_same(self.whole, self.path("out.safetensors"))


class Video(clips.Clips):
    """Runs of frames that are encoded by themselves, and joined."""

    def check(self, end, *needed):
        if not clips.has_elements("gdppay", "parsebin", *needed):
            self.skipTest(f"{needed} are missing")
        worker = Worker(TINY, {"threads": 1})
        name = "an ä \\ \"b\" ! c='d'" + end
        path = self.path(name)
        clip = output.Clip(sources.Decoding(worker.model, self.clip, path), path)
        worker.open(clip.source.job())
        clip.open({"a": 1}, False)
        pieces = cut.cut(self.LATENTS, 3, 8)
        for i, piece in enumerate(reversed(pieces)):
            if i == 1:  # as after a crash
                clip.output.flush()
                clip.stop()
                clip.open({"a": 1}, True)
            self.assertTrue(segments.compute(clip.source, worker, clip.output, piece, 8,
                                             self.path("point")))
        clip.finish()
        self.assertEqual(os.listdir(self.work), [name])
        os.rename(path, self.path("out" + end))  # gst-launch of the test
        self.check_video(self.path("out" + end))

    def test_mp4(self):
        self.check(".mp4", "x264enc", "mp4mux")

    def test_webm(self):
        self.check(".webm", "vp8enc", "webmmux", "vp8dec")


class Direct(clips.Clips):
    """A worker that writes its frames to the driver's output."""

    def setUp(self):
        super().setUp()
        self.out = self.path("out.safetensors")
        self.worker = Worker(TINY, {"threads": 1})

    def open_clip(self, **changed):
        clip = output.Clip(sources.Decoding(self.worker.model, self.clip, self.out),
                           self.out)
        clip.open({}, False)
        self.worker.open(clip.source.job(), None, {**clip.shared(), **changed})
        return clip

    def run_worker(self, clip, first, end):
        """The work that the worker leaves to the driver."""
        source = clip.source
        return self.worker.run(source.inputs(first, end), end - first,
                               source.units(end) - source.units(first),
                               clip.offset(first))

    def test_writes(self):
        clip = self.open_clip()
        self.worker.begin(0)
        for first in range(0, self.LATENTS, 8):
            end = min(first + 8, self.LATENTS)
            self.assertEqual(self.run_worker(clip, first, end), b"")
            clip.output.write(first, end, b"")
        self.assertTrue(clip.complete())
        clip.finish()
        self.assert_same(self.whole, self.out)

    def check_left(self, clip):
        """The driver writes the frames."""
        self.worker.begin(0)
        left = self.run_worker(clip, 0, 8)
        begin, size = clip.offset(0), clip.offset(8) - clip.offset(0)
        self.assertEqual(clips.read(clip.output.part), clip.source.header)
        self.assertEqual(left, clips.read(self.whole)[begin:begin + size])
        clip.stop()

    def test_another_file(self):
        other = self.path("other")
        with open(other, "wb"):
            pass
        for path in (other, self.path("none"), self.work):
            self.check_left(self.open_clip(path=path))
        self.assertEqual(clips.read(other), b"")

    def test_another_machine(self):
        plain = output.Clip.shared

        def shared(clip):
            made = plain(clip)
            return {**made, "file": ["another boot", *made["file"][1:]]}

        with unittest.mock.patch.object(output.Clip, "shared", shared):
            self.check_left(self.open_clip())

    def test_full_disk(self):
        with open("/dev/full", "wb") as file:
            self.check_left(self.open_clip(path="/dev/full",
                                           file=identify(file.fileno())))

    def test_worker_of_a_driver_that_was_killed(self):
        old = self.open_clip()
        self.worker.begin(0)
        old.output.close()
        new = output.Clip(old.source, self.out)
        new.open({}, False)
        self.assertEqual(self.run_worker(old, 0, 8), b"")
        self.assertEqual(clips.read(new.output.part), new.source.header)
        new.stop()


class Encode(clips.Clips):
    """Each segment by a worker in this process."""

    def check(self, frames, *options, **more):
        out = self.path("right.safetensors")
        clips.vaetool("encode", "--threads", "1", "--model", DEMO, *options, frames, out)
        self.encode(frames, **more)
        self.assert_same(out, self.path("out"))

    def encode(self, frames, **more):
        worker = Worker(DEMO, {"threads": 1})
        source = sources.Encoding(worker.model, open_frames(frames, self.path("out")), **more)
        history = worker.model.model.history("encode")
        found = output.Output(self.path("out"), source, {})
        worker.open(source.job())
        pieces = cut.cut(source.latents, 2, history)
        self.assertEqual(len(pieces), 2)
        random.shuffle(pieces)
        for piece in pieces:
            self.assertTrue(segments.compute(worker=worker, source=source, output=found,
                                             segment=piece, history=history,
                                             checkpoint=self.path("point")))
        found.commit()

    def test_video(self):
        """The latents are those of the elements, also with odd sizes."""
        if not clips.has_elements("vp8enc", "webmmux", "vaeencode", "latentmux"):
            self.skipTest("elements are missing")
        for caps in ("width=46,height=35,colorimetry=bt601",
                     "width=48,height=32,colorimetry=bt709"):
            video, out = self.path("in.webm"), self.path("right.safetensors")
            same = self.path("an ä \\ \"b\" ! c='d'.webm")
            clips.gst("-q", "videotestsrc", "pattern=ball", "num-buffers=150", "!",
                      f"video/x-raw,format=I420,framerate=25/1,{caps}", *(
                          "! vp8enc deadline=1 cpu-used=8 ! webmmux ! filesink").split(),
                      f"location={video}")
            clips.gst("-q", "filesrc", f"location={video}", "!", "decodebin", "!",
                      "videoconvert", "!", "vaeencode", f"model={DEMO}", "threads=1",
                      "precision=fp32", *"! latentmux ! filesink".split(),
                      f"location={out}")
            os.rename(video, same)
            self.encode(same)
            said = subprocess.run([TOOL, "compare", out, self.path("out")], check=True,
                                  capture_output=True, text=True).stdout
            self.assertIn(" max 0 at ", said)
            self.assertEqual([n for n in os.listdir(self.work) if "frames" in n], [])

    def test_stated_by_video(self):
        """The latents state the orientation and the shape of pixels of the video. A
        warning says that its times are lost."""
        self.assertEqual(stated_by(["  image orientation: rotate-90"], {}),
                         {"vae.tag.image-orientation": "rotate-90"})
        if not clips.has_elements("vp8enc", "matroskamux"):
            self.skipTest("elements are missing")
        for more, uneven in (("", False), ("! identity drop-probability=0.5", True)):
            video = self.path("in.mkv")
            clips.gst("-q", *"videotestsrc num-buffers=20 ! video/x-raw,width=48,height=48,"
                      f"framerate=25/1,pixel-aspect-ratio=4/3 {more} ! vp8enc ! "
                      "matroskamux ! filesink".split(), f"location={video}")
            with contextlib.redirect_stderr(io.StringIO()) as said:
                frames = open_frames(video, self.path("out"))
            self.assertEqual(frames.stated, {"vae.pixel_aspect_ratio": "4/3"})
            self.assertEqual("times of their own" in said.getvalue(), uneven, said.getvalue())
            source = sources.Encoding(Worker(DEMO, {"threads": 1}).model, frames)
            self.assertIn(b'"vae.pixel_aspect_ratio":"4/3"', source.header)

    def test_alpha_is_lost(self):
        for form, told in (("AYUV", True), ("GRAY8", False)):
            video = self.path(form + ".mkv")
            clips.gst("-q", *"videotestsrc num-buffers=2 ! video/x-raw,width=16,height=16,"
                      f"format={form} ! matroskamux ! filesink".split(), f"location={video}")
            with contextlib.redirect_stderr(io.StringIO()) as said:
                frames = open_frames(video, self.path("out"))
            self.assertEqual(frames.shape, [2, 16, 16])
            self.assertEqual("transparent" in said.getvalue(), told, said.getvalue())

    def test_bad_videos(self):
        self.assertRaises(FileNotFoundError, open_frames, self.path("none.mp4"), "out")
        for name, data in (("text.mp4", b"no video\n" * 9),
                           ("empty.webm", b""), ("loops.mp4", b"GIF89a")):
            with open(self.path(name), "wb") as file:
                file.write(data)
            with self.assertRaisesRegex(gst_vae.Error, self.path(name) + ": "):
                open_frames(self.path(name), self.path("out"))
        self.assertEqual(sorted(os.listdir(self.work)), ["empty.webm", "loops.mp4", "text.mp4"])

    def test_floats(self):
        frames, metadata = clips.load(self.whole)
        metadata["vae.pixel_range"] = "-1 1"
        self.check(clips.save(self.path("frames.safetensors"), frames, metadata))

    def test_bytes_and_samples(self):
        data = bytes(random.Random(1).randbytes(150 * 16 * 24 * 3))
        frames = clips.save(self.path("bytes.safetensors"),
                            {"video_u8": ("U8", [150, 16, 24, 3], data)})
        self.check(frames, "--posterior", "sample", "--seed", "7", posterior="sample",
                   seed=7)


if __name__ == "__main__":
    clips.unittest.main(argv=sys.argv[:1] + sys.argv[3:])
