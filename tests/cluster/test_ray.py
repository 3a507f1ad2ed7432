"""decode.py and encode.py on a Ray cluster of several nodes on this machine.

Run by ray.sh, which installs Ray. VAE_KILLS: how many kills the long test makes.
"""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import clips
from clips import CLUSTER, DEMO, TINY
from nodes import Nodes

KILLS = int(os.environ.get("VAE_KILLS", "4"))


def setUpModule():
    os.chdir(os.path.dirname(TINY))  # nodes and their workers run there, too
    Ray.nodes = Nodes(2)
    clips.unittest.addModuleCleanup(Ray.nodes.close)


class Ray(clips.Clips):
    LATENTS = 120

    def run_script(self, *arguments, code=0, **more):
        process = self.nodes.start(*arguments, **more)
        said = process.communicate()[1]
        self.assertEqual(process.returncode, code, said)
        return said

    def elsewhere(self, name):
        """A path at which only a driver with cwd=self.work finds the file, so that it gets
        the frames from the workers."""
        return os.path.join("/proc/self/cwd", name)


class Decode(Ray):
    def test_file(self):
        out = self.path("out.safetensors")
        said = self.run_script("--model", TINY, self.clip, "--to", out)
        self.assert_same(self.whole, out)
        self.assertIn("workers: 2, threads of each: 1, cpu", said)
        self.assertIn("which look back 8 at the cost of 2: efficiency 98 %", said)
        self.assertEqual(os.listdir(self.work), ["out.safetensors"])

    def test_file_elsewhere(self):
        self.run_script("--model", TINY, self.clip, "--to",
                        self.elsewhere("out.safetensors"), cwd=self.work)
        self.assert_same(self.whole, self.path("out.safetensors"))

    def test_folder(self):
        """The paths are those of the driver's folder."""
        os.mkdir(self.path("in"))
        os.symlink(TINY, self.path("weights.safetensors"))
        for name in ("a", "b"):
            clips.make_clip(self.path(f"in/{name}.safetensors"), 20 + ord(name) % 7)
        self.run_script("--model", "weights.safetensors", "in", "--to", "out/",
                        cwd=self.work)
        for name in ("a", "b"):
            clips.vaetool("decode", "--threads", "1", "--model", TINY,
                          self.path(f"in/{name}.safetensors"), self.path("right"
                                                                         ".safetensors"))
            self.assert_same(self.path("right.safetensors"),
                             self.path(f"out/{name}.safetensors"))

    def test_video(self):
        if not clips.has_elements("x264enc", "mp4mux", "gdppay", "parsebin"):
            self.skipTest("x264enc is missing")
        video = self.path("clip.mp4")
        said = self.run_script("--model", TINY, "--memory-limit", "1G", self.clip, "--to",
                               video)
        self.assertNotIn("is not used", said)
        self.assertEqual(os.listdir(self.work), ["clip.mp4"])
        self.check_video(video)

    def test_other_version_of_ray(self):
        done = subprocess.run(
            [sys.executable, "-c", "import ray, sys; ray.__version__ = '1.2.3'; import "
             "decode; sys.exit(decode.main(sys.argv[1:]))", "--address",
             self.nodes.cluster.address, "--model", TINY, self.clip, "--to",
             self.path("out.rgb")], env={
                 **os.environ, "PYTHONPATH": f"{CLUSTER}:{clips.PACKAGE}"},
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("decode: Ray: ", done.stderr)
        self.assertIn("1.2.3", done.stderr)

    def test_memory_limit(self):
        said = self.run_script("--model", TINY, "--memory-limit", "1M", self.clip, "--to",
                               self.path("out.rgb"), code=3)
        self.assertIn("(node ", said)
        self.assertIn("the memory limit is 1.0 MiB", said)

    def test_encode(self):
        frames, right = self.path("f.safetensors"), self.path("right.safetensors")
        data = random.Random(1).randbytes(200 * 16 * 24 * 3)
        clips.save(frames, {"video_u8": ("U8", [200, 16, 24, 3], data)})
        clips.vaetool("encode", "--threads", "1", "--model", DEMO, frames, right)
        out = self.path("out.safetensors")
        self.run_script("--model", DEMO, frames, "--to", out, script="encode.py")
        self.assert_same(right, out)

    def test_refuses(self):
        out = self.path("out.safetensors")
        said = self.run_script("--model", self.path("none"), self.clip, "--to", out,
                               code=3)
        self.assertIn(self.path("none"), said)
        said = self.run_script("--model", TINY, self.path("none"), "--to", out, code=3)
        self.assertIn(self.path("none"), said)
        said = self.run_script("--model", TINY, self.clip, self.clip, "--to", out, code=3)
        self.assertIn("is no folder, and there are 2 inputs", said)
        said = self.run_script("--address", "127.0.0.1:1", "--model", TINY, self.clip,
                               "--to", out, code=3)
        self.assertIn("decode: 127.0.0.1:1: no Ray cluster answers", said)
        self.assertEqual(os.listdir(self.work), [])


class NodesDiffer(Ray):
    """One more node, which cannot be used."""
    SIZE = (8, 12)  # a run takes longer than the start of a worker

    def check(self, expected, model=TINY, end=".safetensors", folder=None, **env):
        node = self.nodes.add(folder, **env)
        try:
            out, said = self.path("out" + end), ""
            for _ in range(10):  # a run may end before that node's worker has begun
                process = self.nodes.start("--model", model, self.clip, "--to", out)
                said = process.communicate()[1]
                if process.returncode or "this worker is not used: " in said:
                    break
                os.unlink(out)
        finally:
            self.nodes.cluster.remove_node(node)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("this worker is not used: ", said)
        self.assertIn("(node ", said)
        self.assertIn(expected, said)
        self.assertIn("threads of each: 1", said)
        if end == ".safetensors":
            self.assert_same(self.whole, out)

    def by_folder(self, change):
        """The same path is another file in another folder."""
        folder = tempfile.mkdtemp(dir=self.folder)
        change(os.path.join(folder, os.path.basename(TINY)))
        return folder, os.path.join("/proc/self/cwd", os.path.basename(TINY))

    def test_other_weights(self):
        data = bytearray(clips.read(TINY))
        data[-1] ^= 1

        def change(path):
            with open(path, "wb") as file:
                file.write(data)

        folder, path = self.by_folder(change)
        self.check(path + " with the fingerprint ", model=path, folder=folder)

    def test_no_weights(self):
        folder, path = self.by_folder(lambda _: None)
        self.check(path + ": ", model=path, folder=folder)

    def test_no_library(self):
        self.check("gst_vae is missing", PYTHONPATH=self.path("none"))

    def test_no_encoder(self):
        self.check("lacks ", end=".webm", GST_PLUGIN_SYSTEM_PATH_1_0=self.path("none"),
                   GST_REGISTRY_1_0=self.path("registry"))


class Failures(Ray):
    @classmethod
    def setUpClass(cls):
        """A clip that takes longer than some kills, and its frames."""
        super().setUpClass()
        cls.long = os.path.join(cls.folder, "long.safetensors")
        cls.long_whole = os.path.join(cls.folder, "long_whole.safetensors")
        clips.make_clip(cls.long, 160, 16, 24)
        clips.vaetool("decode", "--threads", "1", "--model", TINY, cls.long,
                      cls.long_whole)

    def check_kills(self, kind):
        """Returns how many workers handed over their carries."""
        out, done, tries, handed = self.path("out.safetensors"), [0, 0], 0, 0
        while sum(done) < KILLS and tries < 20:
            tries += 1
            to = out if tries % 2 else self.elsewhere("out.safetensors")
            process = self.nodes.start("--model", TINY, self.long, "--to", to,
                                       cwd=self.work)
            now = self.nodes.kill(process, out + ".part", kind, KILLS - sum(done), tries)
            done = [a + b for a, b in zip(done, now)]
            said = process.communicate()[1]
            self.assertEqual(process.returncode, 0, said)
            self.assert_same(self.long_whole, out)
            handed += int(re.search(r"(\d+) of them handed over", said)[1])
        print(f"{done[0]} workers and {done[1]} nodes ended by "
              f"{signal.Signals(kind).name} in {tries} runs: {said.splitlines()[-1]}")
        self.assertGreaterEqual(sum(done), KILLS)
        return handed

    def test_workers_and_nodes_killed(self):
        self.assertEqual(self.check_kills(signal.SIGKILL), 0)

    def test_workers_told_to_end(self):
        self.assertGreater(self.check_kills(signal.SIGTERM), 0)

    def kill_driver(self, out, workers=0):
        """Kills a driver after the next entry in its journal, and before some workers."""
        def size():
            return clips.size(out + ".journal")

        before = size()
        process = self.nodes.start("--resume", "--model", TINY, self.long, "--to", out)
        self.nodes.kill(process, out + ".part", signal.SIGKILL, workers)
        while process.poll() is None and size() <= before:
            time.sleep(0.02)
        process.kill()
        process.communicate()

    def test_driver_killed(self):
        out = self.path("out.safetensors")
        for _ in range(2):
            self.kill_driver(out)
        said = self.run_script("--resume", "--model", TINY, self.long, "--to", out)
        self.assert_same(self.long_whole, out)
        self.assertEqual([n for n in os.listdir(self.work) if "out" in n],
                         ["out.safetensors"], said)

    def check_video_killed(self, end, *needed):
        """The same pictures as without a kill."""
        if not clips.has_elements("gdppay", "parsebin", *needed):
            self.skipTest(f"{needed} are missing")
        right, out = self.path("right" + end), self.path("out" + end)
        self.run_script("--model", TINY, self.long, "--to", right)
        for _ in range(5):  # a run may end before the kill
            self.kill_driver(out, workers=2)
            if os.path.exists(out + ".part"):
                break
            os.unlink(out)
        self.assertTrue(os.path.exists(out + ".part"))
        self.run_script("--resume", "--model", TINY, self.long, "--to", out)
        self.assertTrue(clips.pictures_of(right) == clips.pictures_of(out),
                        f"the pictures of {out} differ")
        self.assertEqual(clips.times_of(right), clips.times_of(out))
        self.assertEqual([n for n in os.listdir(self.work) if "out" in n],
                         ["out" + end])

    def test_mp4_killed(self):
        self.check_video_killed(".mp4", "x264enc", "mp4mux")

    def test_webm_killed(self):
        if KILLS < 20:
            self.skipTest("is of cluster-ray-kills")
        self.check_video_killed(".webm", "vp8enc", "webmmux")

    def test_other_weights_when_resumed(self):
        out = self.path("out.safetensors")
        with open(out + ".journal", "w", encoding="utf-8") as file:
            file.write('{"model": "another"}\n')
        said = self.run_script("--resume", "--model", TINY, self.clip, "--to", out,
                               code=3)
        self.assertIn(out + ".journal: the ", said)

    def test_full_disk(self):
        out = self.path("out.safetensors")
        process = subprocess.run(
            ["sh", "-c", "ulimit -f 1000; exec \"$@\"", "sh", sys.executable,
             os.path.join(CLUSTER, "decode.py"), "--address", self.nodes.cluster.address,
             "--threads", "1", "--model", TINY, self.clip, "--to",
             self.elsewhere("out.safetensors")],
            stderr=subprocess.PIPE, text=True, check=False, cwd=self.work)
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertIn("out.safetensors.part: cannot write: File too large",
                      process.stderr)
        self.run_script("--resume", "--model", TINY, self.clip, "--to", out)
        self.assert_same(self.whole, out)


if __name__ == "__main__":
    clips.unittest.main(argv=sys.argv[:1] + sys.argv[3:])
