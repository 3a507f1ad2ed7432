"""Runs the steps of run.sh one after another, and writes a report after each.
Each step has a time limit. A step that fails does not stop the others."""
import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys

import build
import checks
import report
import steps
from measure import speed
from runner import Run, TOP


# Three calls for a rented GPU on which a command may take ten minutes, and
# nothing is kept: together they run everything. The steps with their seconds,
# and the models.
CALLS = {1: ('rates:90,kernels:90,golden:150,start:110', None),
         2: ('overlap:150,speed:270', ['wan2.1', 'seedvr2', 'wan2.2',
                                       'taew2_1']),
         3: ('torch:370,exact:100', ['wan2.1', 'seedvr2', 'wan2.2',
                                    'taew2_1'])}
CALL_LIMIT = 570


def words(text):
    return [w for w in text.replace(',', ' ').split() if w]


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """Prints one line, because the usage alone is longer than a screen."""
        self.exit(2, '%s: %s (see --help)\n' % (self.prog, message))


def parser(names):
    p = Parser(
        prog='sh tests/gpu/run.sh',
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Builds, tests and measures gst-vae on an NVIDIA GPU.',
        epilog='Steps: %s.\n\n' % ', '.join(names) + '''Environment:
  OFFICIAL       folder with checkouts of Wan2.1, Wan2.2, SeedVR and taehv, for
                 the step torch
  TORCH          a Python with PyTorch, for the step torch; default: python3
  VAE_TEST_DATA  folder with the large vectors, for the steps golden and streams

If you cannot install missing packages, --debs unpacks them from a folder of
.deb files. debs.sh makes such a folder. If jansson is missing, the script uses
the folder gpu-debs beside the sources, or downloads it. It finds cuDNN in the
folder of CUDA, in /usr, or in Python's package nvidia-cudnn.

Exit status: 0 nothing failed, 1 a step failed, 2 wrong usage, 77 no GPU, 130
interrupted, 143 terminated. After 130 and 143 the report has the finished
steps.''')
    p.add_argument('--out', default='gpu-report', metavar='DIR',
                   help='folder for report.json, table.txt, log.txt, '
                   'device.json, clocks.txt and cuda-*.txt; default: '
                   'gpu-report')
    p.add_argument('--build', default=os.path.join(TOP, 'build-gpu'),
                   metavar='DIR', help='build folder; default: build-gpu')
    p.add_argument('--only', type=words, metavar='STEP[:SECONDS],...',
                   help='run only the build and these steps, in this order; '
                   'SECONDS replaces the limit of a step')
    p.add_argument('--call', type=int, choices=sorted(CALLS), metavar='N',
                   help='1, 2 or 3: run a third of the most important steps, '
                   'within %d s' % CALL_LIMIT)
    p.add_argument('--skip', type=words, default=[], metavar='STEP,...',
                   help='leave these steps out')
    p.add_argument('--limit', type=int, metavar='SECONDS',
                   help='limit of the whole run; each step also has its own')
    p.add_argument('--quick', action='store_true',
                   help='fewer sizes, models and cases')
    p.add_argument('--models', type=words, metavar='NAME,...',
                   help='networks or files of weights to measure')
    p.add_argument('--sizes', type=words, metavar='WxH,...',
                   help='sizes of pictures to measure')
    p.add_argument('--precisions', type=words, metavar='P,...',
                   help='precisions to measure')
    p.add_argument('--directions', type=words, default=['decode', 'encode'],
                   metavar='decode,encode', help='directions to measure')
    p.add_argument('--frames', type=int, metavar='N',
                   help='frames of a clip; default: 81')
    p.add_argument('--timed', metavar='DIR',
                   help='folder of another report: use the timed layers in its '
                   'cuda-*.txt instead of timing them again')
    p.add_argument('--debs', metavar='DIR',
                   help='folder of .deb files to unpack')
    p.add_argument('--revision', metavar='TEXT',
                   help='revision of the sources, if they are no git checkout')
    p.add_argument('--cudnn', metavar='DIR',
                   help='folder of cuDNN, with include/ and lib/')
    p.add_argument('--emulate', action='store_true',
                   help='run on the emulated device, to test the steps '
                   'themselves')
    p.add_argument('--list', action='store_true', help='list the steps')
    return p


def check_steps(p, o, names):
    only = [word.partition(':') for word in o.only or []]
    for name in [name for name, _, _ in only] + o.skip:
        if name not in names:
            p.error('there is no step %s, only %s' % (name, ', '.join(names)))
    for name, colon, limit in only:
        if colon and not re.fullmatch('[1-9][0-9]*', limit):
            p.error('the limit "%s" of %s is no number of seconds' % (
                limit, name))
    if o.only is not None and not [n for n, _, _ in only if n not in o.skip]:
        p.error('--only and --skip leave no step')


def check_values(p, o):
    for size in o.sizes or []:
        if not re.fullmatch('[1-9][0-9]*x[1-9][0-9]*', size):
            p.error('the size %s is no WIDTHxHEIGHT' % size)
    for option, known in (('directions', ('decode', 'encode')),
                          ('precisions', ('fp32', 'tf32', 'fp16', 'bf16'))):
        for word in getattr(o, option) or []:
            if word not in known:
                p.error('--%s: %s is none of %s' % (option, word,
                                                    ', '.join(known)))
    for option in 'limit', 'frames':
        value = getattr(o, option)
        if value is not None and value < 1:
            p.error('--%s %d: expected at least 1' % (option, value))
    for name in o.models or []:
        if name not in speed.NETWORKS and not speed.file_of(name):
            p.error('--models: %s is no file and none of %s' % (
                name, ', '.join(speed.NETWORKS)))


