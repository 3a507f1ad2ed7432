#!/usr/bin/env python3
"""Decodes latents on a Ray cluster, with the bytes of one process."""
import fractions
import sys

import libvae
import output
import sources
from driver import arguments, driver

ENDS = (".safetensors", ".latent", ".npy", ".pt", ".pth")


def main(words):
    parser = arguments.parser(
        "decode.py", "Decodes files of latents on a Ray cluster. Each clip is cut into "
        "segments, and the joined frames have the bytes of one process. OUT ends in "
        ".safetensors (F32, as of vaetool decode), .rgb (packed bytes), .mp4 or .webm.")
    parser.add_argument("--normalization", choices=libvae.NORMALIZATIONS,
                        help="scale of the latents; default: as their file states, else "
                        "normalized")
    parser.add_argument("--tensor", metavar="NAME", help="name of the tensor to read")
    parser.add_argument("--batch-index", type=int, default=-1, metavar="N",
                        help="index of the clip in a batch, from 0")
    parser.add_argument("--layout", choices=libvae.LAYOUTS, default="auto",
                        help="order of the dimensions; default: auto")
    parser.add_argument("--latent-space", metavar="NAME",
                        help="latent space; it must be that of the model")
    parser.add_argument("--framerate", type=fractions.Fraction, metavar="N/D",
                        help="frame rate of the video, such as 24/1")
    options = parser.parse_args(words)

    def make_clips():
        pairs = arguments.name_outputs(options, ENDS, "safetensors")
        model = libvae.Model(options.model, options.variant)
        raw = (libvae.NORMALIZATIONS.index(options.normalization)
               if options.normalization else None)
        rate = (options.framerate.numerator, options.framerate.denominator
                ) if options.framerate else None
        return [output.Clip(sources.Decoding(
            model, path, out, tensor=options.tensor,
            batch_index=options.batch_index, normalization=raw,
            layout=libvae.LAYOUTS.index(options.layout), space=options.latent_space,
            rate=rate), out)
            for path, out in pairs]

    return driver.run(options, make_clips)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
