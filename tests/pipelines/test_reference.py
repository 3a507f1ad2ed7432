"""Runs complete pipelines of the documents with a small model: files, the data
protocol, H.264, and a connection between two processes.

usage: test_reference.py SOURCE BUILD [TEST...]
"""
import os
import struct
import unittest

import streams
from streams import FRAMES, LATENTS

import vaesend
import vaesend_file

MODEL = os.path.join(streams.SOURCE, "tests", "golden", "data", "wan21",
                     "weights.safetensors")


class Reference(streams.Streams):
    def test_file(self):
        clip = self.path("wan.safetensors")
        self.play("videotestsrc num-buffers=81 ! "
                  "video/x-raw,width=104,height=64,framerate=16/1 ! "
                  f"vaeencode model={MODEL} ! latentmux ! "
                  f"filesink location={clip}")
        array, facts = vaesend_file.open_latents(clip)
        self.assertEqual(array.shape, (21, 16, 8, 13))
        self.assertEqual((facts["vae.frames"], facts["vae.latent_space"]),
                         ("81", "wan2.1"))
        self.play(f"filesrc location={clip} ! latentdemux ! "
                  f"vaedecode model={MODEL} ! videoconvert ! "
                  f"video/x-raw,format=GRAY8 ! filesink "
                  f"location={self.path('grey')}")
        self.assertEqual(len(self.read(self.path("grey"))), 81 * 104 * 64)

    @unittest.skipUnless(streams.has("x264enc"), "no x264enc")
    def test_h264(self):
        """Converts a file of the data protocol to .mp4 and back."""
        self.play(f"filesrc location={self.clip} ! latentdemux ! gdppay ! "
                  f"filesink location={self.path('x.gdp')}")
        self.play(f"filesrc location={self.path('x.gdp')} ! gdpdepay ! "
                  "vaedecode ! video/x-raw,format=I420 ! x264enc ! mp4mux ! "
                  f"filesink location={self.path('x.mp4')}")
        self.play(f"filesrc location={self.path('x.mp4')} ! qtdemux ! "
                  "h264parse ! video/x-h264,alignment=au ! gdppay ! "
                  f"filesink location={self.path('y.gdp')}")
        self.assertEqual(self.buffers(self.path("y.gdp")), FRAMES)

    def buffers(self, path):
        data, count = self.read(path), 0
        while data:
            kind, length = struct.unpack_from(">4xHI", data)
            count += kind == vaesend.BUFFER
            data = data[62 + length:]
        return count

    def test_connection(self):
        """One process encodes video, another one decodes it."""
        port = streams.free_port()
        out = self.path("out.rgb")
        receiver = streams.launch(
            f"tcpserversrc host=127.0.0.1 port={port} ! gdpdepay ! "
            f"{streams.DECODE} ! filesink location={out}")
        pipeline = (f"videotestsrc horizontal-speed=3 num-buffers={FRAMES} ! "
                    f"video/x-raw,width={streams.WIDTH},"
                    f"height={streams.HEIGHT},framerate=16/1 ! vaeencode ! "
                    "gdppay ! tcpclientsink host=127.0.0.1 "
                    f"port={port}")
        while True:  # until the receiver listens
            status, said = streams.ended(streams.launch(pipeline))
            if status == 0:
                break
            self.assertIn("refused", said)
        self.finish(receiver)
        self.assert_frames(out)
        self.assertEqual(LATENTS, 1 + -(-(FRAMES - 1) // 4))


if __name__ == "__main__":
    streams.main("gdppay", "tcpserversrc", "vaedecode", "vaeencode")
