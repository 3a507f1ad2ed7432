"""Tests pipelines/vaesend.py as a program: where it writes, and a pipeline that receives.

usage: test_vaesend_file.py SOURCE BUILD [TEST...]
"""
import errno
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

from readers import Reading, safetensors, streams
from streams import (DECODE, FRAME, LATENTS, VAESEND, floats, launch,
                     packets, FRAMES)
from tensor_files import pack

import vaesend
import vaesend_file

try:
    import numpy
except ImportError:
    numpy = None


class Tool(Reading):
    """Where the program writes to."""

    def test_runs_by_itself(self):
        done = subprocess.run([VAESEND, "--help"], stdout=subprocess.PIPE,
                              check=True)
        self.assertIn(b"--receive TARGET COMMAND", done.stdout)

    def test_same_file(self):
        clip = self.file(safetensors())
        os.symlink(clip, self.path("symbolic"))
        os.link(clip, self.path("hard"))
        for target in (clip, self.path("symbolic"), self.path("hard")):
            said = self.refused("--space", "wan2.1", clip, target)
            self.assertIn(f"{target}: is the input; write to another file", said)
            self.assertEqual(streams.Streams.read(clip), safetensors())

    def test_older_file(self):
        """A target must be new. Latents that are refused make no target."""
        clip = self.file(safetensors())
        older = self.file(b"precious", "older.gdp")
        said = self.refused("--space", "wan2.1", clip, older)
        self.assertIn(f"{older}: is there already; write to a new file", said)
        self.assertEqual(streams.Streams.read(older), b"precious")
        self.refused("--space", "ltx2", clip, self.path("new.gdp"))
        self.refused("--space", "wan2.1", "--temporal", "8", clip,
                     self.path("new.gdp"))
        self.assertFalse(os.path.exists(self.path("new.gdp")))

    def test_full_disk(self):
        """The message has no number, and the cut file is removed."""
        clip, target = self.file(safetensors()), self.path("cut.gdp")
        done = subprocess.run(
            [sys.executable, VAESEND, "--space", "wan2.1", clip, target],
            stderr=subprocess.PIPE, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99)))
        self.assertEqual((done.returncode, done.stderr), (
            1, f"vaesend: {target}: after 0 latents: {os.strerror(errno.EFBIG)}\n"))
        self.assertFalse(os.path.exists(target))

        with open("/dev/full", "wb") as full:
            done = subprocess.run([sys.executable, VAESEND, "--space", "wan2.1", clip, "-"],
                                  stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertTrue(done.stderr.startswith("vaesend: <stdout>: after 0 latents: "))

    def test_alone(self):
        """A program needs only vaesend.py. The command says which file is missing."""
        with open(VAESEND, "rb") as file:
            alone = self.file(file.read(), "vaesend.py")
        done = subprocess.run(
            [sys.executable, "-c", "import vaesend; vaesend.Sender"],
            cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 0)
        done = subprocess.run([sys.executable, alone, "--help"],
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("vaesend_file.py and vaesend_read.py, which read files", done.stderr)

    def test_stale_socket(self):
        """The socket of a killed receiver is replaced. A used socket or a file is an
        error."""
        path = self.path("socket")
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        os.mkdir(self.path("other"))
        with socket.socket(socket.AF_UNIX) as other:
            before = os.getcwd()
            os.chdir(self.path("other"))
            other.bind("socket") # a name that the kernel lists without its folder
            self.assertTrue(vaesend.bound("socket"))
            os.chdir(before)
            self.assertFalse(vaesend.bound(path))
        found = []
        receiver = threading.Thread(
            target=lambda: found.append(vaesend.accept(f"unix://{path}")))
        receiver.start()
        with vaesend.Sender(f"unix://{path}", "wan2.1", retry=600) as sender:
            sender.send(vaesend.Array("float32", (16, 2, 3), floats(96)))
        receiver.join()
        self.assertEqual(found[0].recv(1), b"\1")
        found[0].close()
        clip = self.file(safetensors())
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            other.listen(1)
            said = self.refused("--receive", f"unix://{path}", "true")
            self.assertIn("in use", said)
            self.assertIn(path, said)
            other.setblocking(False)
            with self.assertRaises(BlockingIOError): # nobody connected
                other.accept()
        os.unlink(path)
        said = self.refused("--receive", f"unix://{clip}", "true")
        self.assertIn("in use", said)
        self.assertEqual(streams.Streams.read(clip), safetensors())

    def test_interrupted(self):
        """Ctrl-C removes the socket."""
        path = self.path("socket")
        receiver = subprocess.Popen(
            [sys.executable, VAESEND, "--receive", f"unix://{path}", "true"],
            stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while not os.path.exists(path):
            time.sleep(0.05)
        receiver.send_signal(signal.SIGINT)
        self.assertEqual((receiver.communicate()[1], receiver.returncode),
                         ("vaesend: interrupted\n", 130))
        self.assertFalse(os.path.exists(path))


class Files(streams.Streams):
    def send(self, *arguments, **more):
        return subprocess.run([sys.executable, VAESEND, *arguments],
                              stderr=subprocess.PIPE, text=True, check=False,
                              **more)

    def sent(self, *arguments, **more):
        done = self.send(*arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{LATENTS} latents, {streams.FRAMES} frames",
                      done.stderr)

    def receiver(self, source, **more):
        self.out = self.path("out.rgb")
        return launch(f"{source} ! gdpdepay ! {DECODE} ! filesink "
                      f"location={self.out}", **more)

    def test_tcp(self):
        port = streams.free_port()
        process = self.receiver(f"tcpserversrc host=127.0.0.1 port={port}")
        self.sent("--retry", "600", self.clip, f"tcp://127.0.0.1:{port}")
        self.finish(process)
        self.assert_frames(self.out)

    def test_listen(self):
        port = streams.free_port()
        sender = threading.Thread(target=self.sent, args=[
            "--listen", self.clip, f"tcp://127.0.0.1:{port}"])
        sender.start()
        while True: # until it listens
            status, said = streams.ended(self.receiver(
                f"tcpclientsrc host=127.0.0.1 port={port}"))
            if status == 0:
                break
            self.assertIn("refused", said)
        sender.join()
        self.assert_frames(self.out)

    def test_unix(self):
        address = "unix://" + self.path("socket")
        self.out = self.path("out.rgb")
        receiver = subprocess.Popen(
            [sys.executable, VAESEND, "--receive", address, "gst-launch-1.0",
             "-q"] + f"fdsrc ! gdpdepay ! {DECODE} ! filesink "
            f"location={self.out}".split())
        self.sent("--retry", "600", self.clip, address)
        self.assertEqual(receiver.wait(), 0)
        self.assert_frames(self.out)
        self.assertFalse(os.path.exists(self.path("socket")))

    def test_named_pipe(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        process = self.receiver(f"filesrc location={pipe}")
        self.sent(self.clip, pipe)
        self.finish(process)
        self.assert_frames(self.out)

    def test_standard_output(self):
        process = self.receiver("fdsrc", stdin=subprocess.PIPE)
        self.sent(self.clip, "-", stdout=process.stdin)
        process.stdin.close()
        self.finish(process)
        self.assert_frames(self.out)

    def test_file(self):
        self.sent(self.clip, self.path("clip.gdp"))
        self.finish(self.receiver("filesrc location=" + self.path("clip.gdp")))
        self.assert_frames(self.out)

    def timed(self):
        """Makes a copy of the clip with tags, and latents that last half as long again."""
        data = self.read(self.clip)
        size = struct.unpack("<Q", data[:8])[0]
        header, latents = json.loads(data[8:8 + size]), data[8 + size:]
        header["__metadata__"].update({
            "vae.title": 'ä, "b\\', "vae.tag.artist": "x", "vae.tag.artist.2": "y z",
            "vae.tag.track-number": "3", "vae.tag.geo-location-latitude": "-1.5",
            "vae.tag.date": "2020-01-02", "vae.tag.datetime": "2020-01-02T03:04:05Z",
            "vae.tag.image-orientation": "rotate-90"})
        starts = [10**8 * n for n in range(LATENTS + 1)]
        times = struct.pack(f"<{2 * LATENTS}q", *(n for start in starts[:-1]
                                                  for n in (start, 10**8)))
        header["latent_times"] = {"dtype": "U8", "shape": [LATENTS, 16], "data_offsets":
                                  [len(latents), len(latents) + len(times)]}
        with open(self.path("timed.safetensors"), "wb") as file:
            file.write(pack(header, latents + times))

    def decoded(self, source):
        """The bytes, times and durations of the frames that a source gives."""
        self.play(f"{source} ! {DECODE} ! gdppay crc-header=false crc-payload=false ! "
                  f"filesink location={self.path('out.gdp')}")
        return [facts[1:4] for facts in packets(self.read(self.path("out.gdp")))
                if facts[0] == vaesend.BUFFER]

    def test_times_and_tags(self):
        """They arrive as latentdemux reads them, and also through gdppay."""
        self.timed()
        read = f"filesrc location={self.path('timed.safetensors')} ! latentdemux"
        expected = self.decoded(read)
        self.assertEqual(len(expected), FRAMES)
        self.assertEqual(expected[1][1:], (10**8, 25 * 10**6))
        self.sent(self.path("timed.safetensors"), self.path("sent.gdp"))
        self.play(f"{read} ! gdppay ! filesink location={self.path('paid.gdp')}")
        for name in ("sent.gdp", "paid.gdp"):
            self.assertEqual(self.decoded(f"filesrc location={self.path(name)} ! gdpdepay"),
                             expected)
        self.play(f"filesrc location={self.path('sent.gdp')} ! gdpdepay ! latentmux ! "
                  f"filesink location={self.path('again.safetensors')}")
        first, again = (vaesend_file.open_latents(self.path(name))[1]
                        for name in ("timed.safetensors", "again.safetensors"))
        first.pop("vae.tag.encoder")
        again.pop("vae.tag.encoder", None)
        self.assertEqual(again, first)
        self.sent("--fps", "16", self.path("timed.safetensors"), self.path("even.gdp"))
        self.assertEqual(self.decoded(f"filesrc location={self.path('even.gdp')} ! gdpdepay"),
                         self.decoded(f"{read} framerate=16/1"))

    @unittest.skipUnless(numpy, "no numpy")
    def test_npy(self):
        """Sends the same latents from a .npy file of [C, T, h, w], with options for the
        space and rate. It states no number of frames, so the last group is complete."""
        array, _ = vaesend_file.open_latents(self.clip)
        data = numpy.frombuffer(array.data, "<f4").reshape(array.shape)
        numpy.save(self.path("clip.npy"), numpy.asfortranarray(data))
        done = self.send("--space", "gst-vae-demo", "--fps", "16",
                         self.path("clip.npy"), self.path("array.gdp"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("Fortran", done.stderr)
        numpy.save(self.path("clip.npy"),
                   numpy.ascontiguousarray(data.transpose(1, 0, 2, 3)))
        done = self.send("--space", "gst-vae-demo", "--fps", "16",
                         self.path("clip.npy"), self.path("array.gdp"))
        self.assertEqual(done.returncode, 0, done.stderr)
        said = self.finish(launch(
            "filesrc location=" + self.path("array.gdp") + " ! gdpdepay ! "
            f"{DECODE} ! videocrop right=4 ! filesink "
            f"location={self.path('out.rgb')}"))
        self.assertEqual(said, "")
        found = self.read(self.path("out.rgb"))
        self.assertEqual(found[:len(self.frames)], self.frames)
        self.assertEqual(len(found) // FRAME, 4 * LATENTS - 3)

    def test_refused(self):
        empty = self.path("empty")
        open(empty, "wb").close()
        cut = self.path("cut")
        with open(cut, "wb") as file:
            file.write(self.read(self.clip)[:-1])
        text = self.path("text")
        with open(text, "w", encoding="ascii") as file:
            file.write("no latents at all")
        weights = os.path.join(streams.PIPELINES, "demo", "demo.safetensors")
        for path, words in ((empty, "empty"), (cut, "expected"),
                            (text, "neither .npy nor safetensors"),
                            (weights, "67 tensors may be"), ("/none", "/none")):
            done = self.send("--space", "wan2.1", path, self.path("x.gdp"))
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_receiver_dies(self):
        port = streams.free_port()
        process = launch(f"tcpserversrc host=127.0.0.1 port={port} ! gdpdepay "
                         f"! {DECODE} ! fakesink")
        array, _ = vaesend_file.open_latents(self.clip)
        with self.assertRaisesRegex(vaesend.ReceiverGone, "closed the"):
            with vaesend.Sender(f"tcp://127.0.0.1:{port}", "gst-vae-demo",
                                layout="tchw", retry=600) as sender:
                sender.send(array)
                process.kill()
                while True:
                    sender.send(array)
        streams.ended(process)


if __name__ == "__main__":
    streams.main("gdpdepay", "tcpserversrc", "vaedecode")
