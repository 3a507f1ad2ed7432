"""A process that holds a model and computes segment after segment. Ray runs it as an
actor."""
import json
import os
import signal
import socket
import tempfile
from dataclasses import dataclass

import video
from streams import DECODE, Error, Stream, frame_bytes, gst_vae


def identify(file):
    """Returns the machine and the file of a descriptor, or None if the machine is not
    known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            status = os.fstat(file)
            return [boot.read(), status.st_dev, status.st_ino]
    except OSError:
        return None


@dataclass
class Leaving:
    """The answer of a worker that ends: its state after the last answer."""
    checkpoint: bytes = None  # None: an earlier answer had the carries
    error: str = None


class Worker:
    """Holds a model, and computes segment after segment. settings: those of gst_vae, and
    variant."""

    def __init__(self, model, settings):
        self.settings = dict(settings)
        self.node = socket.gethostname()
        self.leaving = False
        self.left = False
        self.key = self.stream = None
        self.output = self.file = None
        try:
            signal.signal(signal.SIGTERM, self.on_term)
        except ValueError:
            pass  # not the main thread
        self.model = gst_vae.open(model, variant=self.settings.pop("variant", None))

    def on_term(self, *_):
        self.leaving = True

    def open(self, job, forced=None, output=None):
        """Makes the stream for a job. Returns the values that must be equal on all nodes.
        forced: settings that the first worker has chosen. output: {path, file}, which the
        worker writes itself if the path is that file on its node."""
        settings = {**self.settings, **(forced or {})}
        key = json.dumps([job, settings], sort_keys=True)
        if key != self.key:
            self.key = self.stream = None
            members = {k: v for k, v in job.items() if k not in
                       ("kind", "video", "rate", "aspect")}
            self.stream = Stream(self.model, **members, **settings)
            self.key = key
        self.job = job
        self.open_output(output)
        plan = self.stream.plan
        return {"missing": video.missing(job["video"]) if job.get("video") else "",
                "node": self.node, "pid": os.getpid(), "gst_vae": gst_vae.__version__,
                "model": self.model.fingerprint(),
                **{k: plan[k] for k in ("backend", "precision", "threads", "device")},
                "slice": plan["slice_size"], "memory": plan["total"],
                "cost": self.stream.history_cost()}

    def open_output(self, output):
        if output == self.output:
            return
        if self.file is not None:
            os.close(self.file)
        self.output, self.file = output, None
        try:
            file = os.open(output["path"], os.O_WRONLY) if output else None
        except OSError:
            return  # on another machine
        if file is not None and identify(file) != output["file"]:
            os.close(file)
            return
        self.file = file

    def begin(self, unit, checkpoint=None, warm_up=0):
        """Makes the next run() start at latent `unit`: without context, or with the
        carries of another worker. warm_up: number of first latents whose results are
        discarded."""
        if not checkpoint:
            self.stream.start(unit, warm_up)
            return
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint")
            with open(path, "wb") as file:
                file.write(checkpoint)
            if self.stream.load(path) != unit:
                raise Error(f"the checkpoint of another worker is not at latent {unit}")

    def save(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint")
            self.stream.save(path)
            with open(path, "rb") as file:
                return file.read()

    def run(self, inputs, n, wanted, at=0):
        """Computes n latents. wanted: number of frames to return. at: their offset in the
        output. Returns bytes that are valid until the next call, or Leaving after SIGTERM.
        """
        if self.leaving:
            if self.left:
                return Leaving()
            self.left = True
            try:
                return Leaving(self.save())
            except Error as error:
                return Leaving(error=str(error))
        if self.job["direction"] == DECODE:
            return self.decode(inputs, n, wanted, at)
        result = self.stream.encode(inputs, n)
        return result if wanted else b""

    def decode(self, latents, n, wanted, at):
        """Returns the frames, or their pictures in a video."""
        job = self.job
        frames = self.stream.decode(job["kind"], latents, n, wanted)
        if not wanted:
            return b""
        frames = frames[:wanted * frame_bytes(job["pixels"], job["width"],
                                              job["height"])]
        if job.get("video"):
            return video.encode(frames, job["video"], job["width"], job["height"],
                                job["rate"], self.stream.plan["threads"],
                                job["aspect"])
        return b"" if self.write(frames, at) else frames

    def write(self, frames, at):
        """Writes to the output. False if the driver has to write the frames."""
        if self.file is None:
            return False
        try:
            while frames:
                n = os.pwrite(self.file, frames, at)
                frames, at = frames[n:], at + n
        except OSError:
            return False  # if the driver fails as well, it reports the reason
        return True
