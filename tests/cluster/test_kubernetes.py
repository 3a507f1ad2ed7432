"""The manifests of pipelines/kubernetes: their schemas, and their shell as pods would run
it, as the uid 1000, with kills. Run by kubernetes.sh, which installs the schemas.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import clips
from clips import CLUSTER, SOURCE, TINY, TOOL

import kubernetes_validate
import yaml

MANIFESTS = os.path.join(SOURCE, "pipelines/kubernetes")
VERSION = "1.31"


def load(name):
    with open(os.path.join(MANIFESTS, name), encoding="utf-8") as file:
        return yaml.safe_load(file)


def unprivileged(command):
    """The command as the user of the manifests, if this process may change its user."""
    if os.getuid() != 0:
        return command
    return ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups",
            "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", *command]


class Schemas(clips.unittest.TestCase):
    def check(self, document):
        kubernetes_validate.validate(document, VERSION, strict=True)

    def test_jobs(self):
        names = sorted(os.listdir(MANIFESTS))
        self.assertEqual(names, ["decode-job.yaml", "ray-job.yaml", "segments-job.yaml"])
        for name in ("decode-job.yaml", "segments-job.yaml"):
            self.check(load(name))

    def test_an_error_is_found(self):
        job = load("segments-job.yaml")
        job["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = "Always"
        with self.assertRaises(kubernetes_validate.ValidationError):
            self.check(job)

    def test_ray_job(self):
        """The pods of the RayJob as pods of a Job: the schema of RayJob itself is not in
        Kubernetes."""
        job = load("ray-job.yaml")
        self.assertEqual((job["apiVersion"], job["kind"]), ("ray.io/v1", "RayJob"))
        self.assertLessEqual(set(job["spec"]), {
            "entrypoint", "rayClusterSpec", "backoffLimit", "shutdownAfterJobFinishes",
            "ttlSecondsAfterFinished"})
        cluster = job["spec"]["rayClusterSpec"]
        groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
        for group in groups:
            self.assertTrue(all(isinstance(v, str)
                                for v in group["rayStartParams"].values()))
            self.check({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"},
                        "spec": group["template"]["spec"]})
        words = job["spec"]["entrypoint"].split()
        script = os.path.basename(words[1])
        said = subprocess.run([sys.executable, os.path.join(CLUSTER, script), "--help"],
                              check=True, capture_output=True, text=True).stdout
        for word in words:
            if word.startswith("--"):
                self.assertIn(word, said)


class Pods(clips.Clips):
    LATENTS = 120

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        os.chmod(self.work, 0o777)
        os.mkdir(self.path("bin"))
        for path in (TOOL, os.path.join(clips.BUILD, "engine/libvae.so.0")):
            shutil.copy(path, self.path("bin"))
        shutil.copytree(clips.PACKAGE, self.path("python"))
        shutil.copytree(CLUSTER, self.path("cluster"),
                        ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(TINY, self.path("model.safetensors"))
        self.long = self.path("latents.safetensors")
        clips.make_clip(self.long, 120, 8, 12)
        self.right = self.path("right.safetensors")
        clips.vaetool("decode", "--threads", "4", "--model", TINY, self.long, self.right)
        os.chmod(self.work, 0o777)

    def pod(self, manifest, index, **more):
        """Starts the container of a Job's pod."""
        spec = load(manifest)["spec"]["template"]["spec"]
        container = spec["containers"][0]
        self.assertEqual(spec["securityContext"]["runAsUser"], 1000)
        environment = {e["name"]: e["value"] for e in container["env"]}
        environment |= {"JOB_COMPLETION_INDEX": str(index),
                        "PATH": self.path("bin") + ":" + os.environ["PATH"],
                        "PYTHONPATH": self.path("python"),
                        "LD_LIBRARY_PATH": self.path("bin"), "HOME": "/nonexistent",
                        "OMP_WAIT_POLICY": "passive", "PYTHONDONTWRITEBYTECODE": "1",
                        "SCRIPTS": self.path("cluster"), **more}
        return subprocess.Popen(unprivileged(container["command"]), cwd=self.work,
                                env=environment, stderr=subprocess.PIPE, text=True)

    def run_pod(self, manifest, index, kinds=(), **more):
        """Runs a pod until it succeeds; the first ones get a signal after a while."""
        chance = random.Random(index)
        for kind in kinds:
            process = self.pod(manifest, index, **more)
            time.sleep(chance.uniform(0.2, 1.5))
            process.send_signal(kind)
            process.communicate()
        process = self.pod(manifest, index, **more)
        said = process.communicate()[1]
        self.assertEqual(process.returncode, 0, said)
        return said

    def test_segments(self):
        for index in (2, 0, 3, 1):
            said = self.run_pod("segments-job.yaml", index,
                                (signal.SIGKILL, signal.SIGTERM), SEGMENTS="3")
        self.assert_same(self.right, self.path("frames.safetensors"))
        self.assertIn("complete", said)
        self.assertFalse(os.path.exists(self.path("frames.safetensors.segments")))
        if os.getuid() == 0:
            self.assertEqual(os.stat(self.path("frames.safetensors")).st_uid, 1000)

    def test_files(self):
        os.mkdir(self.path("latents"))
        shutil.copy(self.long, self.path("latents/a.safetensors"))
        self.run_pod("decode-job.yaml", 0, (signal.SIGKILL,))
        self.assert_same(self.right, self.path("frames/a.safetensors"))
        self.assertIn("nothing to do", self.run_pod("decode-job.yaml", 1))

    def test_pre_stop(self):
        worker = load("ray-job.yaml")["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
        hook = worker["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]
        fakes = [subprocess.Popen(unprivileged(
            ["bash", "-c", f"exec -a {name} sleep 600"]))
            for name in ("ray::ActorOfATest.call", "other")]
        self.addCleanup(lambda: [(p.kill(), p.wait()) for p in fakes])
        while b"bash" in clips.read(f"/proc/{fakes[0].pid}/cmdline") or \
                b"setpriv" in clips.read(f"/proc/{fakes[0].pid}/cmdline"):
            time.sleep(0.01)
        command = hook["exec"]["command"]
        # Only the processes of this test.
        command = command[:2] + [command[2].replace(
            "/proc/[0-9]*", " ".join(f"/proc/{p.pid}" for p in fakes))]
        subprocess.run(unprivileged(command), check=True,
                       env={**os.environ, "HANDOVER_SECONDS": "0"})
        self.assertEqual(fakes[0].wait(), -signal.SIGTERM)
        self.assertIsNone(fakes[1].poll())


if __name__ == "__main__":
    clips.unittest.main(argv=sys.argv[:1] + sys.argv[3:])
