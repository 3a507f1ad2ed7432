"""Wrong uses of the package end in an exception: nothing hangs, and the next call
works."""
import array
import math
import os
import subprocess
import sys
import threading
import time
import unittest
import warnings

import small
from small import gst_vae

REF = {"backend": "ref"}
WAN = small.weights("wan21")
Error = gst_vae.Error


class Values(small.Test):
    def test_wrong_arguments(self):
        vae = gst_vae.open(WAN)
        good = small.tensor([16, 1, 2, 2])
        video = small.tensor([1, 16, 16, 3], "B")
        rows = [
            (Error, "15x1x2x2, expected", lambda: vae.decode(small.tensor([15, 1, 2, 2]))),
            (Error, 'other dimension has 16: if these are the channels, set layout="tchw"',
             lambda: vae.decode(small.tensor([1, 5, 16, 2, 2]))),
            (Error, r"last dimension has 16: if these are the channels, "
             r"permute the tensor to \[B, C, T, h, w\], by",
             lambda: vae.decode(small.tensor([1, 5, 2, 3, 16]))),
            (Error, r"5x2x3x16, .*, permute the tensor to \[C, T, h, w\], by",
             lambda: vae.decode(small.tensor([5, 2, 3, 16]))),
            (Error, r"2x3x16, .*, permute the tensor to \[C, h, w\], by",
             lambda: vae.decode(small.tensor([2, 3, 16]))),
            (Error, 'set layout="cthw"',
             lambda: vae.decode(small.tensor([16, 5, 2, 2]), layout="tchw")),
            (ValueError, "layout is", lambda: vae.decode(good, layout="thwc")),
            (Error, "are 16, expected", lambda: vae.decode(small.tensor([16]))),
            (Error, "no latents", lambda: vae.decode(memoryview(b"").cast("B"))),
            (Error, "are uint8, expected float32",
             lambda: vae.decode(small.tensor([16, 1, 2, 2], "B"))),
            (TypeError, "expected a tensor", lambda: vae.decode(None)),
            (TypeError, "expected a tensor", lambda: vae.decode([1.0, 2.0])),
            (TypeError, "no setting 'speed'", lambda: vae.decode(good, speed=1)),
            *((TypeError, f"no setting '{name}'; the latents tell the size, or size=.width",
               lambda name=name: vae.decode(good, **{name: 40}))
              for name in ("width", "height")),
            *((TypeError, f"no setting '{name}'; the frames tell it",
               lambda name=name: vae.encode(video, **{name: 40}))
              for name in ("width", "height", "dtype", "pixels")),
            (TypeError, "no setting 'pixels'$", lambda: vae.decode(good, pixels="rgba")),
            *((TypeError, f"no setting '{name}'$", lambda call=call, name=name: call(
                16, 16, **{name: "decode"})) for call in (vae.decoder, vae.encoder)
              for name in ("vae", "direction")),
            (Error, "backend is gpu", lambda: vae.decode(good, backend="gpu")),
            (Error, "precision is None", lambda: vae.decode(good, precision=None)),
            (Error, "threads is many", lambda: vae.decode(good, threads="many", **REF)),
            (Error, "threads is 9999999999999",
             lambda: vae.decode(good, threads=9999999999999, **REF)),
            (Error, "seed is -1", lambda: vae.decode(good, seed=-1, **REF)),
            (Error, "memory_limit is lots",
             lambda: vae.decode(good, memory_limit="lots", **REF)),
            (Error, "int16", lambda: vae.decode(good, dtype="int16", **REF)),
            (Error, "needs torch", lambda: vae.decode(good, dtype="bfloat16", **REF)),
            (Error, "size|width", lambda: vae.decode(good, size=(0, 16), **REF)),
            (Error, "for 64x64 pixels", lambda: vae.decode(good, size=(64, 64), **REF)),
            (Error, "out is uint8 1x1x16x15x3", lambda: vae.decode(
                good, out=bytearray_of([1, 16, 15, 3]), **REF)),
            (Error, "not writable", lambda: vae.decode(good, out=bytes(768), **REF)),
            (TypeError, "progress", lambda: vae.decode(good, progress=3, **REF)),
            (Error, "are 3x16x16, expected", lambda: vae.encode(small.tensor([3, 16, 16], "B"))),
            (Error, "are 0, expected", lambda: vae.encode(memoryview(b""))),
            (Error, "expected .T, H, W, 3", lambda: vae.encode(
                small.tensor([1, 16, 16, 4], "B"), **REF)),
            (Error, "latents are uint8", lambda: vae.encode(video, latents="uint8",
                                                            **REF)),
            (Error, "variant", lambda: gst_vae.open(WAN, variant="taehv")),
            (Error, "nowhere", lambda: gst_vae.open("/nowhere/vae.safetensors")),
            (Error, "no/model", lambda: gst_vae.open("no/model")),
            (TypeError, "str, bytes or os.PathLike", lambda: gst_vae.open(7)),
            (TypeError, "name of a tensor is 7", lambda: gst_vae.open({7: good})),
            (TypeError, "a: expected a tensor", lambda: gst_vae.open({"a": 1})),
            (Error, "no known VAE", lambda: gst_vae.open({"a": good})),
            (Error, "no known VAE", lambda: gst_vae.open({})),
            (ValueError, "2.56", lambda: vae.frames_of(-1)),
            (Error, "backend is gpu", lambda: gst_vae.available("gpu")),
            (Error, "no tensor|holds|latent", lambda: gst_vae.Latents(WAN)),
            (ValueError, "layout is \"x\", expected auto, cthw, tchw, bcthw or btchw",
             lambda: gst_vae.Latents(WAN, layout="x")),
            (Error, "pixels", lambda: vae.encoder(32, 32, **REF)(video)),
            (Error, "are int32, expected uint8, float32, float16",
             lambda: vae.encode(memoryview(video).cast("B").cast("i", [1, 16, 4, 3]))),
            (Error, "the encoder takes float32",
             lambda: vae.encoder(16, 16, dtype="float32", **REF)(video)),
            (Error, "plane 1", lambda: vae.encoder(16, 16, dtype="nv12", **REF)(
                (small.tensor([16, 16], "B"), small.tensor([8, 8, 3], "B")))),
            (TypeError, "cannot create", lambda: type(vae.model)()),
            (IndexError, "outside", lambda: gst_vae.tensor(good)[16]),
            (ValueError, "3 bytes are no packed float32",
             lambda: gst_vae._engine.typed(b"123", "float32", (1,))),
            (ValueError, "0 bytes are no packed uint8",
             lambda: gst_vae._engine.typed(b"", "uint8", (2**62, 2**62))),
            (ValueError, "each axis once", lambda: gst_vae.tensor(good).moved(0, 0, 1, 2)),
            (IndexError, "outside", lambda: gst_vae.tensor(good).part(3, 2)),
        ]
        for kind, words, call in rows:
            with self.subTest(words):
                with self.assertRaisesRegex(kind, words) as caught:
                    call()
                self.assertNotIn("Traceback", str(caught.exception))
        self.assertEqual(vae.decode(good, **REF).shape, (1, 16, 16, 3))

    def test_files_of_latents(self):
        vae = gst_vae.open(WAN)
        small.write(self.path("other"), "latent", small.tensor([16, 1, 2, 2]),
                    {"vae.latent_space": "hunyuan"})
        with self.assertRaisesRegex(Error, "other: the latent space is hunyuan, the model "
                                    ".*wan21.* expects wan2.1"):
            vae.decode(gst_vae.Latents(self.path("other")), **REF)
        small.write(self.path("other"), "latent", small.tensor([48, 16, 1, 1]))
        for layout, shape in (("tchw", (16, 48, 1, 1)), ("cthw", (48, 16, 1, 1))):
            clip = gst_vae.Latents(self.path("other"), layout=layout)
            self.assertEqual(tuple(clip.latents.shape), shape)
        stated = {layout: vae.decode(gst_vae.Latents(self.path("other"), layout=layout),
                                     **REF)
                  for layout in ("auto", "tchw")}
        self.assertEqual(stated["auto"].tobytes(), stated["tchw"].tobytes())
        with self.assertRaisesRegex(Error, 'has 48 channels.*set layout="tchw"'):
            vae.decode(gst_vae.Latents(self.path("other"), layout="cthw"), **REF)

    def test_square_latents(self):
        """If both axes fit the model, or images are ComfyUI's, the layout is a guess."""
        vae, square = gst_vae.open(WAN), small.tensor([16, 16, 1, 1])
        small.write(self.path("square"), "x", square)
        small.write(self.path("images.latent"), "latent_tensor", square,
                    {"latent_format_version_0": ""})
        made = {}
        for name, layout, guessed in (("square", "auto", True), ("square", "cthw", False),
                                      ("images.latent", "auto", True),
                                      ("images.latent", "tchw", False)):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                made[name, layout] = vae.decode(
                    gst_vae.Latents(self.path(name), layout=layout), **REF).tobytes()
            self.assertEqual(['is a guess: set layout="cthw" or "tchw"' in
                              str(warning.message) for warning in said
                              if "layout" in str(warning.message)], [True] * guessed)
        self.assertEqual(made["square", "auto"], made["square", "cthw"])
        self.assertEqual(made["images.latent", "auto"], made["images.latent", "tchw"])

    def test_square_images(self):
        """The same for an array of as many images as channels."""
        vae = gst_vae.open(small.weights("taef2"))
        n = vae.info.latent_channels
        for shape, guesses in (([n, n, 1, 1], 1), ([n - 1, n, 1, 1], 0),
                               ([n, n, 1, 1, 1], 0)):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                vae.decode(small.tensor(shape), **REF)
            self.assertEqual(sum("is a guess" in str(w.message) for w in said), guesses)

    def test_batches(self):
        vae, batch = gst_vae.open(WAN), small.tensor([2, 16, 1, 2, 2])
        small.write(self.path("batch"), "x", batch)
        with self.assertRaisesRegex(Error, "a batch of 2 clips.* batch_index="):
            gst_vae.Latents(self.path("batch"))
        whole = vae.decode(small.part(batch, 0, 1, 2), **REF).tobytes()
        latents = gst_vae.Latents(self.path("batch"), batch_index=1)
        self.assertEqual(vae.decode(latents, **REF).tobytes(), whole)
        named = vae.decode(self.path("batch"), batch_index=1, tensor="x", **REF)
        self.assertEqual(named.tobytes(), whole)
        with self.assertRaisesRegex(TypeError, "batch_index"):
            vae.decode(batch, batch_index=1, **REF)

    def test_parts_of_an_error(self):
        with self.assertRaises(Error) as caught:
            gst_vae.open(WAN, variant="taehv")
        error = caught.exception
        self.assertEqual((error.found, error.expected, error.tensor, error.status),
                         ("wan2.1", "taehv", "", "model"))

    def test_out_of_memory(self):
        vae = gst_vae.open(WAN)
        for kind in (MemoryError, Error, gst_vae.OutOfMemory):
            with self.assertRaisesRegex(kind, "bytes|MiB|KiB"):
                vae.decoder(64, 64, memory_limit=1000, **REF)
        with self.assertRaises(MemoryError):
            vae.plan(64, 64, memory_limit="1K", **REF)


