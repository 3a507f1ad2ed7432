"""Tests the Sender of pipelines/vaesend.py: what it sends, refuses, and does if the
receiver is slow or gone.

usage: test_vaesend.py SOURCE BUILD [TEST...]
"""
import ctypes
import errno
import fcntl
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import streams
from streams import VAESEND, floats, packets

import vaesend

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


class Tensor:
    """The methods of a PyTorch tensor that vaesend uses. The tensor is on a "device" and
    its axes are exchanged, so vaesend must call cpu() and contiguous()."""

    def __init__(self, data, shape, dtype, ready=False):
        self.data, self.shape, self.dtype = bytes(data), shape, dtype
        self.ready = ready
        self.memory = ctypes.create_string_buffer(self.data, len(self.data))

    def detach(self):
        return self

    def cpu(self):
        return self

    def contiguous(self):
        return Tensor(self.data, self.shape, self.dtype, True)

    def data_ptr(self):
        return ctypes.addressof(self.memory) if self.ready else 0


class Interface:
    """The array interface of numpy, without numpy."""

    def __init__(self, data, shape, typestr, strides=None):
        self.memory = ctypes.create_string_buffer(bytes(data), len(data))
        self.__array_interface__ = {
            "shape": shape, "typestr": typestr, "version": 3,
            "strides": strides,
            "data": (ctypes.addressof(self.memory), True)}


def latent(k=0, shape=(16, 2, 3)):
    return vaesend.Array("float32", shape, floats(shape[0] * 6, 100 * k))


class Pair(unittest.TestCase):
    """A sender, and the socket that receives its bytes."""

    def pair(self, **more):
        ours, self.other = socket.socketpair()
        self.addCleanup(self.other.close)
        self.addCleanup(ours.close)
        more.setdefault("space", "gst-vae-demo")
        return vaesend.Sender(ours, **more)

    def received(self):
        found = []
        while True:
            found.append(self.other.recv(65536))
            if not found[-1]:
                return packets(b"".join(found))

    def sent(self, *latents, **more):
        with self.pair(**more) as sender:
            for one in latents:
                sender.send(one)
        return self.received()


