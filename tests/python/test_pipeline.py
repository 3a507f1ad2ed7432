"""stream(): files, elements and objects with write(), through a pipeline of GStreamer."""
import fcntl
import io
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest.mock
import warnings

import small
from small import gst_vae

try:
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
except (ImportError, ValueError) as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    import gi.overrides.Gst  # maps a buffer without a copy
    import numpy
except ImportError:
    numpy = None

Gst.init(None)
REF = {"backend": "ref", "precision": "fp32", "slice_size": 1}
WAN = small.weights("wan21")
Error, PipelineError = gst_vae.Error, gst_vae.PipelineError


def missing(*names):
    return [name for name in names if not Gst.ElementFactory.find(name)]


def boxes(data):
    """[(kind, content)] of the boxes of an MP4."""
    made, at = [], 0
    while at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        made.append((kind.decode(), data[at + 8:at + length]))
        at += max(length, 8)
    return made


def frames_of(moov):
    """The number of frames that the index of an MP4 lists."""
    for kind in ("trak", "mdia", "minf", "stbl", "stsz"):
        moov = dict(boxes(moov))[kind]
    return struct.unpack_from(">I", moov, 8)[0]


def raw(path, form="RGB"):
    return f"video/x-raw,format={form} ! filesink location=\"{path}\""