def check_folders(p, o):
    if not o.build:
        p.error('--build: the name of the folder is empty')
    if os.path.isdir(o.build) and os.listdir(o.build) and not os.path.exists(
            os.path.join(o.build, 'build.ninja')):
        p.error('--build: %s is neither empty nor a build folder' % o.build)
    if o.debs and not glob.glob(os.path.join(o.debs, '*.deb')):
        p.error('--debs: there are no .deb files in %s' % o.debs)
    if o.cudnn and not all(build.parts_of_cudnn(o.cudnn)):
        p.error('--cudnn: there is no include/cudnn.h or no '
                'lib/libcudnn.so.9 in %s' % o.cudnn)
    if o.timed and not glob.glob(os.path.join(o.timed, 'cuda-*.txt')):
        p.error('--timed: there is no cuda-*.txt in %s' % o.timed)


def parse(argv):
    names = [s[0] for s in steps.STEPS]
    p = parser(names)
    o = p.parse_args(argv)
    if o.call:
        called, models = CALLS[o.call]
        o.only = o.only or words(called)
        if not o.emulate:  # which computes full-size networks for hours
            o.models = o.models or models
        o.precisions = o.precisions or ['bf16']
        o.limit = o.limit or CALL_LIMIT
    check_steps(p, o, names)
    check_values(p, o)
    check_folders(p, o)
    if o.list:
        for name, function, limit in steps.STEPS:
            print('%-10s at most %3d s: %s' % (name, limit, function.__doc__))
        sys.exit(0)
    steps.choose(o)
    return o


def chosen(o):
    """Returns the steps to run, in the order of --only if it is given."""
    known = {s[0]: s for s in steps.STEPS}
    wanted = []
    for word in o.only or known:
        name, _, limit = word.partition(':')
        if name not in o.skip:
            wanted.append((name, known[name][1], int(limit or known[name][2])))
    return wanted


def has_gpu():
    return os.path.exists('/dev/nvidiactl') or \
        (build.ask('nvidia-smi', '-L') or '').startswith('GPU')


def watch(run):
    """Writes the device's clocks and power once a second. Returns None if
    nvidia-smi is missing."""
    seconds = (run.options.limit or 7200) + 60  # also if no code stops it
    try:
        with open(os.path.join(run.out, 'clocks.txt'), 'w') as f:
            return subprocess.Popen(
                ['nvidia-smi', 'dmon', '-s', 'pc', '-d', '1', '-o', 'T', '-c',
                 str(seconds)], stdin=subprocess.DEVNULL, stdout=f,
                stderr=subprocess.STDOUT)
    except OSError:
        return None


# The signals that end run.sh, and its exit status.
ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def end(number, _):
    """Exits in the usual way, which ends the running step and keeps the report.
    """
    sys.exit(ENDS[number])


def main():
    for one in ENDS:
        if signal.getsignal(one) != signal.SIG_IGN:  # of a job behind a shell
            signal.signal(one, end)
    o = parse(sys.argv[1:])
    if not o.emulate and not has_gpu():
        print('skipped: there is no NVIDIA GPU here (nor a driver for one)')
        return 77
    try:
        run = Run(o)
    except OSError as why:
        print('run.sh: --out: %s' % why, file=sys.stderr)
        return 2
    if o.timed:
        run.take_timed(o.timed)
    watcher = watch(run)
    try:
        run_all(run)
    finally:  # also if it gets a signal
        for one in ENDS:
            signal.signal(one, signal.SIG_IGN)
        if watcher:
            watcher.kill()
            watcher.wait()
        conclude(run)
    failed = [s for s in run.report['steps'] if s['status'] == 'failed']
    failed += [c for c in run.report['checks'] if c['result'] == 'FAIL']
    return 1 if failed else 0


def keep_timed(run):
    for path in glob.glob(os.path.join(run.cache, 'gst-vae/cuda-*.txt')):
        shutil.copy(path, run.out)


def run_all(run):
    o = run.options
    made = run.step('build', build.build, 900)
    try:
        build.describe(run)
    except Exception as why:  # a machine that reports it in another way
        print('%s: %s' % (type(why).__name__, why), file=run.log)
    run.save()
    for name, function, limit in chosen(o):
        if made['status'] == 'failed' and not os.path.exists(
                run.path('build.ninja')):
            break  # otherwise steps skip what is not built
        run.step(name, function, limit)
        run.report['checks'] = checks.check(run.report)
        run.save()
        keep_timed(run)


def conclude(run):
    """Prints the table of the steps that ran."""
    keep_timed(run)
    run.report['checks'] = checks.check(run.report)
    run.save()
    table = report.table([run.report])
    with open(os.path.join(run.out, 'table.txt'), 'w') as f:
        f.write(table)
    shutil.rmtree(run.tmp, ignore_errors=True)
    print('\n' + table, end='')


if __name__ == '__main__':
    sys.exit(main())
