#!/usr/bin/env python3
"""Runs the kernels of checks and other programs from the PTX that nvcc compiled.

    interpret.py CHECK... --ptx PTX... [-- ARGUMENT...]

A CHECK is a program of tests/check for CUDA, such as check-cuda-norm. It launches
kernels and compares their results with the plain-C reference. This program runs
its launches with an interpreter of PTX instead of the emulation. Each kernel of
the files PTX must run at least once. Each CHECK gets the ARGUMENTs. A CHECK may
also be a program with the whole emulated device, in which each launch is a case.

    --with PTX     kernels of this file may also run, but need not
    --least N      not all kernels of the files PTX must run, but N cases on them
    --cases N      interprets a case only if the kernel that it launches first ran
                   in fewer than N cases before. The emulation runs the other
                   cases. The two round differently, so each case runs as a whole
                   on one of them
    --mutate TEXT  changes one instruction of the PTX at a time, in the kernels
                   whose name contains TEXT: removes a barrier, a fence or a commit
                   of multiplications, or lets a wait_group wait for one group
                   less. A CHECK must fail each time
"""
import argparse
import json
import mmap
import os
import re
import subprocess
import sys

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

import machine
import parse


def symbols(program):
    """Returns the functions of a program: their offset to their name."""
    lines = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.splitlines()
    table = [line.split() for line in lines if len(line.split()) == 3]
    start = next(int(at, 16) for at, _, name in table
                 if name == "__executable_start")
    # A static function that is no template has the prefix _ZL.
    return {int(at, 16) - start: re.sub("^_ZL", "_Z", name)
            for at, kind, name in table if kind in "tTwW"}


class Interpreter:
    """Answers the launches of one run of a check. runs: the cases in which each
    kernel ran."""

    def __init__(self, options, entries, runs, names, file):
        self.options, self.entries, self.names = options, entries, names
        self.file, self.runs = file, runs
        self.kernels = {}
        self.case, self.interprets = None, False
        self.map, self.size = None, 0

    def buffers(self):
        size = os.fstat(self.file).st_size
        if size != self.size:
            self.map = mmap.mmap(self.file, size)
            self.size = size
        return np.frombuffer(self.map, np.uint8)

    def answer(self, request):
        """Returns the answer to a launch."""
        name = self.names.get(request["kernel"])
        if request["case"] != self.case:
            self.case = request["case"]
            self.interprets = (name in self.entries and
                               len(self.runs.get(name, ())) < self.options.cases)
        if self.options.mutate:  # only the changed kernel is an entry
            self.interprets = name in self.entries
        if not self.interprets:
            return "emulate"
        if name not in self.entries:
            return f"no PTX of {name}"
        if name not in self.kernels:
            self.kernels[name] = self.entries[name]()
        memory = machine.Memory(request["base"], self.buffers(),
                                request["buffers"])
        launch = machine.Launch(
            memory, request["grid"], request["threads"], request["shared"],
            [bytes.fromhex(a) for a in request["args"]])
        try:
            machine.run(self.kernels[name], launch)
        except parse.Error as error:
            print(f"{request['at']}: {error}", file=sys.stderr)
            return str(error).split("\n", maxsplit=1)[0]
        self.runs.setdefault(name, set()).add(self.case)
        return "done"


def run(options, check, entries, runs):
    """Runs a check, and returns its exit status. Adds to runs."""
    file = os.memfd_create("buffers")
    from_check, to_us = os.pipe()
    from_us, to_check = os.pipe()
    environment = dict(os.environ,
                       VAE_EMU_INTERPRETER=f"{from_us},{to_us},{file}")
    interpreter = Interpreter(options, entries, runs, symbols(check), file)
    with subprocess.Popen([check, *options.arguments],
                          pass_fds=(from_us, to_us, file),
                          env=environment) as process:
        os.close(from_us)
        os.close(to_us)
        with open(from_check, encoding="ascii") as requests, \
                open(to_check, "w", encoding="ascii") as answers:
            for line in requests:
                answers.write(interpreter.answer(json.loads(line)) + "\n")
                answers.flush()
    os.close(file)
    return process.returncode


def load(paths, change=None):
    entries = {}
    for path in paths:
        entries.update(parse.read(path, change))
    return entries


def ordinary(options):
    wanted, runs = load(options.ptx), {}
    entries = {**load(getattr(options, "with")), **wanted}
    for check in options.checks:
        if run(options, check, entries, runs):
            print(f"{check} failed")
            return 1
    missing = sorted(set(wanted) - set(runs))
    cases = set().union(*(runs[name] for name in set(wanted) & set(runs)))
    too_few = len(cases) < options.least if options.least else bool(missing)
    for name in missing if too_few else []:
        print(f"no launch to interpret: {name}")
    print(f"{len(set(wanted) & set(runs))} of {len(wanted)} kernels ran, in "
          f"{len(cases)} cases")
    return int(too_few)


def mutants(name, body):
    """Yields a description and the changed body for each change."""
    for found in re.finditer(r"(bar\.sync|fence\.proxy|wgmma\.fence|"
                             r"wgmma\.commit_group)[^;]*;", body):
        yield (f"{name}: a {found.group(1)} is removed",
               body[:found.start()] + body[found.end():])
    for found in re.finditer(r"\.wait_group(?:\.sync\.aligned)?\s+(\d+);", body):
        yield (f"{name}: wait_group {found.group(1)} waits for one less",
               body[:found.start(1)] + str(int(found.group(1)) + 1) +
               body[found.end(1):])


def mutated(options):
    """Checks that each changed kernel makes a check fail."""
    survived = count = 0
    bodies, others = {}, load(getattr(options, "with"))
    load(options.ptx, lambda name, body: bodies.setdefault(name, body))
    for name, body in bodies.items():
        if options.mutate not in name:
            continue
        for what, changed in mutants(name, body):
            entries = load(options.ptx, lambda other, text, name=name,
                           changed=changed: changed if other == name else text)
            count += 1
            if not any(run(options, check, {**others, name: entries[name]}, {})
                       for check in options.checks):
                survived += 1
                print("not noticed: " + what)
    print(f"{count} mutants, {survived} not noticed")
    return 1 if survived or not count else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checks", nargs="+")
    parser.add_argument("--ptx", nargs="+", required=True)
    parser.add_argument("--with", action="append", default=[])
    parser.add_argument("--least", type=int)
    parser.add_argument("--cases", type=int, default=1 << 30)
    parser.add_argument("--mutate")
    own, arguments = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, arguments = own[:at], own[at + 1:]
    options = parser.parse_args(own)
    options.arguments = arguments
    return (mutated if options.mutate else ordinary)(options)


sys.exit(main())
