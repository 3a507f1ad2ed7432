"""The part of decode.py that needs no Ray: its refusals, its queue, its last lines."""
import collections
import io
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import types
import unittest.mock

import clips
from clips import CLUSTER, TINY

import cut
import gst_vae
import output
from driver import bar, driver


class Driver(clips.Clips):
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

    def test_no_package(self):
        """Without gst_vae, --help works, and a run says in a line what to install."""
        words = (self.clip, "--model", TINY, "--to", self.path("out.rgb"))
        for given, code in ((("--help",), 0), (words, 3)):
            done = subprocess.run(
                [sys.executable, "-c", "import sys; sys.modules['gst_vae'] = None; import "
                 "decode; sys.exit(decode.main(sys.argv[1:]))", *given],
                capture_output=True, text=True, check=False,
                env={**os.environ, "PYTHONPATH": CLUSTER})
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stderr if code else done.stdout, "^decode: gst_vae is "
                             "missing .*: install .*\\n$" if code else "^usage: decode.py")

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
        found, metadata = clips.load(self.clip)
        table = struct.pack("<4Q", 0, 37, 10, 4 * (self.LATENTS - 10) - 3)
        path = clips.save(self.path("two.safetensors"),
                          {**found, "latent_sequences": ("U8", [2, 16], table)}, metadata)
        self.refused(path + ": has 2 sequences", path)

    def make(self, **more):
        """A driver without Ray, whose only task waits in its queue."""
        made = driver.Driver.__new__(driver.Driver)
        source = types.SimpleNamespace(path="clip.safetensors")
        vars(made).update({
            "clips": [types.SimpleNamespace(source=source, out="out")],
            "options": types.SimpleNamespace(prog="decode"), "lock": threading.Condition(),
            "queue": collections.deque([driver.Task(0, cut.Segment(40, 80))]),
            "refused": [], "failure": None, "alive": 0, "slots": 1, "computing": 0, **more})
        return made

    def test_nodes_that_differ(self):
        """Each answer that decides the bytes is compared with that of the first worker."""
        right = {"missing": "", "node": "a", "gst_vae": gst_vae.__version__, "model": "12ab",
                 "backend": "cpu", "precision": "fp32", "threads": 1, "device": "EPYC"}
        made = self.make(options=types.SimpleNamespace(model="/w"), fingerprint="12ab",
                         first=right, forced=None, get=lambda answer: answer)
        source = types.SimpleNamespace(job=dict)
        clip = types.SimpleNamespace(source=source, out="out.mp4", shared=lambda: None)
        actor = types.SimpleNamespace(call=types.SimpleNamespace(
            remote=lambda *_: self.answer))
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
            made.lost = clip.source.frames = lost
            with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
                bar.Bar(made).end()
            self.assertIn(expected, said.getvalue())
            self.assertIn("decode: 1 frame in" if lost == 1 else "decode: 2 frames in",
                          said.getvalue())

    def test_no_worker_is_left(self):
        """The last worker is refused: the error says how to continue."""
        def refuse(actor, task):
            raise driver.Refused("other weights")
        made = self.make(run_task=refuse)
        with unittest.mock.patch("sys.stderr", io.StringIO()):
            made.run_worker("other")
        self.assertEqual(made.failure, "no worker is left: other weights; what is done is "
                         "kept, continue with --resume")

    def test_fails_three_times(self):
        made = self.make(computing=3)
        task = made.queue.pop()
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
        made = self.make(slots=2, ray=unittest.mock.Mock(), run_task=run_task,
                         start_actor=lambda: "broken")
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


if __name__ == "__main__":
    clips.unittest.main(argv=sys.argv[:1] + sys.argv[3:])
