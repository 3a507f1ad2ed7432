#!/usr/bin/env python3
"""Decodes latents on a Ray cluster, with the bytes of one process."""
import sys

import output
import segments
from driver import arguments, driver

ENDS = (".safetensors", ".latent", ".npy", ".pt", ".pth")


def main(words):
    parser = arguments.parser(
        "decode.py", "Decodes files of latents on a Ray cluster. Each clip is cut into "
        "segments, and the joined frames have the bytes of one process. OUT ends in "
        ".safetensors (F32, as of vaetool decode), .rgb (packed bytes), .mp4 or .webm.")
    segments.add_reading_options(parser)
    options = parser.parse_args(words)

    def make_clips():
        model, pairs = arguments.name_outputs(options, ENDS, "safetensors")
        return [output.Clip(segments.decoding(model, options, path, out), out)
                for path, out in pairs]

    return driver.run(options, make_clips)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