class Clips(small.Test):
    """The frames are those of decode()."""

    def setUp(self):
        super().setUp()
        self.vae = gst_vae.open(WAN)
        self.latents = small.tensor([16, 5, 2, 3])

    def memory(self):
        """The same network, without a file that vaedecode could read."""
        return gst_vae.open(small.state(WAN)[0])

    def streamed(self, latents, vae, **settings):
        gst_vae.stream(latents, raw(self.path("frames")), vae, **{**REF, **settings})
        with open(self.path("frames"), "rb") as file:
            return file.read()

    def pieces(self):
        """One latent, then several, without and with the axis of time."""
        yield memoryview(small.part(self.latents, 1, 0, 1).tobytes()).cast(
            "f", [16, 2, 3])
        yield small.part(self.latents, 1, 1, 3)
        yield small.part(self.latents, 1, 3, 5)

    def test_frames(self):
        whole = self.vae.decode(self.latents, **REF).tobytes()
        cut = memoryview(self.vae.decode(self.latents, size=(22, 14), frames=10,
                                         **REF)).tobytes()
        nothing = {"strips": 0}  # is no property of vaedecode
        for vae in (self.vae, WAN, self.memory()):
            for more in ({}, nothing):
                self.assertEqual(self.streamed(self.latents, vae, **more), whole)
                self.assertEqual(self.streamed(self.pieces(), vae, **more), whole)
                made = self.streamed(self.latents, vae, size=(22, 14), frames=10, **more)
                # GStreamer's rows are of whole words.
                rows = b"".join(made[at:at + 66] for at in range(0, len(made), 68))
                self.assertEqual(rows, cut)

    def test_file_of_latents(self):
        numbers = [x / 2 for x in self.latents.cast("B").cast("f")]
        data = memoryview(small.array.array("f", numbers)).cast("B").cast(
            "f", self.latents.shape)
        small.write(self.path("clip"), "latent", data, {
            "vae.normalization": "raw", "vae.framerate": "24/1", "vae.frames": "15"})
        clip = gst_vae.Latents(self.path("clip"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these latents are not really raw
            self.assertEqual(self.streamed(clip, self.vae),
                             self.vae.decode(clip, **REF).tobytes())

    def test_doubled_size(self):
        """A decoder that doubles the size, also for a size that is not even."""
        tensors, metadata = small.tensor_files.load(WAN)
        for name in ("decoder.head.2.weight", "decoder.head.2.bias"):
            kind, shape, data = tensors[name]
            tensors[name] = kind, [4 * shape[0], *shape[1:]], 4 * bytes(data)
        small.tensor_files.save(self.path("doubled.safetensors"), tensors, metadata)
        vae = gst_vae.open(self.path("doubled.safetensors"))
        self.assertEqual(vae.info.scale, 2)
        for size in (None, (40, 28), (39, 27)):
            frames = self.streamed(self.latents, vae, size=size)
            whole = memoryview(vae.decode(self.latents, size=size, **REF))
            row = 3 * whole.shape[2]
            step = row + -row % 4  # GStreamer's rows are of whole words
            self.assertEqual(b"".join(frames[at:at + row] for at in range(
                0, len(frames), step)), whole.tobytes())

    def caps_of(self, path, demuxer):
        """width, height, frame rate and pixel aspect ratio of a video file."""
        pipeline = Gst.parse_launch(f'filesrc location="{path}" ! {demuxer} ! fakesink '
                                    "name=sink")
        pipeline.set_state(Gst.State.PAUSED)
        pipeline.get_state(Gst.CLOCK_TIME_NONE)
        caps = pipeline.get_by_name("sink").get_static_pad("sink").get_current_caps()
        pipeline.set_state(Gst.State.NULL)
        # Structures of caps are other objects in GStreamer 1.26.
        return tuple(re.search(name + r"=\(\w+\)([^,;]+)", caps.to_string())[1] for name in (
            "width", "height", "framerate", "pixel-aspect-ratio"))

    def test_what_a_file_states(self):
        """The video has it, or a warning says what is lost."""
        path = self.path("clip.safetensors")
        small.tensor_files.save(path, {
            "latent": ("F32", [16, 5, 4, 5], small.tensor([16, 5, 4, 5]).tobytes()),
            "latent_times": ("U8", [5, 16], bytes(80))}, {
                "vae.framerate": "25/1", "vae.pixel_aspect_ratio": "4/3",
                "vae.width": "39", "vae.height": "31",
                "vae.tag.image-orientation": "rotate-90"})
        for name, encoder, demuxer, size in (
                ("a.mp4", "x264enc", "qtdemux", (38, 30)),
                ("a.webm", "vp8enc", "matroskademux", (39, 31))):
            if missing(encoder):
                continue
            to = self.path(name)
            for latents, rate in ((path, None), (gst_vae.Latents(path), None),
                                  (path, 20), (gst_vae.Latents(path), 20)):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    gst_vae.stream(latents, to, self.vae, framerate=rate, **REF)
                self.assertEqual(self.caps_of(to, demuxer),
                                 (*map(str, size), f"{rate or 25}/1", "4/3"))
                said, = [str(w.message) for w in caught if "lost" in str(w.message)]
                self.assertIn(f"{path} states times of its own and an orientation, which "
                              f"are lost in {to}; pipelines/", said)
                self.assertEqual(f"39x31 is odd, which H.264 cannot be: {to} has 38x30" in
                                 said, size == (38, 30))

    def test_options_of_files(self):
        path = self.path("clip.safetensors")
        small.write(path, "x", small.tensor([1, 16, 2, 2, 2]), {
            "vae.latent_space": "wan2.2", "vae.framerate": "fast"})
        own = {"latent_space": "wan2.1", "framerate": 25, "tensor": "x", "batch_index": 0,
               "variant": "wan2.1"}
        for name, kind, words in (
                ("latent_space", Error, 'set latent_space="wan2.1"$'),
                ("framerate", Error, "set framerate=$")):
            with self.assertRaisesRegex(kind, words):
                gst_vae.stream(path, "fakesink", WAN,
                               **{k: v for k, v in own.items() if k != name}, **REF)
        with self.assertWarnsRegex(gst_vae.GstVaeWarning, "latent_space wan2.1 overrides"):
            gst_vae.stream(path, "fakesink", WAN, **own, **REF)
        with self.assertRaisesRegex(TypeError, "variant"):
            gst_vae.stream(path, "fakesink", self.vae, **own, **REF)
        for vae in (self.vae, self.memory()):
            with self.assertWarnsRegex(gst_vae.GstVaeWarning, 'set normalization="'):
                gst_vae.stream(small.tensor([16, 3, 8, 8]), "fakesink", vae, normalization="raw", **REF)

    def test_bfloat16(self):
        halves = memoryview(self.latents.tobytes()).cast("H")[1::2].tobytes()
        data = memoryview(halves).cast("H", self.latents.shape)
        small.write(self.path("clip"), "latent", data)
        latents = gst_vae.Latents(self.path("clip")).latents
        self.assertEqual(latents.dtype, "bfloat16")
        for more in ({}, {"strips": 0}):
            self.assertEqual(self.streamed(latents, self.vae, **more),
                             self.vae.decode(latents, **REF).tobytes())

    def test_a_decoder_with_a_delay(self):
        vae = gst_vae.open(small.weights("ltx2_3"))
        latents = small.tensor([vae.info.latent_channels, 4, 1, 2])
        whole = vae.decode(latents, **REF).tobytes()
        self.assertEqual(self.streamed(latents, vae), whole)
        self.assertEqual(self.streamed(latents, vae, strips=0), whole)

    def test_alpha(self):
        """Elements get it; a video that is encoded has none."""
        path = small.weights("qwenimage21")
        vae = gst_vae.open(path)
        latents = small.tensor([vae.info.latent_channels, 2, 1, 2])
        whole = vae.decode(latents, **REF).tobytes()
        for vae in (path, gst_vae.open(small.state(path)[0])):
            gst_vae.stream(latents, raw(self.path("frames"), "RGBA"), vae, **REF)
            with open(self.path("frames"), "rb") as file:
                self.assertEqual(file.read(), whole)
            if not missing("vp8enc"):
                with self.assertWarnsRegex(gst_vae.GstVaeWarning, "alpha, which is lost"):
                    gst_vae.stream(latents, self.path("a.webm"), vae, **REF)

    def test_who_decodes(self):
        """vaedecode, or this process where vaedecode cannot."""
        made = []

        def play(player, items):
            made.append(player.pipeline.get_by_name("decode"))
        with unittest.mock.patch("gst_vae.pipeline.Player.play", play):
            for vae, more in ((self.vae, {}), (self.vae, {"strips": 0}),
                              (self.memory(), {})):
                self.streamed_to(vae, more)
        self.assertEqual([bool(element) for element in made], [True, False, False])
        self.assertEqual(made[0].get_property("slice-size"), 1)

    def streamed_to(self, vae, more):
        gst_vae.stream(self.latents, "fakesink", vae, **REF, **more)


class Order(small.Test):
    """What leaves when."""

    def setUp(self):
        super().setUp()
        self.given = 0

    def generator(self, n):
        latent = small.tensor([16, 2, 2])
        for k in range(n):
            self.given = k + 1
            yield latent

    def test_the_generator_waits(self):
        """The generator is ahead by what waits in the elements, not by more."""
        for more in ({}, {"strips": 0}):
            read, write = os.pipe()
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
            ahead = []

            def drain():
                with open(read, "rb") as file:
                    while file.read(16 * 16 * 3):
                        # The first latent has one frame, a later one has four.
                        ahead.append(self.given - (len(ahead) + 3) // 4)
            thread = threading.Thread(target=drain)
            thread.start()
            gst_vae.stream(self.generator(60),
                           f"video/x-raw,format=RGB ! fdsink fd={write}", WAN, **REF,
                           **more)
            os.close(write)
            thread.join()
            self.assertEqual(len(ahead), 237)
            # vaedecode holds two slices of one latent and the one that it computes, and
            # two wait before it. The pipe holds some frames.
            self.assertLess(max(ahead), 20)

    def test_frames_leave_before_the_clip_ends(self):
        for container, encoder, mark in (("mp4", "x264enc", b"moof"),
                                         ("webm", "vp8enc", b"\x1fC\xb6u")):
            if missing(encoder):
                continue
            pieces = []
            sink = unittest.mock.Mock(
                write=lambda data: pieces.append((self.given, data)))
            gst_vae.stream(self.generator(60), sink, WAN, container=container, **REF)
            first = next(given for given, data in pieces if mark in data)
            self.assertLess(first, 60)
            whole = b"".join(data for _, data in pieces)
            if container == "mp4":
                kinds = [kind for kind, _ in boxes(whole)]
                self.assertEqual(kinds[:4], ["ftyp", "moov", "moof", "mdat"])
                self.assertGreater(kinds.count("moof"), 100)


class Ends(small.Test):
    """How a stream ends, and what is left of it."""

    def frames(self, path):
        with open(path, "rb") as file:
            return frames_of(dict(boxes(file.read()))["moov"])

    def stopped(self, error, n=3):
        latent = small.tensor([16, 2, 2])
        for _ in range(n):
            yield latent
        raise error

    @unittest.skipIf(missing("x264enc", "mp4mux"), "no x264enc or mp4mux")
    def test_files_play_after_an_exception(self):
        for error in (KeyboardInterrupt(), RuntimeError("mine"), GeneratorExit()):
            path = self.path("a \"b\\c.mp4")
            with self.assertRaises(type(error)) as caught:
                gst_vae.stream(self.stopped(error), path, WAN, **REF)
            self.assertIs(caught.exception, error)
            self.assertEqual(self.frames(path), 9)

    def signalled(self, number, after):
        """Sends a signal to a process that streams without an end, while stream() waits
        for the pipeline or the generator. Returns the number of latents, the file and
        what the process said."""
        code = """if 1:
            import itertools, sys, gst_vae
            def latents():
                for k in itertools.count():
                    print(k, flush=True)
                    yield memoryview(bytes(16 * 2 * 2 * 4)).cast("f", [16, 2, 2])
            gst_vae.stream(latents(), sys.argv[1], sys.argv[2], backend="ref")
            """
        path, given = self.path("a.mp4"), 0
        with subprocess.Popen([sys.executable, "-c", code, path, WAN], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            for line in process.stdout:
                given = int(line) + 1
                if given == after:
                    process.send_signal(number)
            said = process.stderr.read()
        return given, path, said

    @unittest.skipIf(missing("x264enc", "mp4mux"), "no x264enc or mp4mux")
    def test_control_c(self):
        given, path, said = self.signalled(signal.SIGINT, 8)
        self.assertIn("KeyboardInterrupt", said)
        self.assertGreaterEqual(given, 8)
        self.assertIn(self.frames(path) // 4, range(given - 2, given + 1))

    def test_second_control_c(self):
        """The sink shows the second frame so late that one Ctrl-C would wait for it."""
        code = """if 1:
            import sys, gst_vae
            def latents():
                for _ in range(99):
                    print(flush=True)
                    yield memoryview(bytes(16 * 2 * 2 * 4)).cast("f", [16, 2, 2])
            gst_vae.stream(latents(), "fakesink sync=true", sys.argv[1],
                           framerate="1/1000", backend="ref")
            """
        with subprocess.Popen([sys.executable, "-c", code, WAN], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            for _ in range(3):
                process.stdout.readline()
            while process.poll() is None:
                process.send_signal(signal.SIGINT)
                time.sleep(0.1)
            self.assertIn("KeyboardInterrupt", process.stderr.read())

    @unittest.skipIf(missing("x264enc", "mp4mux"), "no x264enc or mp4mux")
    def test_kill(self):
        """The file has the fragments until then."""
        _, path, _ = self.signalled(signal.SIGKILL, 100)
        with open(path, "rb") as file:
            kinds = [kind for kind, _ in boxes(file.read())]
        self.assertIn("moof", kinds[kinds.index("moov"):])

    def test_elements_may_end_early(self):
        gst_vae.stream(self.stopped(AssertionError("too far"), 200),
                       "fakesink num-buffers=3", WAN, **REF)

    def test_writer_fails(self):
        if missing("x264enc"):
            self.skipTest("no x264enc")

        def write(data):
            raise BrokenPipeError("gone")
        with self.assertRaisesRegex(BrokenPipeError, "gone"):
            gst_vae.stream(self.stopped(AssertionError("too far"), 200),
                           unittest.mock.Mock(write=write), WAN, **REF)

    def test_warnings(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gst_vae.stream(memoryview(bytes(16 * 5 * 4 * 4)).cast("f", [16, 5, 2, 2]),
                           "fakesink", WAN, **REF)
        self.assertEqual([(w.category, w.filename) for w in caught],
                         [(gst_vae.GstVaeWarning, __file__)])


@unittest.skipUnless(numpy, "no numpy or python3-gst-1.0")
class Neighbours(small.Test):
    """Tensors share the memory of buffers, in both directions."""

    def address(self, buffer):
        with buffer.map(Gst.MapFlags.READ) as info:
            return numpy.frombuffer(info.data, numpy.uint8).ctypes.data

    def test_frames_of_a_pipeline(self):
        pipeline = Gst.parse_launch("videotestsrc num-buffers=1 ! video/x-raw,format=RGB,"
                                    "width=24,height=16 ! appsink name=sink")
        pipeline.set_state(Gst.State.PLAYING)
        buffer = pipeline.get_by_name("sink").emit("pull-sample").get_buffer()
        pipeline.set_state(Gst.State.NULL)
        with buffer.map(Gst.MapFlags.READ) as info:
            frame = gst_vae.tensor(info.data.cast("B", (16, 24, 3)))
            for array in numpy.asarray(frame), numpy.from_dlpack(frame):
                self.assertEqual(array.ctypes.data, self.address(buffer))

    def test_frames_into_a_buffer(self):
        """The decoder writes into the memory of a buffer."""
        latent = small.tensor([16, 1, 2, 3])
        buffer = Gst.Buffer.new_allocate(None, 24 * 16 * 3, None)
        with gst_vae.open(WAN).decoder(24, 16, dtype="uint8", **REF) as decoder:
            expected = bytes(decoder(latent).tobytes())
            decoder.finish()
            with buffer.map(Gst.MapFlags.WRITE) as info:
                decoder(latent, out=info.data.cast("B", (1, 16, 24, 3)))
        self.assertEqual(buffer.extract_dup(0, buffer.get_size()), expected)

    def test_latents_into_a_pipeline(self):
        arrived = []
        pipeline = Gst.parse_launch(
            "appsrc name=from format=time caps=video/x-vae-latent,type=float32,"
            "channels=16,latent-width=3,latent-height=2,framerate=16/1 ! vaedecode "
            f"name=d backend=ref model={WAN} ! fakesink")
        pipeline.get_by_name("d").get_static_pad("sink").add_probe(
            Gst.PadProbeType.BUFFER,
            lambda _, info: arrived.append(self.address(info.get_buffer())) or
            Gst.PadProbeReturn.OK)
        pipeline.set_state(Gst.State.PLAYING)
        buffer = Gst.Buffer.new_allocate(None, 16 * 2 * 3 * 4, None)
        with buffer.map(Gst.MapFlags.WRITE) as info:
            latent = numpy.asarray(gst_vae.tensor(info.data.cast("f", (16, 2, 3))))
            latent[:] = 0.5
            written = latent.ctypes.data
        source = pipeline.get_by_name("from")
        source.emit("push-buffer", buffer)
        source.emit("end-of-stream")
        message = pipeline.get_bus().timed_pop_filtered(
            Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR)
        pipeline.set_state(Gst.State.NULL)
        self.assertEqual(message.type, Gst.MessageType.EOS)
        self.assertEqual(arrived, [written])


class Wrong(small.Test):
    def test_rows(self):
        good = small.tensor([16, 2, 2, 2])

        def other():
            yield good
            yield small.tensor([16, 2, 1])
        rows = [
            (Error, "no latents", ([], "fakesink"), {}),
            (Error, "15x2x2, expected", ([small.tensor([15, 2, 2])], "fakesink"), {}),
            (Error, r"is float32 16x2x1, expected float32 16x2x2 as before",
             (other(), "fakesink"), {}),
            (TypeError, "expected a tensor", (None, "fakesink"), {}),
            (TypeError, "expected a tensor", ([1.0], "fakesink"), {}),
            (TypeError, "str|path", (good, 7), {}),
            (TypeError, "no setting 'speed'", (good, "fakesink"), {"speed": 1}),
            (TypeError, "no setting 'width'; .* size=", (good, "fakesink"), {"width": 1}),
            (Error, "precision is fp4, expected", (good, "fakesink"),
             {"precision": "fp4"}),
            (Error, "framerate is fast, expected", (good, "fakesink"),
             {"framerate": "fast"}),
            (Error, "framerate is 0, expected", (good, "fakesink"), {"framerate": 0}),
            (Error, "container is avi, expected one of mp4, mkv, webm",
             (good, io.BytesIO()), {"container": "avi"}),
            (PipelineError, "expected a path that ends with .mp4", (good, "out.avi"), {}),
            (PipelineError, "no element \"nosuch\"", (good, "identity ! nosuch"), {}),
            (PipelineError, "to: .*/nowhere/a", (
                good, "filesink name=to location=/nowhere/a"), {}),
            (PipelineError, "needs whipclientsink, and none is installed",
             (good, "whip+https://host/path"), {}),
        ]
        for kind, words, (latents, to), settings in rows:
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                gst_vae.stream(latents, to, WAN, **{"backend": "ref", **settings})

    def test_parts(self):
        with self.assertRaises(PipelineError) as caught:
            gst_vae.stream(small.tensor([16, 2, 2, 2]),
                           "identity name=mine error-after=1 ! fakesink", WAN, **REF)
        self.assertEqual((caught.exception.element, caught.exception.status),
                         ("mine", "pipeline"))

    def test_encoders(self):
        with unittest.mock.patch("gst_vae.pipeline.ENCODERS", (
                ("h264", "nosuch1", ""), ("h264", "nosuch2", ""))):
            with self.assertRaisesRegex(
                    PipelineError, "needs nosuch1 or nosuch2, and none is installed"):
                gst_vae.stream(small.tensor([16, 2, 2, 2]), "a.mp4", WAN, **REF)

    def test_without_gstreamer(self):
        with unittest.mock.patch.dict(sys.modules, {"gi": None}):
            with self.assertRaisesRegex(PipelineError, "install .*python3-gi"):
                gst_vae.stream(small.tensor([16, 2, 2, 2]), "a.mp4", WAN, **REF)


if __name__ == "__main__":
    small.main()
