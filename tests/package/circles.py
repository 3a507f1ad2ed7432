#!/usr/bin/env python3
"""Fails if source files of the engine, the plugin or the kernels call each
other in a circle. A header and its source count as one file.

  circles.py BUILD SOURCE

Reads the symbols of the build's objects. A name in the source is a call, too,
so that the check sees what this build leaves out. Exit status 77: nm is not
there, or the build has no list of its objects.
"""
import json
import os
import re
import shutil
import subprocess
import sys

FOLDERS = ('engine', 'gst', 'kernels', 'python')


def symbols(paths):
    """For each object the symbols that it defines, and those that it takes."""
    found = {path: (set(), set()) for path in paths}
    listing = subprocess.run(['nm', '-P', '-A', *paths], stdout=subprocess.PIPE,
                             universal_newlines=True, check=True).stdout
    for line in listing.splitlines():
        path, symbol = line.split(': ', 1)
        name, kind = symbol.split()[:2]
        made, taken = found[path]
        if kind == 'U':
            taken.add(name)
        elif kind in 'TDBRC':
            made.add(name)
    return found


def objects(build, source):
    """An object for each file."""
    found = {}
    with open(os.path.join(build, 'compile_commands.json')) as commands:
        for command in json.load(commands):
            path = os.path.join(command['directory'], command['file'])
            name = os.path.relpath(os.path.realpath(path), source)
            built = os.path.join(command['directory'], command['output'])
            if name.split('/')[0] in FOLDERS and os.path.exists(built):
                found.setdefault(name, built)
    return found


def names(path):
    """The names with a prefix in a source without its comments and strings."""
    with open(path, encoding='utf-8') as source:
        text = source.read()
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\\n])*"', ' ', text, flags=re.S)
    return set(re.findall(r'\b(?:vae|gst_vae|gst_latent)_\w+', text))


def calls(found, source):
    """The files whose symbols each file takes, and these symbols."""
    read = symbols(found.values())
    read = {name: read[path] for name, path in found.items()}
    for name, (_, taken) in read.items():
        taken |= names(os.path.join(source, name))
    homes = {}
    for name, (made, _) in read.items():
        for symbol in made:
            homes.setdefault(symbol, []).append(name)
    graph = {name: {} for name in read}
    for name, (_, taken) in read.items():
        for symbol in sorted(taken):
            home = homes.get(symbol, [])
            # a symbol of several files has one for each program
            if len(home) == 1 and home[0] != name:
                graph[name].setdefault(home[0], symbol)
    return graph


def circle(graph):
    """Files that call each other in a circle, or []."""
    done, way = set(), []

    def visit(name):
        if name in way:
            return way[way.index(name):] + [name]
        if name in done:
            return []
        way.append(name)
        for called in graph[name]:
            found = visit(called)
            if found:
                return found
        done.add(way.pop())
        return []

    return next(filter(None, map(visit, sorted(graph))), [])


def main():
    build, source = map(os.path.realpath, sys.argv[1:])
    if not shutil.which('nm') or not os.path.exists(
            os.path.join(build, 'compile_commands.json')):
        print('skipped: no nm, or no list of objects')
        return 77
    graph = calls(objects(build, source), source)
    found = circle(graph)
    for name, called in zip(found, found[1:]):
        print('%s calls %s of %s' % (name, graph[name][called], called))
    if found:
        print('FAILED: a circle; move what both sides need to a lower file')
        return 1
    print('%d files: ok' % len(graph))
    return 0 if graph else 77


if __name__ == '__main__':
    sys.exit(main())