class Spaces(unittest.TestCase):
    def test_table(self):
        """latent_spaces.json is what vaetool prints."""
        said = subprocess.run(
            [os.path.join(streams.BUILD, "engine", "vaetool"), "info", "--spaces",
             "--json"], stdout=subprocess.PIPE, check=True).stdout
        with open(os.path.join(streams.PIPELINES, "latent_spaces.json"),
                  "rb") as file:
            self.assertEqual(said, file.read())
        self.assertEqual(vaesend.SPACES["h3"], (24, 4, 24, 5))

    def test_copied_alone(self):
        """Without the table a sender must state what it has."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(VAESEND, folder)
            done = subprocess.run(
                [sys.executable, "-c", "import vaesend\n"
                 "vaesend.Sender('x', 'wan2.1', temporal=4, fps=16).close()\n"
                 "vaesend.Sender('x', 'wan2.1')"], cwd=folder,
                stderr=subprocess.PIPE, text=True, check=False)
        self.assertIn("latent_spaces.json", done.stderr)
        self.assertIn("expected it, or temporal and fps", done.stderr)


class Stream(Pair):
    def test_times_and_flags(self):
        with self.pair(fps=16) as sender:
            for k in range(3):
                sender.send(latent(k))
            sender.restart()
            sender.send(latent(3))
            sender.send(latent(4), frames=2)
        found = self.received()
        self.assertEqual([p[0] for p in found],
                         [vaesend.STREAM_START, vaesend.CAPS, vaesend.SEGMENT] +
                         [vaesend.BUFFER] * 5 + [vaesend.EOS])
        frame = 62500000
        self.assertEqual([p[2:] for p in found[3:8]], [
            (0, frame, 0, vaesend.DISCONT),
            (frame, 4 * frame, 1, vaesend.DELTA_UNIT),
            (5 * frame, 4 * frame, 2, vaesend.DELTA_UNIT),
            (9 * frame, frame, 3, 0),
            (10 * frame, 2 * frame, 4, vaesend.DELTA_UNIT)])
        self.assertEqual([p[1] for p in found[3:8]],
                         [latent(k).data for k in range(5)])

    def test_caps(self):
        caps = self.sent(latent(), space="wan2.1", fps="30000/1001",
                         normalization="raw", size=(20, 12))[1][1]
        for field in ("type=(string)float32", "channels=(int)16",
                      "latent-width=(int)3", "latent-height=(int)2",
                      "width=(int)20", "height=(int)12", '"wan2.1"',
                      "framerate=(fraction)30000/1001", "(string)raw"):
            self.assertIn(field.encode(), caps)
        self.assertIn(b"temporal-factor=(int)8", self.sent(
            latent(shape=(128, 2, 3)), space="ltx2")[1][1])

    def test_chunks(self):
        """In the space h3, one of five latents is a single frame."""
        found = self.sent(*[latent(k, (24, 2, 3)) for k in range(7)], space="h3",
                          fps=10)[3:10]
        counts = [1, 4, 4, 4, 4, 1, 4]
        self.assertEqual([p[2] for p in found],
                         [sum(counts[:k]) * 100000000 for k in range(7)])
        self.assertEqual([p[3] for p in found], [n * 100000000 for n in counts])

    def test_several_at_once(self):
        one = self.sent(*[latent(k) for k in range(3)])[3:]
        data = [latent(k).data for k in range(3)]
        tchw = vaesend.Array("float32", (3, 16, 2, 3), b"".join(data))
        cthw = vaesend.Array("float32", (1, 16, 3, 2, 3), b"".join(
            data[k][24 * c:24 * c + 24] for c in range(16) for k in range(3)))
        self.assertEqual(self.sent(tchw, layout="tchw")[3:], one)
        self.assertEqual(self.sent(cthw)[3:], one)

    def test_arrays(self):
        data = floats(96)
        for array in (Interface(data, (16, 2, 3), "<f4"),
                      Tensor(data, (16, 2, 3), "torch.float32")):
            self.assertEqual(self.sent(array)[3][1], data)
        found = self.sent(Tensor(data, (16, 4, 3), "torch.bfloat16"))
        self.assertIn(b"type=(string)bfloat16", found[1][1])
        self.assertEqual(found[3][1], data)

    @unittest.skipUnless(numpy, "no numpy")
    def test_numpy(self):
        data = numpy.arange(96, dtype="<f4").reshape(2, 3, 16)
        self.assertEqual(self.sent(data.transpose(2, 0, 1))[3][1],
                         data.transpose(2, 0, 1).copy().tobytes())
        half = data.reshape(16, 2, 3).astype("<f2")
        found = self.sent(half)
        self.assertIn(b"type=(string)float16", found[1][1])
        self.assertEqual(found[3][1], half.tobytes())

    @unittest.skipUnless(torch, "no PyTorch")
    def test_torch(self):
        for name in ("float32", "float16", "bfloat16"):
            data = torch.arange(96.).reshape(2, 3, 16).permute(2, 0, 1)
            data = data.to(getattr(torch, name)).requires_grad_()
            found = self.sent(data)
            self.assertIn(name.encode(), found[1][1])
            whole = data.detach().contiguous().view(torch.uint8).flatten()
            self.assertEqual(found[3][1], bytes(whole.tolist()))

    def test_refused(self):
        data = floats(96)
        sender = self.pair()
        for wrong, kind, text in (
                ([[0.0]], TypeError, "list is no array"),
                (Interface(data, (16, 2, 3), "<f8"), TypeError, "<f8"),
                (Interface(data, (16, 2, 3), ">f4"), TypeError, "big endian"),
                (Interface(data, (16, 2, 3), "<f4", (4, 8, 8)), TypeError,
                 "not contiguous"),
                (Tensor(data, (16, 2, 3), "torch.int64"), TypeError, "int64"),
                (latent(shape=(8, 2, 3)), ValueError, "8 channels"),
                (latent(shape=(16, 6)), ValueError, r"\[16, 6\]"),
                (latent(shape=(2, 16, 1, 2, 3)), ValueError, r"\[1, C, T"),
                (vaesend.Array("float32", (16, 2, 3), data[1:]), ValueError,
                 "383 bytes")):
            with self.assertRaisesRegex(kind, text):
                sender.send(wrong)
        self.other.setblocking(False)
        with self.assertRaises(BlockingIOError): # nothing was sent
            self.other.recv(1)
        self.other.setblocking(True)
        sender.send(latent())
        for wrong, text in ((latent(shape=(16, 3, 2)), "those before"),
                            (Tensor(data, (16, 4, 3), "torch.bfloat16"),
                             "those before are float32")):
            with self.assertRaisesRegex(ValueError, text):
                sender.send(wrong)
        with self.assertRaisesRegex(ValueError, "1 to 4"):
            sender.send(latent(1), frames=5)
        sender.send(latent(1))
        sender.close()
        self.assertEqual([p[4] for p in self.received()[3:5]], [0, 1])

    def test_settings_refused(self):
        for more, text in (({"space": "of mine"}, "expected a name"),
                           ({"space": "mine"}, "expected temporal and fps"),
                           ({"fps": 24, "space": None}, "space, or temporal and"),
                           ({"fps": 0}, "0 frames per second"),
                           ({"fps": -1}, "frames per second"),
                           ({"fps": "16/0"}, "'16/0' frames per second"),
                           ({"fps": "fast"}, "'fast' frames per second"),
                           ({"fps": float("nan")}, "frames per second"),
                           ({"fps": 1e300}, "frames per second"),
                           ({"fps": 1e-9}, "frames per second"),
                           ({"temporal": 0}, "temporal 0: expected 1 to"),
                           ({"temporal": 2.5}, "whole number"),
                           ({"channels": -16}, "channels -16: expected 1 to"),
                           ({"channels": 48}, "channels 48: expected 16, as of"),
                           ({"temporal": 8}, "temporal 8: expected 4, as of"),
                           ({"size": 32}, r"size 32: expected \(width"),
                           ({"size": (0, 16)}, "width 0: expected 1 to"),
                           ({"size": (16, "x")}, "height 'x': expected a whole"),
                           ({"retry": float("nan")}, "retry nan: expected"),
                           ({"retry": -1}, "retry -1: expected seconds"),
                           ({"timeout": 0}, "timeout 0: expected seconds"),
                           ({"send_buffer": -1}, "send_buffer -1: expected"),
                           ({"layout": "hwc"}, "cthw or tchw"),
                           ({"normalization": "x"}, "normalized, raw or comfyui")):
            with self.assertRaisesRegex(ValueError, text):
                self.pair(**more)
        for target in ("tcp://5000", "tcp://host:x", "http://host:80"):
            with self.assertRaisesRegex(ValueError, "expected tcp://"):
                vaesend.Sender(target, "wan2.1")
        for target, text in (("tcp://host:0", "port 0, expected 1 to 65535"),
                             ("tcp://host:70000", "port 70000"),
                             ("tcp://host:" + "9" * 9999, "port 9999"),
                             ("unix://" + "x" * 108, "at most 107 bytes")):
            with self.assertRaisesRegex(ValueError, text):
                vaesend.Sender(target, "wan2.1")


class BackPressure(Pair):
    SHAPE = (16, 64, 64)
    SIZE = 16 * 64 * 64 * 4
    COUNT = 64

    def big(self):
        return vaesend.Array("float32", self.SHAPE, bytes(self.SIZE))

    def test_takes_nothing(self):
        sender = self.pair(timeout=0.2, send_buffer=self.SIZE)
        with self.assertRaisesRegex(vaesend.ReceiverBusy, "nothing for 0.2 s"):
            for _ in range(self.COUNT):
                sender.send(self.big())
        self.assertLess(sender.latents, self.COUNT)
        with self.assertRaises(vaesend.ReceiverBusy): # a packet is incomplete
            sender.send(self.big())
        sender.close()

    def test_slow(self):
        """The sender is ahead of the receiver only by the buffers of the kernel."""
        sender = self.pair(send_buffer=self.SIZE)
        self.other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.SIZE)

        def send():
            with sender:
                for _ in range(self.COUNT):
                    sender.send(self.big())

        thread = threading.Thread(target=send)
        thread.start()
        taken = ahead = 0
        while True:
            # The bytes sent before this read, minus the bytes read before it.
            data = self.other.recv(self.SIZE)
            ahead = max(ahead, sender.latents * self.SIZE - taken)
            taken += len(data)
            if not data:
                break
        thread.join()
        self.assertEqual(sender.latents, self.COUNT)
        # The kernel doubles the requested sizes, on both sides.
        self.assertLessEqual(ahead, 5 * self.SIZE)


class Gone(Pair):
    def test_closed(self):
        sender = self.pair()
        sender.send(latent())
        self.other.close()
        with self.assertRaisesRegex(vaesend.ReceiverGone, "after 1 latent the|after 1 latent:"):
            sender.send(latent(1))
        with self.assertRaises(ConnectionError):
            sender.send(latent(2))
        sender.close()

    def test_closed_tcp(self):
        """The first latent after the end is refused, although TCP would accept it."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            sender = vaesend.Sender(
                f"tcp://127.0.0.1:{listener.getsockname()[1]}", "gst-vae-demo")
            other, _ = listener.accept()
        sender.send(latent())
        expected = latent().data
        data = b""
        while not data.endswith(expected):
            data += other.recv(65536)
        other.close()
        with self.assertRaisesRegex(vaesend.ReceiverGone, "after 1 latent the|after 1 latent:"):
            sender.send(latent(1))
        sender.close()

    def test_pipe(self):
        ours, other = os.pipe()
        os.close(ours)
        with os.fdopen(other, "wb", buffering=0) as file:
            sender = vaesend.Sender(file, "wan2.1")
            with self.assertRaises(vaesend.ReceiverGone):
                sender.send(latent())

    def test_no_space(self):
        """An error of a file names the file, and ends the stream."""
        sender = vaesend.Sender("/dev/full", "wan2.1")
        for _ in range(2):
            with self.assertRaisesRegex(OSError, "/dev/full: after 0 latents: "
                                        "No space") as caught:
                sender.send(latent())
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
        sender.close()

    def test_cut_within_a_packet(self):
        """After an incomplete packet the sender writes nothing, not even the end."""
        for failure in (OSError(errno.EIO, "broken"), KeyboardInterrupt()):
            with tempfile.TemporaryFile() as file:
                sender = vaesend.Sender(file, "wan2.1")
                sender.send(latent())
                write = sender.link.write

                def cut(data, write=write, failure=failure):
                    write(data[:100])
                    raise failure

                sender.link.write = cut
                with self.assertRaises(type(failure)):
                    sender.send(latent(1))
                sender.link.write = write
                end = file.seek(0, os.SEEK_END)
                with self.assertRaisesRegex(OSError, "after 1 latent the|after 1 latent:"):
                    sender.send(latent(2))
                copy = os.dup(file.fileno())
                sender.close()
                self.assertEqual(os.fstat(copy).st_size, end)
                os.close(copy)

    def test_many_descriptors(self):
        """A descriptor may be greater than select() accepts."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most != resource.RLIM_INFINITY and most < 2048:
            self.skipTest("no 2048 descriptors")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (2048, most))
        ours, self.other = socket.socketpair()
        self.addCleanup(self.other.close)
        high = socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD, 1500))
        ours.close()
        with vaesend.Sender(high, "wan2.1") as sender:
            sender.send(latent())
        self.assertEqual(len(self.received()), 5)

    def test_nobody(self):
        for target in (f"tcp://127.0.0.1:{streams.free_port()}",
                       "unix:///none/at/all"):
            with self.assertRaisesRegex(vaesend.ReceiverGone, "no receiver"):
                vaesend.Sender(target, "wan2.1")


if __name__ == "__main__":
    streams.main()
