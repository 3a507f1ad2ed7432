"""Frames go to and from the memory of a device through the elements of nvcodec, on the
emulated device and driver.

usage: test_cuda.py SOURCE BUILD [TEST...]
"""
import streams

GPU = "video/x-raw(memory:CUDAMemory),format=RGBA"
HOST = "video/x-raw,format=RGBA"


class Cuda(streams.Streams):
    def both(self, direct, through):
        """Checks that both pipelines write the same bytes."""
        for name, pipeline in (("direct", direct), ("through", through)):
            self.play(f"{pipeline} ! filesink location={self.path(name)}")
        self.assertGreater(len(self.read(self.path("direct"))), 0)
        self.assertEqual(self.read(self.path("direct")), self.read(self.path("through")))

    def test_download(self):
        decode = f"filesrc location={self.clip} ! latentdemux ! vaedecode backend=cuda"
        self.both(f"{decode} ! {HOST}", f"{decode} ! {GPU} ! cudadownload ! {HOST}")

    def test_upload(self):
        video = ("videotestsrc num-buffers=9 ! video/x-raw,format=RGBA,"
                 f"width={streams.WIDTH},height={streams.HEIGHT}")
        encode = "vaeencode backend=cuda ! latentmux"
        self.both(f"{video} ! {encode}", f"{video} ! cudaupload ! {GPU} ! {encode}")


if __name__ == "__main__":
    streams.main("cudaupload", "cudadownload")
