"""Segments without Ray: the cut, one process for each segment with kills and signals,
and the join."""
import collections
import contextlib
import io
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import types
import unittest.mock

import clips
from clips import CLUSTER, DEMO, SEGMENTS, TINY, TOOL

import cut
import gst_vae
import output
import segments
import simulate
import sources
from driver import bar, driver
from frames import open_frames
from worker import Worker, identify


class Cut(clips.Clips):
    LATENTS = 200

    def test_covers_with_equal_work(self):
        for latents in (1, 8, 9, 30, 400, 28800):
            for history in (0, 8, 38):
                for workers in (1, 2, 3, 8, 512):
                    n = cut.count_segments(latents, workers, history)
                    found = cut.cut(latents, n, history)
                    self.assertEqual(len(found), n)
                    self.assertEqual([s.first for s in found] + [latents],
                                     [0] + [s.end for s in found])
                    work = [s.end - max(0, s.first - history) for s in found]
                    self.assertLessEqual(max(work) - min(work), 1)

    def test_rounds(self):
        self.assertEqual(cut.count_segments(400, 2, 38), 2)
        self.assertEqual(cut.count_segments(400, 2, 5), 4)
        self.assertEqual(cut.count_segments(28800, 8, 38), 24)
        self.assertEqual(cut.count_segments(28800, 512, 38), 512)
        self.assertEqual(cut.count_segments(40, 2, 38), 1)

    def test_clips_share_the_workers(self):
        def ends(found, workers, cost):
            busy = [0] * workers
            for s in (s for segments in found for s in segments):
                busy.sort()
                busy[0] += s.end - s.first + (cost if s.first else 0)
            return max(busy)

        for lengths, workers, cost, most in (
                ([90, 33], 2, 8, 86), ([33, 90], 2, 8, 82), ([100], 2, 8, 54),
                ([50] * 10, 2, 8, 250), ([100] * 3, 4, 38, 100), ([1, 400], 8, 8, 65)):
            found = cut.cut_clips(lengths, workers, cost)
            self.assertEqual([s[-1].end for s in found], lengths)
            self.assertLessEqual(ends(found, workers, cost), most, (lengths, found))

    def test_simulation(self):
        def run(workers, **more):
            options = types.SimpleNamespace(**{
                "latents": 400, "history": 38, "cost": 38, "step": 1.0, "call": 0.0, "rate": 4,
                "frame": 0, "link": 1.0, **more})
            return simulate.simulate(options, workers)

        self.assertEqual(run(1), (1, 400, 400.0, 0.0, 0.0))
        self.assertEqual(run(2), (2, 438, 219.0, 0.0, 0.0))
        # A look back that costs less still takes as many calls of the driver.
        n, computed, seconds, _, _ = run(2, cost=8)
        self.assertEqual((n, computed), (2, 408))
        self.assertAlmostEqual(seconds, 204.0)
        self.assertEqual(run(4, cost=8, call=1.0)[4], 68.0)
        # The link, then the driver, is slower than two workers.
        n, _, seconds, link, _ = run(2, frame=0.5)
        self.assertEqual((n, link), (2, 800.0))
        self.assertTrue(800 < seconds < 900, seconds)
        _, _, seconds, _, driver = run(2, call=20.0)
        self.assertTrue(driver <= seconds < driver + 30, (driver, seconds))

    def test_is_that_of_vaetool(self):
        worker = Worker(TINY, {"threads": 1})
        cost = worker.open(sources.Decoding(worker.model, self.clip,
                                            "out.safetensors").job())["cost"]
        self.assertEqual(cost, 2)
        for workers in (2, 3):
            said = subprocess.run(
                [TOOL, "decode", "--verbose", "--threads", "1", "--devices",
                 ",".join(["cpu"] * workers), "--model", TINY, self.clip,
                 self.path("a.safetensors")], check=True, capture_output=True,
                text=True).stderr
            n = cut.count_segments(self.LATENTS, workers, cost)
            for i, s in enumerate(cut.cut(self.LATENTS, n, cost)):
                self.assertIn(f"segment {i}: latents {s.first} to {s.end - 1}, from "
                              f"{max(0, s.first - 8)} on\n", said)


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
        zeros = self.path("zeros.safetensors")
        clips.write(zeros, "latent", "F32", [16, 9, 4, 6], bytes(4 * 16 * 9 * 24), {})
        code, said = self.run_index(0, count=1, clip=zeros)
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("has only one number"), 1, said)
        stated = self.path("stated.safetensors")
        clips.write(stated, "latent", "F32", [16, 1, 4, 6], bytes(4 * 16 * 24),
                    {"vae.normalization": "raw", "vae.latent_space": "wan2.1"})
        code, said = self.run_index(0, count=1, clip=stated, out="other.rgb", options=[
            "--normalization=normalized", "--latent-space=gst-vae-demo"])
        self.assertEqual(code, 0, said)
        for words in ("normalization raw; normalization normalized",
                      "latent-space wan2.1; latent-space gst-vae-demo"):
            self.assertIn(f"{stated} states {words} overrides it\n", said)

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


