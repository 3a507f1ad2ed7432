"""The options of reading a file of latents, and what is said about the file."""
import subprocess
import warnings

import small
from small import gst_vae

REF = {"backend": "ref", "precision": "fp32"}
WAN = small.weights("wan21")
Error = gst_vae.Error


class Reading(small.Warned):
    def test_options_of_files(self):
        """Advice names arguments that the call takes, and following it helps."""
        vae, path = gst_vae.open(WAN), self.path("clip.safetensors")
        other = self.path("other.safetensors")
        latents = small.tensor([16, 2, 2, 2])
        small.write(path, "x", latents, {"vae.latent_space": "wan2.2",
                                         "vae.framerate": "fast"})
        small.write(other, "x", latents, {"vae.latent_space": "wan2.2"})
        own = {"latent_space": "wan2.1", "framerate": "25/1"}
        rows = [
            (Error, "set framerate=$", {"latent_space": "wan2.1"}),
            (Error, 'to override it, set latent_space="wan2.1"$', {"framerate": 25}),
            (Error, "the latent space is sdd, which is not known",
             {**own, "latent_space": "sdd"}),
            (TypeError, "latent_space is 7", {"latent_space": 7}),
            (TypeError, "tensor is 7", {"tensor": 7}),
            (TypeError, "float", {"batch_index": 1.5}),
            (Error, "batch_index is -2, expected 0 or more", {"batch_index": -2}),
            (Error, "framerate is fast, expected a number", {"framerate": "fast"}),
            (Error, "normalization is odd, expected auto, normalized, raw or comfyui",
             {"normalization": "odd"}),
        ]
        for read in (vae.decode, lambda path, **more: vae.decode(
                gst_vae.Latents(path, **more))):
            for kind, words, more in rows:
                with self.subTest(words), self.assertRaisesRegex(kind, words):
                    read(path, **more)
            said = self.said(lambda: read(path, **own))
            self.assertIn("states latent_space wan2.2; latent_space wan2.1 overrides it",
                          " ".join(said))
        for name, value in {**own, "tensor": "x"}.items():
            with self.assertRaisesRegex(TypeError, name):
                vae.decode(latents, **{name: value})

    def test_automatic_normalization(self):
        """It is what the file states, or normalized, also for tensors and frames."""
        vae, path = gst_vae.open(WAN), self.path("raw")
        latents = small.tensor([16, 2, 2, 2])
        small.write(path, "x", latents, {"vae.normalization": "raw"})
        auto = {**REF, "normalization": "auto"}
        raw, normalized = (bytes(vae.decode(latents, normalization=word, **REF))
                           for word in ("raw", "normalized"))
        self.assertNotEqual(raw, normalized)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?!.*overrides).*", gst_vae.GstVaeWarning)
            warnings.filterwarnings("error", ".*overrides", gst_vae.GstVaeWarning)
            self.assertEqual(bytes(vae.decode(path, **auto)), raw)
            own = gst_vae.Latents(path, normalization="auto")
            self.assertEqual(bytes(vae.decode(own, **auto)), raw)
        self.assertEqual(bytes(vae.decode(latents, **auto)), normalized)
        frames = small.tensor([5, 16, 16, 3], "B")
        self.assertEqual(bytes(vae.encode(frames, **auto)), bytes(vae.encode(frames, **REF)))

    def test_no_normalization(self):
        """A file that states none brings the sentence of vaetool."""
        vae, path = gst_vae.open(WAN), self.path("clip")
        words = (f"{path} states no normalization: the latents are taken as normalized, "
                 "unless normalization is set")
        for stated, own, times in (({}, {}, 1), ({}, {"normalization": "normalized"}, 0),
                                   ({"vae.normalization": "normalized"}, {}, 0)):
            small.write(path, "x", small.tensor([16, 2, 2, 2]), stated)
            for read in (lambda: vae.decode(path, **own, **REF),
                         lambda: vae.decode(gst_vae.Latents(path), **own, **REF),
                         lambda: vae.decode(gst_vae.Latents(path, **own), **REF),
                         lambda: gst_vae.Latents(path, **own).latents):
                said = " ".join(self.said(read))
                self.assertEqual(said.count(words), times, said)

    def test_unknown_scale(self):
        """A doubt about the network ends once the user has set the normalization."""
        vae, path = gst_vae.open(small.weights("taehv/taecvx")), self.path("clip")
        latents, frames = small.tensor([16, 2, 2, 2]), small.tensor([5, 16, 16, 3], "B")
        small.write(path, "x", latents, {"vae.normalization": "normalized"})
        own = {"normalization": "normalized", **REF}
        for work, times in (
                (lambda: vae.decode(latents, **REF), 1),
                (lambda: vae.decode(latents, **own), 0),
                (lambda: vae.decode(path, **REF), 1),
                (lambda: vae.decode(path, **own), 0),
                (lambda: vae.decode(gst_vae.Latents(path, normalization="normalized"),
                                    **REF), 0),
                (lambda: vae.decoder(16, 16, **REF)(latents), 1),
                (lambda: vae.decoder(16, 16, **own)(latents), 0),
                (lambda: vae.encode(frames, **REF), 1),
                (lambda: vae.encode(frames, **own), 0)):
            vae.release()
            said = [text for text in self.said(work) if "not known if taecvx" in text]
            self.assertEqual(len(said), times, said)
            self.assertTrue(all('set normalization="normalized"' in text for text in said))

    def test_wrong_frames(self):
        """A number of frames that the latents cannot be is a warning, and ignored."""
        vae, path = gst_vae.open(WAN), self.path("wrong")
        for frames in (99, 1):
            small.write(path, "latent", small.tensor([16, 2, 2, 3]),
                        {"vae.frames": str(frames), "vae.normalization": "normalized"})
            said = self.said(lambda: self.assertEqual(
                vae.decode(path, **REF).shape[0], 5))
            self.assertEqual(len(said), 1, said)
            self.assertIn(f'{path}: metadata vae.frames is "{frames}", expected 2 to 5 '
                          'for 2 latents of the model; it is ignored', said[0])

    def test_one(self):
        """[C, h, w] is one latent and [H, W, 3] one frame, in memory, in a file and for
        vaetool."""
        vae, path = gst_vae.open(small.weights("wan21")), self.path("x.safetensors")
        latent = small.tensor([16, 2, 2])
        small.tensor_files.save(path, {"x": ("F32", latent.shape, latent.tobytes())})
        right = vae.decode(latent.cast("B").cast("f", [16, 1, 2, 2]), **REF).tobytes()
        for given in (latent, path):
            self.assertEqual(vae.decode(given, **REF).tobytes(), right)
        frame, out = small.tensor([16, 16, 3], "B"), self.path("out.npy")
        small.tensor_files.save(path, {"x": ("U8", frame.shape, frame.tobytes())})
        right = vae.encode(frame.cast("B").cast("B", [1, 16, 16, 3]), **REF).tobytes()
        self.assertEqual(vae.encode(frame, **REF).tobytes(), right)
        subprocess.run([small.TOOL, "encode", "--backend", "ref", "--model",
                        small.weights("wan21"), path, out], check=True)
        with open(out, "rb") as file:
            self.assertTrue(file.read().endswith(right))

    def test_spelling(self):
        """Sentences of the engine, and of vaedecode."""
        for said, spelled in (
                ("set latent-space to sd", 'set latent_space="sd"'),
                ("set layout to cthw or tchw; the", 'set layout="cthw" or "tchw"; the'),
                ("set layout to tchw, or, if", 'set layout="tchw", or, if'),
                ("set normalization of vaedecode to raw", 'set normalization="raw"'),
                ("set framerate", "set framerate="),
                ("one with batch-index", "one with batch_index="),
                ("set tensor", "set tensor="),
                ("one with tensor; found a", "one with tensor=; found a"),
                ('set variant to "vae."', 'set variant="vae."'),
                ("set variant to the one", "set variant= to the one"),
                ("a set layouts file", "a set layouts file"), ("", "")):
            self.assertEqual(gst_vae._engine.spell(said), spelled)

    def test_lost(self):
        """What frames have no place for."""
        vae, path = gst_vae.open(WAN), self.path("turned.safetensors")
        for times, metadata, said in (
                (True, {"vae.tag.image-orientation": "rotate-90"},
                 "states times of its own and an orientation, which are lost in the "
                 "frames; pipelines/latents-to-video.sh keeps the times and turns the "
                 "pictures"),
                (True, {}, "states times of its own, which are lost in"),
                (False, {"vae.tag.image-orientation": "rotate-90"},
                 "states an orientation, which is lost in"),
                (False, {}, None)):
            tensors = {"x": ("F32", [16, 1, 2, 2], small.tensor([16, 1, 2, 2]).tobytes())}
            if times:
                tensors["latent_times"] = ("U8", [1, 16], bytes(16))
            small.tensor_files.save(path, tensors, {"vae.normalization": "normalized",
                                                   **metadata})
            for latents in (path, gst_vae.Latents(path)):
                told = self.said(lambda: vae.decode(latents, **REF))
                self.assertEqual([bool(said) and f"{path} {said}" in one for one in told],
                                 [True] * bool(said), told)


if __name__ == "__main__":
    small.main()
