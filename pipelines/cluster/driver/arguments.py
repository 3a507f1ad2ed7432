"""The command line of decode.py and encode.py."""
import argparse
import contextlib
import os
import sys

import output
import segments
from streams import Error, gst_vae


def add_options(parser):
    segments.add_worker_options(
        parser, "threads of each worker; default: 4, or all of the smallest node")
    parser.add_argument("--workers", type=segments.count, metavar="N",
                        help="number of workers; default: as many as the cluster has "
                        "GPUs, else one for each --threads CPUs")
    parser.add_argument("--address", help="address of a Ray cluster, or local for a new "
                        "one; default: RAY_ADDRESS, else the cluster on this machine, "
                        "else a new one")
    parser.add_argument("--resume", action="store_true",
                        help="continue from OUT.part and OUT.journal; leave complete "
                        "outputs as they are")
    parser.add_argument("--to", required=True, metavar="OUT",
                        help="a file, or a folder for one file for each input")
    parser.add_argument("--format", metavar="END",
                        help="format of the files in a folder, such as mp4")
    parser.add_argument("inputs", nargs="+", metavar="INPUT",
                        help="files, or folders with files")


def name_outputs(options, ends, default):
    """The model and [(input, output)]."""
    inputs = []
    for path in options.inputs:
        if os.path.isdir(path):
            inputs += sorted(os.path.join(path, name) for name in os.listdir(path)
                             if os.path.splitext(name)[1] in ends)
        else:
            inputs.append(path)
    if not inputs:
        raise Error(f"{options.inputs[0]}: has no file that ends in {', '.join(ends)}")
    if not os.path.isdir(options.to) and not options.to.endswith("/"):
        if len(inputs) > 1:
            raise Error(f"{options.to}: is no folder, and there are {len(inputs)} inputs; "
                        f"{options.to}/ makes one")
        pairs = [(inputs[0], options.to)]
    else:
        os.makedirs(options.to, exist_ok=True)
        end = "." + (options.format or default).lstrip(".")
        pairs = [(path, os.path.join(options.to, os.path.splitext(
            os.path.basename(path))[0] + end)) for path in inputs]
    if len({out for _, out in pairs}) < len(pairs):
        raise Error(f"{options.to}: two inputs have the same name")
    for _, out in pairs:
        check_place(out)
    model = gst_vae.open(options.model, variant=options.variant)
    for _, out in pairs:
        output.check_names(out, inputs, model)
    return model, [pair for pair in pairs if not options.resume or
                   not is_complete(options, pair[1])]


def check_place(out):
    folder = os.path.dirname(out) or "."
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Error(f"{out}: cannot write to the folder {folder}")
    if os.path.isdir(out):
        raise Error(f"{out}: is a folder")


def is_complete(options, out):
    if not os.path.exists(out) or os.path.exists(out + ".part"):
        return False
    print(f"{options.prog}: {out} is complete; remove it to compute it again",
          file=sys.stderr)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(out + ".journal")  # of a driver that was killed at the end
    return True


def parser(prog, text):
    made = argparse.ArgumentParser(prog=prog, description=text)
    made.set_defaults(prog=prog.removesuffix(".py"))
    add_options(made)
    return made