class Driver(clips.Clips):
    """The part of decode.py that needs no Ray."""

    def decode(self, *words, out="out.rgb"):
        return subprocess.run(
            [sys.executable, "-c", "import sys; sys.modules['ray'] = None; import decode; "
             "sys.exit(decode.main(sys.argv[1:]))", *(words or (self.clip,)), "--model",
             TINY, "--to", self.path(out)], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": f"{CLUSTER}:{clips.PACKAGE}"})

    def test_no_ray(self):
        done = self.decode()
        self.assertEqual(done.returncode, 3)
        self.assertIn("decode: Ray is missing", done.stderr)
        self.assertIn("pip install ray", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(os.listdir(self.work), [])

    def refused(self, text, *words, code=3, **more):
        done = self.decode(*words, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertNotIn("Ray", done.stderr.replace("on a Ray cluster", ""))
        self.assertNotIn("Traceback", done.stderr)

    def test_refuses(self):
        """Before Ray starts."""
        for option in ("--workers", "--threads"):
            for value in ("0", "-1", "x"):
                self.refused(f"{value}: expected a count from 1", self.clip,
                             f"{option}={value}", code=2)
        os.mkdir(self.path("empty"))
        with open(self.path("empty/notes.txt"), "w", encoding="utf-8") as file:
            file.write("no latents")
        self.refused("has no file that ends in", self.path("empty"))
        self.refused("cannot write to the folder", self.clip, out="none/out.rgb")
        os.mkdir(self.path("a.rgb"))
        self.refused("is no folder, and there are 2 inputs", self.clip, self.clip)
        model = self.path("model.safetensors")
        os.symlink(TINY, model)
        self.refused("is the model", self.clip, out="model.safetensors")
        # Files beside the output, and an output that is another input.
        for end in (".part", ".journal", ".frames"):
            os.symlink(TINY if end == ".part" else self.clip, self.path("out.rgb" + end))
            self.refused(f"out.rgb{end}: is the {'model' if end == '.part' else 'input'}"
                         "; write to another file\n", self.clip)
            os.unlink(self.path("out.rgb" + end))
        os.mkdir(self.path("many"))
        for name, file in (("one.npy", self.clip), ("two.safetensors", self.clip)):
            os.symlink(file, self.path(name))
        os.symlink(self.clip, self.path("many/one.safetensors"))
        self.refused("many/one.safetensors: is the input; write to another file\n",
                     self.path("one.npy"), self.path("two.safetensors"), out="many/")
        # An error of the system says the file, and no number.
        with open(self.path("file"), "wb"):
            pass
        self.refused(f"decode: {self.path('file')}/: File exists\n", self.clip,
                     out="file/")
        self.assertTrue(os.path.islink(model))

    def test_folder_with_another_file(self):
        os.mkdir(self.path("in"))
        os.symlink(self.clip, self.path("in/a.safetensors"))
        os.symlink(TINY, self.path("in/weights.safetensors"))
        self.refused(self.path("in/weights.safetensors") + ": ", self.path("in"),
                     out="out/")

    def test_no_cluster(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            for name in (None, "auto", "local", "ray://127.0.0.1:1", address):
                driver.check_address(name)
        with self.assertRaisesRegex(gst_vae.Error, f"^{address}: no Ray cluster answers: "
                                    "Connection refused; start one there with"):
            driver.check_address(address)

    def test_complete_output(self):
        for end in ("", ".journal"):
            with open(self.path("out.rgb" + end), "wb") as file:
                file.write(b"frames")
        done = self.decode("--resume", self.clip)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("out.rgb is complete", done.stderr)
        self.assertEqual(os.listdir(self.work), ["out.rgb"])
        self.assert_same(self.path("out.rgb"), self.path("out.rgb"))
        with open(self.path("out.rgb.part"), "wb"):
            pass
        self.assertIn("Ray is missing", self.decode("--resume", self.clip).stderr)

    def test_two_drivers(self):
        source = types.SimpleNamespace(header=b"head")
        first = output.Output(self.path("out"), source, {}, alone=True)
        first.pwrite(b"frames", 4)
        with self.assertRaisesRegex(gst_vae.Error, "out.part: another process is writing"):
            output.Output(self.path("out"), source, {}, alone=True)
        first.close()
        self.assertEqual(clips.read(self.path("out.part")), b"headframes")
        output.Output(self.path("out"), source, {}, alone=True).close()

    def test_several_sequences(self):
        found, metadata = clips.tensors(self.clip)
        entry, data = found["latent"]
        table = struct.pack("<4Q", 0, 37, 10, 4 * (self.LATENTS - 10) - 3)
        path = self.path("two.safetensors")
        entries = {"__metadata__": metadata, "latent": {**entry, "data_offsets": [
            0, len(data)]}, "latent_sequences": {"dtype": "U8", "shape": [2, 16],
            "data_offsets": [len(data), len(data) + 32]}}
        text = json.dumps(entries).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data + table)
        self.refused(path + ": has 2 sequences", path)

    def test_nodes_that_differ(self):
        """Each answer that decides the bytes is compared with that of the first worker."""
        made = driver.Driver.__new__(driver.Driver)
        right = {"missing": "", "node": "a", "gst_vae": gst_vae.__version__, "model": "12ab",
                 "backend": "cpu", "precision": "fp32", "threads": 1, "device": "EPYC"}
        made.options = types.SimpleNamespace(model="/w")
        made.fingerprint, made.first, made.forced = "12ab", right, None
        source = types.SimpleNamespace(job=dict)
        clip = types.SimpleNamespace(source=source, out="out.mp4", shared=lambda: None)
        actor = types.SimpleNamespace(call=types.SimpleNamespace(
            remote=lambda *_: self.answer))
        made.get = lambda answer: answer
        self.answer = right
        self.assertEqual(made.open(actor, clip), right)
        for key, value, expected in (
                ("missing", "x264enc", "b lacks x264enc, which out.mp4 needs"),
                ("gst_vae", "9", f"b has gst_vae 9, the driver has {gst_vae.__version__}"),
                ("model", "34", "b has /w with the fingerprint 34, the driver has 12ab"),
                ("backend", "ref", "b has the backend ref, and a has cpu"),
                ("precision", "bf16", "b has the precision bf16, and a has fp32"),
                ("threads", 2, "b has the threads 2, and a has 1"),
                ("device", "Xeon", "b has the device Xeon, and a has EPYC")):
            self.answer = {**right, "node": "b", key: value}
            with self.assertRaisesRegex(driver.Refused, expected):
                made.open(actor, clip)

    def test_bar(self):
        clip = types.SimpleNamespace(source=types.SimpleNamespace(frames=100), resumed=20,
                                     written=60)
        made = types.SimpleNamespace(clips=[clip], started=time.monotonic() - 10,
                                     alive=2)
        with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
            shown = bar.Bar(made)
            shown.show()
            self.assertEqual(said.getvalue(), "")
            shown.terminal = True
            shown.show()
        self.assertRegex(said.getvalue(), r"^\r\[#{14}\.{10}\] 60/100 frames, 2 workers, "
                         r"[34]\.\d\d fps, 1[01] s left")

    def test_last_line(self):
        clip = types.SimpleNamespace(source=types.SimpleNamespace(frames=100), resumed=0,
                                     written=100)
        made = types.SimpleNamespace(
            clips=[clip], started=time.monotonic() - 10, alive=0, lost=1, handed=1,
            used=0, options=types.SimpleNamespace(prog="decode"))
        for lost, expected in (1, "1 worker lost, 1 of them"), (2, "2 workers lost, 1 of them"):
            made.lost = lost
            with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
                bar.Bar(made).end()
            self.assertIn(expected, said.getvalue())

    def test_no_worker_is_left(self):
        """The last worker is refused: the error says how to continue."""
        def refuse(actor, task):
            raise driver.Refused("other weights")
        made = driver.Driver.__new__(driver.Driver)
        made.options = types.SimpleNamespace(prog="decode")
        made.lock, made.refused = threading.Condition(), []
        made.queue = collections.deque([driver.Task(0, cut.Segment(40, 80))])
        made.failure, made.alive, made.slots, made.computing = None, 0, 1, 0
        made.run_task = refuse
        with unittest.mock.patch("sys.stderr", io.StringIO()):
            made.run_worker("other")
        self.assertEqual(made.failure, "no worker is left: other weights; what is done is "
                         "kept, continue with --resume")

    def test_fails_three_times(self):
        made = driver.Driver.__new__(driver.Driver)
        source = types.SimpleNamespace(path="clip.safetensors")
        made.clips = [types.SimpleNamespace(source=source, out="out")]
        made.lock, made.queue = threading.Condition(), collections.deque()
        made.failure, made.computing = None, 3
        task = driver.Task(0, cut.Segment(40, 80))
        for _ in range(2):
            made.give_up(task, "host (node 12ab, process 3): broke")
            self.assertIsNone(made.failure)
        made.give_up(task, "host (node 12ab, process 3): broke")
        self.assertEqual(made.failure, "clip.safetensors: the segment from latent 40 to "
                         "79 failed 3 times: host (node 12ab, process 3): broke; what is "
                         "done is kept, continue with --resume")

    def test_worker_fails_twice(self):
        """Another worker gets the segment; the last one keeps trying."""
        def run_task(actor, task):
            if actor == "broken":
                raise gst_vae.Error("host (node 12ab, process 3): broke")
            task.segment = cut.Segment(80, 80)
        source = types.SimpleNamespace(path="clip.safetensors")
        made = driver.Driver.__new__(driver.Driver)
        made.clips = [types.SimpleNamespace(source=source, out="out")]
        made.options = types.SimpleNamespace(prog="decode")
        made.lock, made.refused = threading.Condition(), []
        made.queue = collections.deque([driver.Task(0, cut.Segment(40, 80))])
        made.failure, made.alive, made.slots, made.computing = None, 0, 2, 0
        made.ray, made.run_task = unittest.mock.Mock(), run_task
        made.start_actor = lambda: "broken"
        with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
            made.run_worker("broken")
        self.assertEqual(said.getvalue(), "\ndecode: this worker gets no more segments: "
                         "host (node 12ab, process 3): broke\n")
        self.assertEqual((made.failure, made.slots, len(made.queue)), (None, 1, 1))
        made.run_worker("whole")
        self.assertEqual((made.failure, len(made.queue)), (None, 0))
        made.queue.append(driver.Task(0, cut.Segment(40, 80)))
        made.slots = 1
        made.run_worker("broken")
        self.assertRegex(made.failure, "failed 3 times: host .* broke; what is done")


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
        frames, metadata = clips.tensors(self.whole)
        entry, data = frames["frames"]
        whole = self.path("frames.safetensors")
        metadata["vae.pixel_range"] = "-1 1"
        clips.write(whole, "frames", "F32", entry["shape"], data, metadata)
        self.check(whole)

    def test_bytes_and_samples(self):
        data = bytes(random.Random(1).randbytes(150 * 16 * 24 * 3))
        frames = self.path("bytes.safetensors")
        clips.write(frames, "video_u8", "U8", [150, 16, 24, 3], data, {})
        self.check(frames, "--posterior", "sample", "--seed", "7", posterior="sample",
                   seed=7)


if __name__ == "__main__":
    clips.unittest.main(argv=sys.argv[:1] + sys.argv[3:])