def bytearray_of(shape):
    return memoryview(bytearray(small.product(shape))).cast("B", shape)


class Warnings(small.Warned):
    def test_each_clip(self):
        """A stream that is kept judges each clip, and names it."""
        vae = gst_vae.open(WAN)
        latents = small.tensor([2, 16, 1, 8, 8])
        zeros = memoryview(bytes(latents.nbytes)).cast("f", latents.shape)
        for _ in range(2):
            said = self.said(lambda: vae.decode(zeros, **REF))
            self.assertEqual([text.split(" has ")[0] for text in said],
                             ["clip 0 of the batch: the first latent",
                              "clip 1 of the batch: the first latent"])
        black = memoryview(bytes(5 * 16 * 16 * 3)).cast("B", [5, 16, 16, 3])
        for _ in range(2):
            said = self.said(lambda: vae.encode(black, **REF))
            self.assertEqual(len(said), 1, said)
            self.assertIn("frames has only one colour", said[0])
        small.write(self.path("clip"), "x", small.part(latents, 0, 0, 1))
        said = self.said(lambda: vae.decode(self.path("clip"), normalization="raw", **REF))
        self.assertIn('clip: tensor "x": the latents are taken as raw', said[0])
        small.write(self.path("clip"), "x", small.part(latents, 0, 0, 1),
                    {"vae.normalization": "raw"})
        said = self.said(lambda: vae.decode(self.path("clip"), **REF))
        self.assertIn('"x": the file states that the latents are raw', said[0])

    def test_one_buffer(self):
        """Frames that share a buffer count as others, also within one call."""
        encoder = gst_vae.open(WAN).encoder(16, 16, **REF)
        frame = encoder.pictures_of(memoryview(bytes(16 * 16 * 3)).cast("B", [1, 16, 16, 3]))
        said = self.said(lambda: encoder.run(frame * 97, 25))
        self.assertEqual([text.split(": ")[0] for text in said if "colour" in text],
                         ["each of the first 48 frames has only one colour"])

    def test_frames(self):
        """As vaetool says it of a file."""
        vae = gst_vae.open(WAN)
        for shape, kind, words in (
                ([1, 3, 16, 16], "B", r"1x3x16x16, expected \[T, H, W, 3\]; if the dimension of 3 has "
                 r"the colours, make it the last one, by moveaxis\(x, 1, -1\)"),
                ([3, 1, 16, 16], "f", r"moveaxis\(x, 0, -1\)"),
                ([1, 1, 16, 16, 3], "B", "batch of 1 in front: leave this out"),
                ([2, 1, 16, 16, 3], "B", "batch in front: encode its clips one after another"),
                ([1, 16, 16, 3], "i", r"int32, expected uint8, .*float64: convert values of "
                 r"0 to 255 by x.to\(torch.uint8\).*, others to floats of info.pixel_range")):
            size = math.prod(shape) * (1 if kind == "B" else 4)
            with self.subTest(shape=shape), self.assertRaisesRegex(Error, words):
                vae.encode(memoryview(bytes(size)).cast(kind, shape), **REF)
        values = array.array("f", (i % 256 for i in range(16 * 16 * 3)))
        said = self.said(lambda: vae.encode(
            memoryview(values).cast("B").cast("f", [1, 16, 16, 3]), **REF))
        self.assertIn('if black and white are "0 255", convert the values to -1 to 1', said[0])

    def test_several_networks(self):
        """The choice of the network is a warning, unless the user makes it."""
        both = {prefix + name: found for prefix, network in (("vae.", "wan21"),
                                                             ("mine.", "taehv/taew2_1"))
                for name, found in
                small.tensor_files.load(small.weights(network))[0].items()}
        path = small.tensor_files.save(self.path("both.safetensors"), both)
        said = self.said(lambda: gst_vae.open(path))
        self.assertEqual(len(said), 1, said)
        self.assertIn("both.safetensors: could be several networks; wan2.1 is taken", said[0])
        self.assertIn('set variant="taew2_1"', said[0])
        for variant in ("taew2_1", "vae."):
            self.assertEqual(self.said(lambda: gst_vae.open(path, variant=variant)), [])

    def test_nan_frame(self):
        vae = gst_vae.open(WAN)
        numbers = small.array.array("f", small.tensor([5, 16, 16, 3]).cast("B").cast("f"))
        numbers[2 * 768 + 5] = float("nan")
        frames = memoryview(numbers).cast("B").cast("f", [5, 16, 16, 3])
        said = self.said(lambda: vae.encode(frames, **REF))
        self.assertIn("values of frame 2 are NaN", said)
        with self.assertRaisesRegex(Error, "^frame 2 has values that are not finite"):
            vae.encode(frames, nan_policy="error", **REF)

    def test_axes(self):
        """Arrays are read as files are, and the advice is taken."""
        vae = gst_vae.open(WAN)
        for shape, layout, guesses in (
                ([1, 16, 16, 1, 1], "auto", 1), ([16, 16, 1, 1], "auto", 1),
                ([16, 16, 1, 1], "tchw", 0), ([1, 16, 16, 1, 1], "bcthw", 0),
                ([2, 16, 3, 16], "auto", 1), ([2, 16, 3, 16], "tchw", 0),
                ([16, 3, 16], "auto", 1), ([16, 3, 16], "cthw", 0),
                ([2, 16, 3, 2], "auto", 0)):
            data = small.tensor(shape)
            with self.subTest(shape=shape, layout=layout):
                said = self.said(lambda: vae.decode(data, layout=layout, **REF))
                self.assertEqual(sum("is a guess" in text for text in said), guesses, said)
        self.assertEqual(vae.decode(small.tensor([2, 16, 3, 2]), **REF).shape,
                         (5, 24, 16, 3))

    def test_types(self):
        for code, name in (("q", "int64"), ("?", "bool"), ("H", "uint16"), ("i", "int32")):
            data = memoryview(bytes(8 * 64)).cast(code)
            count = len(data) // 16
            with self.assertRaisesRegex(Error, f"latents are {name}, expected float32.*: "
                                        r"convert them, by \.float\(\)"):
                gst_vae.open(WAN).decode(data.cast("B").cast(code, [16, 1, 1, count]), **REF)

    def test_bytes_as_path(self):
        path = os.fsencode(WAN)
        vae = gst_vae.open(path)
        small.write(self.path("clip"), "x", small.tensor([16, 1, 2, 2]))
        self.assertEqual(vae.decode(os.fsencode(self.path("clip")), **REF).shape,
                         (1, 16, 16, 3))


