"""The package gst_vae without a framework: its bytes are those of vaetool."""
import gc
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest.mock
import warnings
import weakref

import small
from small import gst_vae

REF = {"backend": "ref"}
# weights, latents, their height and width
NETWORKS = [("wan21", 3, 2, 3), ("wan22", 2, 1, 2), ("seedvr2", 3, 2, 2),
            ("taehv/taew2_1", 3, 2, 3), ("taehv/taeh3", 6, 1, 2), ("ltx2_3", 3, 1, 2),
            ("qwenimage21", 2, 1, 2), ("magi2_turbo", 9, 1, 1), ("hunyuan10", 7, 1, 2)]


def flat(tensor):
    return memoryview(tensor).tobytes()


class Bytes(small.Test):
    """Whole clips, streams and vaetool give the same bytes."""

    def decoded(self, name, latents):
        small.write(self.path("latents"), "latent", latents)
        small.vaetool("decode", "--model", small.weights(name), "--backend", "ref",
                      self.path("latents"), self.path("frames"))
        return small.read(self.path("frames"))["frames"]

    def stream(self, vae, latents, size, sizes):
        """The frames of a stream that gets the latents in parts of these sizes."""
        with vae.decoder(*size, dtype="float32", slice_size=2, **REF) as decoder:
            parts, at = [], 0
            for n in sizes:
                parts.append(flat(decoder(small.part(latents, 1, at, at + n))))
                at += n
            return b"".join(parts + [flat(decoder.finish())])

    def test_decode(self):
        for name, t, height, width in NETWORKS:
            with self.subTest(name):
                vae = gst_vae.open(small.weights(name))
                latents = small.tensor([vae.info.latent_channels, t, height, width])
                shape, frames = self.decoded(name, latents)
                made = vae.decode(latents, dtype="float32", **REF)
                self.assertEqual(made.shape, shape)
                self.assertEqual(flat(made), frames)
                again = vae.decode(self.path("latents"), dtype="float32", slice_size=1,
                                   **REF)
                self.assertEqual(flat(again), frames)
                wide = small.wide(latents)
                small.write(self.path("wide"), "latent", wide)
                stored = gst_vae.Latents(self.path("wide"))
                self.assertEqual(flat(stored.latents), latents.tobytes())
                images = [stored.latents.moved(1, 0, 2, 3)] * (vae.info.temporal == 1)
                for given in (wide, stored, *images):
                    self.assertEqual(flat(vae.decode(given, dtype="float32", **REF)),
                                     frames)
                del given, stored  # Windows keeps a file that is in use
                for sizes in ([1] * t, [t - 1, 1]):
                    self.assertEqual(self.stream(vae, latents, shape[2:0:-1], sizes),
                                     frames)

    def encoded_alike(self, name, frames, *tail):
        """encode() and an encoder give the latents of vaetool. tail: none or a word."""
        vae, more = gst_vae.open(small.weights(name)), dict(zip(["tail"], tail), **REF)
        side = 2 * vae.info.spatial
        video = small.tensor([frames, side, side, vae.info.in_channels], "B")
        small.write(self.path("video"), "video_u8", video)
        small.vaetool("encode", "--model", small.weights(name), "--backend", "ref",
                      *[f"--tail={word}" for word in tail], self.path("video"),
                      self.path("latents"))
        shape, latents = small.read(self.path("latents"))["latent"]
        made = vae.encode(video, **more)
        self.assertEqual((made.shape, flat(made)), (shape, latents))
        with vae.encoder(side, side, **more) as encoder:
            parts = [encoder(small.part(video, 0, k, min(k + 3, frames)))
                     for k in range(0, frames, 3)] + [encoder.finish()]
        found = [flat(p) for p in parts if p.shape[1]]
        per_channel = [b"".join(p[c * len(p) // shape[0]:(c + 1) * len(p) // shape[0]]
                                for p in found) for c in range(shape[0])]
        self.assertEqual(b"".join(per_channel), latents)

    def test_encode(self):
        for case in (("wan21", 6), ("wan22", 5), ("taehv/taew2_1", 8), ("taehv/taeh3", 18),
                     ("ltx2_3", 9), ("qwenimage21", 2), ("hunyuan10", 31), ("hunyuan10", 6)):
            with self.subTest(case):
                self.encoded_alike(*case)

    def test_tail(self):
        for case in (("wan21", 8), ("taehv/taew2_1", 6), ("taehv/taeh3", 19), ("hunyuan10", 8)):
            with self.subTest(case):
                self.encoded_alike(*case, "drop")
        vae, few = gst_vae.open(small.weights("taehv/taew2_1")), small.tensor([3, 16, 16, 3])
        for word, said in (("cut", "tail is cut, expected repeat or drop"),
                           ("drop", "there are 3 frames, less than a group")):
            with self.assertRaisesRegex(gst_vae.Error, said):
                vae.encode(few, tail=word, **REF)

    def test_moments_and_samples(self):
        vae = gst_vae.open(small.weights("wan21"))
        video = small.tensor([1, 16, 16, 3], "f")
        small.write(self.path("frames"), "frames", video)
        small.vaetool("encode", "--model", small.weights("wan21"), "--backend", "ref",
                      "--posterior", "sample", "--seed", "7", self.path("frames"),
                      self.path("latents"))
        expected = small.read(self.path("latents"))
        made = vae.encode(video, moments=True, posterior="sample", seed=7, **REF)
        for name, tensor in zip(("latent", "mean", "logvar"), made):
            self.assertEqual(flat(tensor), expected[name][1], name)

    def test_batches_and_sizes(self):
        vae = gst_vae.open(small.weights("wan21"))
        batch = small.tensor([2, 16, 2, 2, 3])
        made = vae.decode(batch, **REF)
        self.assertEqual(made.shape, (2, 5, 16, 24, 3))
        clip = memoryview(batch.tobytes()[:batch.nbytes // 2]).cast("f", [16, 2, 2, 3])
        self.assertEqual(flat(vae.decode(clip, **REF)), flat(made[0]))
        cropped = vae.decode(clip, size=(20, 13), frames=4, **REF)
        self.assertEqual(cropped.shape, (4, 13, 20, 3))
        small.write(self.path("stated"), "latent", clip, {
            "vae.width": "20", "vae.height": "13", "vae.frames": "4"})
        stated = vae.decode(gst_vae.Latents(self.path("stated")), **REF)
        self.assertEqual((stated.shape, flat(stated)), (cropped.shape, flat(cropped)))

    def test_alpha(self):
        """It is a fourth channel. Frames without alpha are opaque."""
        vae = gst_vae.open(small.weights("qwenimage21"))
        latents = small.tensor([vae.info.latent_channels, 2, 1, 2])
        for dtype, kind, one in (("uint8", "B", b"\xff"),
                                 ("float32", "f", struct.pack("f", 1))):
            with self.subTest(dtype):
                made = vae.decode(latents, dtype=dtype, **REF)
                self.assertEqual(made.shape, (2, 16, 32, 4))
                frames = memoryview(flat(made)).cast("B").cast(kind, made.shape)
                colours = small.part(frames, 3, 0, 3)
                with self.assertWarnsRegex(gst_vae.GstVaeWarning, "alpha, which is lost"):
                    self.assertEqual(flat(vae.decode(latents, dtype=dtype, alpha=False,
                                                     **REF)), colours.tobytes())
                opaque = bytearray(frames.tobytes())
                for at in range(3 * len(one), len(opaque), 4 * len(one)):
                    opaque[at:at + len(one)] = one
                opaque = memoryview(opaque).cast(kind, frames.shape)
                found = [flat(vae.encode(t, **REF)) for t in (frames, opaque, colours)]
                self.assertEqual(found[1], found[2])
                self.assertNotEqual(found[0], found[1])
        with self.assertRaisesRegex(gst_vae.Error, r"the network reads no alpha: leave it out, by x\[\.\.\., :3\]"):
            gst_vae.open(small.weights("wan21")).encode(frames, **REF)

    def test_planes(self):
        """NV12 is I420 with U and V side by side."""
        vae = gst_vae.open(small.weights("wan21"))
        luma = small.tensor([5, 16, 16], "B")
        u, v = (small.tensor([5, 8, 8], "B", seed) for seed in (2, 3))
        both = bytes(x for pair in zip(u.tobytes(), v.tobytes()) for x in pair)
        uv = memoryview(both).cast("B", [5, 8, 8, 2])
        with vae.encoder(16, 16, dtype="nv12", **REF) as encoder:
            made = encoder((luma, uv))
        with vae.encoder(16, 16, dtype="i420", **REF) as encoder:
            self.assertEqual(flat(encoder((luma, u, v))), flat(made))
        self.assertEqual(made.shape, (16, 2, 2, 2))


class Spy:
    """A stream of the engine that notes the addresses that it gets."""

    def __init__(self, stream):
        self.stream, self.seen = stream, []

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def decode(self, latents, frames):
        self.seen += [latents.address, frames.address]
        self.stream.decode(latents, frames)

    def encode(self, frames, *latents):
        self.seen += [frame.address for frame in frames]
        self.stream.encode(frames, *latents)


class Memory(small.Test):
    """Nothing is copied that need not be."""

    def test_addresses(self):
        numbers = small.array.array("f", range(24))
        address = numbers.buffer_info()[0]
        tensor = gst_vae.tensor(memoryview(numbers).cast("B").cast("f", [2, 3, 4]))
        self.assertEqual((tensor.address, tensor.shape, tensor.dtype, tensor.strides),
                         (address, (2, 3, 4), "float32", (48, 16, 4)))
        self.assertEqual(tensor.packed().address, address)
        self.assertEqual(tensor[1].address, address + 48)
        moved = tensor.moved(1, 0, 2)
        self.assertEqual((moved.shape, moved.address), ((3, 2, 4), address))
        self.assertEqual(moved.packed(1).address, address)
        self.assertNotEqual(moved.packed().address, address)
        self.assertEqual(memoryview(moved.packed()).tolist()[2][1],
                         [20.0, 21.0, 22.0, 23.0])

    def test_the_engine_gets_the_callers_memory(self):
        vae = gst_vae.open(small.weights("wan21"))
        latent, video = small.tensor([16, 2, 2]), small.tensor([5, 16, 16, 3], "B")
        out = memoryview(bytearray(768)).cast("B", [1, 16, 16, 3])
        with vae.decoder(16, 16, **REF) as decoder:
            decoder.stream = Spy(decoder.stream)
            decoder(latent, out=out)
            self.assertEqual(decoder.stream.seen, [gst_vae.tensor(latent).address,
                                                   gst_vae.tensor(out).address])
        with vae.encoder(16, 16, **REF) as encoder:
            encoder.stream = Spy(encoder.stream)
            encoder(video)
            begin = gst_vae.tensor(video).address
            self.assertEqual(encoder.stream.seen, [begin + 768 * k for k in range(5)])

    def test_out(self):
        """Frames are written where the caller says, also of a float decoder."""
        vae = gst_vae.open(small.weights("wan21"))
        latents = small.tensor([16, 2, 2, 2])
        for dtype, code in (("uint8", "B"), ("float32", "f")):
            memory = small.array.array(code, bytes(5 * 768 * (4 if code == "f" else 1)))
            out = memoryview(memory).cast("B").cast(code, [5, 16, 16, 3])
            made = vae.decode(latents, dtype=dtype, out=out, **REF)
            self.assertEqual(gst_vae.tensor(made).address, memory.buffer_info()[0])
            self.assertEqual(memory.tobytes(),
                             flat(vae.decode(latents, dtype=dtype, **REF)))

    def test_weights_in_memory(self):
        tensors, metadata = small.state(small.weights("seedvr2"))
        with self.assertRaisesRegex(gst_vae.Error, "mine: .*norm_num_groups"):
            gst_vae.open(tensors, name="mine")
        vae = gst_vae.open(tensors, config={"norm_num_groups": 8})
        other = gst_vae.open(tensors, metadata=metadata)
        self.assertEqual(vae.fingerprint(), other.fingerprint())
        latents = small.tensor([16, 1, 2, 2])
        self.assertEqual(
            flat(vae.decode(latents, **REF)),
            flat(gst_vae.open(small.weights("seedvr2")).decode(latents, **REF)))
        kept = weakref.ref(next(iter(tensors.values())).obj)
        del tensors
        gc.collect()
        self.assertIsNotNone(kept())
        del vae, other
        gc.collect()
        self.assertIsNone(kept())

    def test_wide_weights(self):
        tensors, _ = small.state(small.weights("wan21"))
        vae = gst_vae.open({name: small.wide(t) for name, t in tensors.items()})
        self.assertEqual(vae.info.weights_type, "float64")
        latents = small.tensor([16, 2, 2, 2])
        self.assertEqual(flat(vae.decode(latents)),
                         flat(gst_vae.open(tensors).decode(latents)))
        with vae.decoder(16, 16) as decoder, self.assertRaisesRegex(
                gst_vae.Error, "are float64, expected float32"):
            decoder.stream.decode(gst_vae.tensor(small.wide(small.tensor([1, 16, 2, 2]))),
                                  [])

    def test_reuse_of_the_callers_memory(self):
        """An encoder copies the frames that wait."""
        vae = gst_vae.open(small.weights("wan21"))
        video = small.tensor([5, 16, 16, 3], "B")
        with vae.encoder(16, 16, **REF) as encoder:
            parts = []
            frame = bytearray(768)
            for k in range(5):
                frame[:] = small.part(video, 0, k, k + 1).tobytes()
                parts.append(encoder(memoryview(frame).cast("B", [16, 16, 3])))
        whole = vae.encode(video, **REF)
        second = memoryview(parts[4]).cast("B").cast("f")
        self.assertEqual(second.tolist(),
                         [x for c in memoryview(whole).tolist() for r in c[1] for x in r])


class Streams(small.Test):
    def test_checkpoint(self):
        vae = gst_vae.open(small.weights("wan21"))
        latents = small.tensor([16, 3, 2, 2])
        first, second = (small.part(latents, 1, a, b) for a, b in ((0, 2), (2, 3)))
        with vae.decoder(16, 16, **REF) as one, vae.decoder(16, 16, **REF) as other:
            one(first)
            one.save(self.path("point"))
            self.assertEqual(other.load(self.path("point")), 2)
            self.assertEqual(flat(other(second)), flat(one(second)))
            self.assertEqual(one.stats["units_in"], 3)

    def test_checkpoint_of_windows(self):
        for network in "hunyuan10", "magi2_turbo":
            vae = gst_vae.open(small.weights(network))
            with vae.decoder(96, 96, **REF) as decoder:
                with self.assertRaisesRegex(gst_vae.Error, "checkpoints have no carries"):
                    decoder.save(self.path("point"))
                decoder.save(self.path("point"), carries=False)
        with gst_vae.open(small.weights("hunyuan10")).encoder(96, 96, **REF) as encoder:
            with self.assertRaisesRegex(gst_vae.Error, "checkpoints have no carries"):
                encoder.save(self.path("point"))

    def test_plan_and_release(self):
        vae = gst_vae.open(small.weights("wan21"))
        plan = vae.plan(64, 48, slice_size=2, memory_limit="2G", **REF)
        self.assertEqual((plan.backend, plan.slice_size), ("ref", 2))
        self.assertEqual([r.total for r in plan.ladder if r.chosen], [plan.total])
        self.assertIn("slices of 2", str(plan))
        latents = small.tensor([16, 1, 2, 2])
        frames = flat(vae.decode(latents, **REF))
        kept = vae._idle[gst_vae.Decoder][1]
        vae.release()
        with self.assertRaisesRegex(gst_vae.Error, "closed"):
            kept.plan
        self.assertEqual(flat(vae.decode(latents, **REF)), frames)
        with vae.decoder(16, 16, **REF) as decoder:
            decoder.release()
            self.assertEqual(flat(decoder(latents)), frames)

    def test_sequences(self):
        vae = gst_vae.open(small.weights("wan21"))
        latents = small.tensor([16, 2, 2, 2])
        with vae.decoder(16, 16, **REF) as decoder:
            frames = flat(decoder(latents))
            self.assertEqual(decoder.finish().shape, (0, 16, 16, 3))
            self.assertEqual(flat(decoder(latents)), frames)

    def test_progress(self):
        vae = gst_vae.open(small.weights("wan21"))
        seen = []
        vae.decode(small.tensor([16, 4, 2, 2]), slice_size=2, **REF,
                   progress=lambda done, total: seen.append((done, total)))
        self.assertEqual(seen, [(1, 4), (3, 4), (4, 4)])

    def test_warning_and_log(self):
        vae = gst_vae.open(small.weights("wan21"))
        with warnings.catch_warnings(record=True) as caught, \
                self.assertLogs("gst_vae", "INFO") as log:
            warnings.simplefilter("always")
            vae.decoder(16, 16, tiles="blend", tile_width=16, tile_height=8,
                        **REF).close()
        self.assertIn("decode: ", log.output[-1])
        self.assertEqual([w.category for w in caught], [gst_vae.GstVaeWarning])
        self.assertEqual(caught[0].filename, __file__)

    def test_doubts(self):
        """A whole clip and a stream warn about input that looks wrong, once."""
        vae = gst_vae.open(small.weights("wan21"))
        latents = small.tensor([16, 3, 8, 8])
        zeros = memoryview(bytes(latents.nbytes)).cast("f", latents.shape)
        numbers = small.array.array("f", bytes(latents))
        numbers[0] = float("nan")
        broken = memoryview(numbers).cast("B").cast("f", latents.shape)
        small.write(self.path("latents"), "latent", latents)
        file = gst_vae.Latents(self.path("latents"))
        small.write(self.path("raw"), "latent", latents, {"vae.normalization": "raw"})
        stated = gst_vae.Latents(self.path("raw"))
        small.write(self.path("wrong"), "latent", latents, {
            "vae.normalization": "odd", "vae.framerate": "fast"})
        small.write(self.path("odd"), "latent", latents, {"vae.normalization": "odd"})
        own = {"normalization": "normalized", "framerate": (24, 1)}
        with self.assertRaisesRegex(gst_vae.Error, "to override it, set normalization=$"):
            gst_vae.Latents(self.path("wrong"))
        owned = gst_vae.Latents(self.path("wrong"), **own)
        self.assertEqual(owned.info.framerate, (24, 1))
        numbers = small.array.array("d", latents.cast("B").cast("f"))
        numbers[0] = 1e300
        large = memoryview(numbers).cast("B").cast("d", latents.shape)
        colours = small.array.array("f", [k % 256 / 255 for k in range(5 * 768)])
        video = memoryview(colours).cast("B").cast("f", [5, 16, 16, 3])
        raw, frames = {"normalization": "raw", **REF}, {"dtype": "float32", **REF}

        def parts(stream, data):
            stream(data)
            stream.finish()
            stream.close()

        for work, said in (
                (lambda: vae.decode(latents, **REF), None),
                (lambda: vae.decode(latents, **raw), 'set normalization="normalized"'),
                (lambda: vae.decode(file, **raw), 'set normalization="normalized"'),
                (lambda: parts(vae.decoder(64, 64, **raw), latents),
                 'set normalization="normalized"'),
                (lambda: vae.decode(stated, normalization="normalized", **REF),
                 "states normalization raw; normalization normalized overrides it"),
                (lambda: vae.decode(owned, **REF),
                 'normalization is "odd", expected normalized, raw or comfyui; it is ignored'),
                (lambda: vae.decode(self.path("odd"), normalization="normalized", **REF),
                 'normalization is "odd", expected normalized, raw or comfyui; it is ignored'),
                (lambda: vae.decode(gst_vae.Latents(self.path("raw"), **own), **REF),
                 "states normalization raw; normalization normalized overrides it"),
                (lambda: vae.decode(large, **REF), "not finite, or too large for float32"),
                (lambda: vae.decode(zeros, **REF), "latents has only one number"),
                (lambda: parts(vae.decoder(64, 64, **REF), zeros),
                 "latents has only one number"),
                (lambda: vae.decode(broken, **REF), "1 value of the latents is not"),
                (lambda: vae.encode(video, **REF), "convert the values to -1 to 1"),
                (lambda: parts(vae.encoder(16, 16, **frames), video),
                 "convert the values to -1 to 1")):
            vae.release()
            with self.subTest(said), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                work()
                self.assertEqual([(w.category, w.filename) for w in caught],
                                 [(gst_vae.GstVaeWarning, __file__)] * bool(said))
                if said:
                    self.assertIn(said, str(caught[0].message))
        # Each clip of a stream that is kept has its own warning.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for clip in (broken, latents, broken):
                vae.decode(clip, **REF)
        self.assertEqual([str(w.message).split()[-1] for w in caught],
                         ["float32", "float32"])

    def test_wrong_size(self):
        """A size that the file's latents cannot have is refused before a stream is made."""
        vae = gst_vae.open(small.weights("wan21"))
        small.write(self.path("wide"), "latent", small.tensor([16, 3, 2, 3]), {
            "vae.width": "40000", "vae.height": "40000"})
        with self.assertRaisesRegex(gst_vae.Error, "expected 5000x5000 for pictures of 4"):
            vae.decode(self.path("wide"), **REF)
        self.assertEqual(vae.decode(self.path("wide"), size=(20, 13), **REF).shape,
                         (9, 13, 20, 3))

    def test_info(self):
        info = gst_vae.open(small.weights("wan21")).info
        self.assertEqual((info.arch, info.latent_channels, info.spatial,
                          info.decode_steps), ("wan2.1", 16, 8, (1, 1, 1, 4)))
        self.assertIn("arch: wan2.1", str(info))


class Package(small.Test):
    def run_python(self, code, *arguments, **more):
        return subprocess.run([sys.executable, "-c", code, *arguments], text=True,
                              capture_output=True, **more)

    def test_imports_no_framework(self):
        done = self.run_python("import gst_vae, sys; "
                               "print({'numpy', 'torch', 'diffusers'} & {*sys.modules})")
        self.assertEqual(done.stdout, "set()\n", done.stderr)

    def test_tool(self):
        done = subprocess.run([sys.executable, "-m", "gst_vae", "--version"], text=True,
                              capture_output=True)
        self.assertIn(gst_vae.__version__, done.stdout)
        self.assertEqual(gst_vae.tool_path(), small.TOOL)

    def test_cache_of_hugging_face(self):
        folder = self.path("hub/models--some--model/snapshots/1234/vae")
        os.makedirs(folder)
        os.makedirs(self.path("hub/models--some--model/refs"))
        with open(self.path("hub/models--some--model/refs/main"), "w") as file:
            file.write("1234")
        # Windows has links for few users only.
        place = shutil.copy if os.name == "nt" else os.symlink
        place(small.weights("wan21"),
              os.path.join(folder, "diffusion_pytorch_model.safetensors"))
        done = self.run_python(
            "import gst_vae, sys; print(gst_vae.open('some/model').info.arch)",
            env={**os.environ, "HF_HUB_CACHE": self.path("hub")})
        self.assertEqual(done.stdout, "wan2.1\n", done.stderr)
        for name, said in (("some/other", re.escape(self.path("hub")) + ", has no model of this name"),
                           ("./none.pth", "none.pth: cannot open")):
            with self.subTest(name), unittest.mock.patch.dict(
                    os.environ, {"HF_HUB_CACHE": self.path("hub")}):
                with self.assertRaisesRegex(gst_vae.Error, said):
                    gst_vae.open(name)


class Numpy(small.Test):
    def setUp(self):
        super().setUp()
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        self.numpy = numpy

    def test_arrays(self):
        np = self.numpy
        vae = gst_vae.open(small.weights("wan21"))
        latents = np.random.default_rng(1).standard_normal((16, 3, 2, 2), np.float32)
        frames = vae.decode(latents, **REF)
        self.assertIs(type(frames), np.ndarray)
        self.assertEqual((frames.dtype, frames.shape), (np.uint8, (9, 16, 16, 3)))
        turned = np.ascontiguousarray(latents.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3)
        self.assertTrue((vae.decode(turned, **REF) == frames).all())
        self.assertTrue((vae.decode(latents.astype(np.float64), **REF) == frames).all())
        half = vae.decode(latents.astype(np.float16), dtype=np.float16, **REF)
        self.assertEqual(half.dtype, np.float16)
        wide = vae.decode(latents, dtype=np.float32, **REF)
        self.assertLess(abs(wide - half).max(), 0.05)
        self.assertTrue((vae.encode(wide.astype(np.float64), **REF) ==
                         vae.encode(wide, **REF)).all())
        self.assertEqual(vae.encode(frames[::2, :, ::-1], **REF).shape, (16, 2, 2, 2))


if __name__ == "__main__":
    small.main()
