#!/usr/bin/env python3
"""Encodes frames on a Ray cluster, with the bytes of one process."""
import sys

import frames
import output
import sources
from driver import arguments, driver
from streams import NORMALIZATIONS, Error

ENDS = (".safetensors", ".mp4", ".webm", ".mkv", ".mov")


def main(words):
    parser = arguments.parser(
        "encode.py", "Encodes videos, or files of frames (safetensors with video_u8 or "
        "frames, [T, H, W, 3]) on a Ray cluster. Each clip is cut into segments, and the "
        "joined latents have the bytes of vaetool encode, or video-to-latents.sh. The "
        "latents of a video have no times of their own.")
    parser.add_argument("--normalization", choices=NORMALIZATIONS,
                        default="normalized",
                        help="scale of the latents; default: normalized")
    parser.add_argument("--posterior", choices=("mean", "sample"), default="mean",
                        help="for a model with a posterior; default: mean")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="for --posterior sample; default: 0")
    options = parser.parse_args(words)

    def make_clips():
        model, pairs = arguments.name_outputs(options, ENDS, "safetensors")
        for _, out in pairs:
            if not out.endswith(".safetensors"):
                raise Error(f"{out}: the name must end in .safetensors")
        return [output.Clip(sources.Encoding(
            model, frames.open_frames(path, out),
            options.normalization, options.posterior, options.seed), out)
            for path, out in pairs]

    return driver.run(options, make_clips)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