class States(small.Test):
    def setUp(self):
        super().setUp()
        self.vae = gst_vae.open(WAN)
        self.latent = small.tensor([16, 1, 2, 2])

    def test_closed(self):
        decoder = self.vae.decoder(16, 16, **REF)
        decoder.close()
        decoder.close()
        for call in (lambda: decoder(self.latent), decoder.finish, decoder.reset,
                     lambda: decoder.plan, lambda: decoder.stats, decoder.release,
                     lambda: decoder.save(self.path("x")),
                     lambda: decoder.load(self.path("x"))):
            with self.assertRaisesRegex(Error, "the stream is closed"):
                call()
        decoder.cancel()

    def test_cancel_from_another_thread(self):
        """It also shows that another thread runs meanwhile."""
        with self.vae.decoder(256, 256, **REF) as decoder:
            running = threading.Event()

            def cancel():
                running.wait()
                while decoder.stream is not None and not ended.is_set():
                    decoder.cancel()
                    time.sleep(0.01)
            ended = threading.Event()
            thread = threading.Thread(target=cancel)
            thread.start()
            running.set()
            with self.assertRaisesRegex(gst_vae.Cancelled, "cancel"):
                decoder(small.tensor([16, 4, 32, 32]))
            ended.set()
            thread.join()
            decoder.reset()

    def test_two_threads(self):
        with self.vae.decoder(64, 64, **REF) as decoder:
            latents = small.tensor([16, 3, 8, 8])
            refused, begun = [], threading.Event()

            def other():
                begun.wait()
                while not refused:
                    try:
                        decoder.stats
                        time.sleep(0.001)
                    except Error as error:
                        refused.append(str(error))
            thread = threading.Thread(target=other)
            thread.start()
            begun.set()
            while not refused:
                decoder(latents)
            thread.join()
            self.assertEqual(refused, ["another thread uses this stream"])

    @unittest.skipUnless(hasattr(os, "fork"), "Windows has no fork()")
    def test_fork(self):
        decoder = self.vae.decoder(16, 16, **REF)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                decoder(self.latent)
                said = "decoded"
            except Error as error:
                said = str(error)
            os.write(writes, said.encode())
            del decoder
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIn("opened before a fork", os.read(reads, 1000).decode())
        os.close(reads)
        os.close(writes)
        self.assertEqual(decoder(self.latent).shape, (1, 16, 16, 3))

    def test_progress_that_raises(self):
        def broken(done, total):
            raise KeyError(done)
        with self.assertRaises(KeyError):
            self.vae.decode(self.latent, progress=broken, **REF)
        self.assertEqual(self.vae.decode(self.latent, **REF).shape, (1, 16, 16, 3))


