"""The tiles of the encoder of HunyuanVideo 1.0. Each is encoded as a clip of its own. Then
latents are dropped and blended as in the published pipelines."""
import small
from small import gst_vae

REF = {"backend": "ref"}


def rows_of(tensor):
    """The numbers of each latent of [C,T,h,w]."""
    channels, count = tensor.shape[:2]
    x = memoryview(memoryview(tensor).tobytes()).cast("f").tolist()
    n = len(x) // channels // count
    return [[v for c in range(channels) for v in x[(c * count + t) * n:][:n]]
            for t in range(count)]


def mix(a, b, share):
    return [u * (1 - share) + v * share for u, v in zip(a, b)]


class Tiles(small.Test):
    def test_encode(self):
        vae = gst_vae.open(small.weights("hunyuan10"))
        for plan, size, stride in ("diffusers", 17, 12), ("official", 65, 48):
            keep, most = stride // 4, (size - 1 - stride) // 4

            def encode(video, first, end):
                clip = small.part(video, 0, first, min(end, len(video)))
                return rows_of(vae.encode(clip, tile_plan=plan, **REF))

            def tile(video, first):
                """A whole tile is a clip of two tiles: takes the second one out."""
                rows = encode(video, first, first + size)
                if len(rows) == keep + most + 1:
                    other = encode(video, first + stride, first + size)
                    for m in range(1, most):
                        rows[keep + 1 + m] = mix(rows[keep + 1 + m], other[1 + m],
                                                 m / (m - most))
                return rows

            for frames in size, size + 4, 2 * stride + 9, 3 * stride + 1:
                video = small.tensor([frames, 16, 16, 3], "B")
                before = tile(video, 0)
                expected = before[:keep + 1]
                for first in range(stride, frames, stride):
                    new = tile(video, first)[1:]
                    n = min(most, len(new))
                    new[:n] = [mix(before[len(before) - n + m], new[m], m / n)
                               for m in range(n)]
                    expected += new[:keep]
                    before = new
                made = encode(video, 0, frames)
                self.assertEqual(len(made), len(expected))
                for k, (found, row) in enumerate(zip(made, expected)):
                    worst = max(abs(x - y) for x, y in zip(found, row))
                    self.assertLess(worst, 1e-5, f"{plan}, {frames} frames, latent {k}")


if __name__ == "__main__":
    small.main()