DECODE = """
import gst_vae, signal, sys, threading, time
vae = gst_vae.open(sys.argv[1])
latents = memoryview(bytes(4 * 16 * 4 * 64 * 64)).cast("f", [16, 4, 64, 64])
small = memoryview(bytes(256)).cast("f", [16, 1, 2, 2])
decoder = vae.decoder(512, 512, backend="ref")
"""
INTERRUPTED = """
threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
try:
    print("decoding", flush=True)
    decoder(latents)
except KeyboardInterrupt:
    decoder.reset()
    print(vae.decode(small, backend="ref").shape)
"""
LEFT = """
thread = threading.Thread(target=decoder, args=[latents], daemon=True)
thread.start()
print("decoding", flush=True)
time.sleep(0.05)
"""


class Processes(small.Test):
    def begin(self, code):
        process = subprocess.Popen([sys.executable, "-c", DECODE + code, WAN], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), "decoding\n")
        return process

    def test_interrupt(self):
        """SIGINT ends a decode that would take long, and the next one works."""
        process = self.begin(INTERRUPTED)
        said, errors = process.communicate()
        self.assertEqual(said, "(1, 16, 16, 3)\n", errors)

    def test_exit_during_a_decode(self):
        process = self.begin(LEFT)
        said, errors = process.communicate()
        self.assertEqual((process.returncode, said, errors), (0, "", ""))


if __name__ == "__main__":
    small.main()
