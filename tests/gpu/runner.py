"""Functions that all steps share: programs with time limits, a log, a report.
"""
import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
import time
import traceback

import timed

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
LOG_TAIL = 200000  # characters of one command's output that are kept


def short(text, most):
    """Returns at most n characters of a text, in whole words."""
    if len(text) <= most:
        return text
    return text[:most - 3].rsplit(' ', 1)[0].rstrip(' ,;:') + ' ...'


class Skip(Exception):
    """A step cannot run here. The text says what is missing."""


class Stopped(Exception):
    """The time limit of a case or a step was exceeded."""


class Result:
    def __init__(self, code, out, err, seconds, stopped):
        self.code, self.out, self.err = code, out, err
        self.seconds, self.stopped = seconds, stopped

    def last(self):
        """Returns the most useful line: the first with an error, or else the
        last."""
        for text in (self.err, self.out):
            lines = [s.strip() for s in text.splitlines() if s.strip()]
            errors = [s for s in lines if s.startswith('ERROR')]
            if lines:
                return (errors or lines[-1:])[0].replace('skipped: ', '', 1)
        return 'it said nothing'


class Run:
    """The state that the steps share."""

    def __init__(self, options):
        self.options = options
        self.emulate = options.emulate
        self.out = os.path.abspath(options.out)
        self.build = os.path.abspath(options.build)
        self.tmp = os.path.join(self.build, 'tmp-gpu')
        self.began = time.monotonic()
        self.deadline = None  # of the step
        self.rows = []  # rows of the step, in the report as soon as they exist
        self.env = dict(os.environ)
        self.env.setdefault('VAE_TEST_VECTORS',
                            os.path.join(TOP, 'tests/golden/data'))
        # In a virtual environment, Meson and Ninja are beside this Python.
        self.env['PATH'] = os.pathsep.join([
            self.env.get('PATH', os.defpath), os.path.dirname(sys.executable)])
        # Layers are timed once for all steps, in a cache folder of the run.
        self.cache = os.path.join(self.build, 'cache')
        self.env['XDG_CACHE_HOME'] = self.cache
        self.meson = None
        self.report = {'what': 'tests/gpu/run.sh', 'machine': {},
                       'emulated': self.emulate,
                       'settings': {k: v for k, v in vars(options).items()
                                    if k not in ('out', 'build', 'debs', 'timed')},
                       'steps': []}
        os.makedirs(self.out, exist_ok=True)
        self.log = open(os.path.join(self.out, 'log.txt'), 'w')

    def left(self):
        """Returns the seconds until the step's end."""
        return max(1.0, self.deadline - time.monotonic())

    def over(self):
        return time.monotonic() >= self.deadline

    def take_timed(self, folder):
        """Copies layers that were timed with another cache folder, for all
        steps. One file for each device and library lists all timed layers."""
        for path in glob.glob(os.path.join(folder, 'cuda-*.txt')):
            timed.merge(path, os.path.join(self.cache, 'gst-vae',
                                           os.path.basename(path)))

    def path(self, name):
        """Returns the path of a program in the build folder."""
        return os.path.join(self.build, name)

    def program(self, name):
        """Returns the path of a program of tests/gpu, for the device or the
        emulation."""
        found = self.path('tests/gpu/' + name +
                          ('-emu' if self.emulate else ''))
        if not os.access(found, os.X_OK):
            raise Skip('%s is not built' % os.path.basename(found))
        return found

    def call(self, command, limit=None, own=False, **env):
        """Runs a command within the limit and the time of the step. own: a
        program that must not get the unpacked libraries."""
        limit = min(limit or 1e9, self.left())
        command = [str(word) for word in command]
        print('$ ' + ' '.join(command), file=self.log, flush=True)
        start, stopped = time.monotonic(), False
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=TOP,
            text=True, errors='replace',
            env={**(os.environ if own else self.env), **env},
            start_new_session=True)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            stopped = True
            for kill in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, kill)
                except ProcessLookupError:
                    pass
                try:
                    out, err = process.communicate(timeout=5)
                    break
                except subprocess.TimeoutExpired:
                    out = err = ''
        except BaseException:  # for example an interrupt: end all processes
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        seconds = time.monotonic() - start
        for text in (out, err):
            self.log.write(text[-LOG_TAIL:])
        print('= %s after %.1f s\n' % ('stopped' if stopped else
                                       'status %d' % process.returncode,
                                       seconds), file=self.log, flush=True)
        return Result(process.returncode, out, err, seconds, stopped)

    def save(self):
        path = os.path.join(self.out, 'report.json')
        with open(path + '.part', 'w') as f:
            json.dump(self.report, f, indent=1)
            f.write('\n')
        os.replace(path + '.part', path)

    @contextlib.contextmanager
    def case(self, row):
        """Runs one case of the step and keeps its row. If the case fails, the
        earlier rows are also kept."""
        self.rows.append(row)
        try:
            yield row
        except Skip:
            self.rows.remove(row)
            raise
        except Stopped as why:
            row.update(result='stopped', faults=[str(why)], words=str(why))
        except Exception as why:  # a failed case does not end the step
            words = '%s: %s' % (type(why).__name__, why)
            row.update(result='failed', faults=[words], words=words)
            traceback.print_exc(file=self.log)
        finally:
            self.save()

    def step(self, name, function, limit):
        """Runs one step. Every result is an entry of the report."""
        whole = self.options.limit
        if whole:
            limit = min(limit, whole - (time.monotonic() - self.began))
        entry = {'step': name, 'status': 'failed', 'words': 'it did not end',
                 'rows': []}
        self.rows = entry['rows']
        self.report['steps'].append(entry)
        if limit < 2:
            entry.update(status='skipped', words='no time was left')
            self.save()
            return entry
        print('== %s (at most %d s)' % (name, limit), flush=True)
        print('==== ' + name, file=self.log, flush=True)
        start = time.monotonic()
        self.deadline = start + limit
        try:
            entry.update(function(self))
        except Skip as why:
            entry.update(status='skipped', words=str(why))
        except Stopped as why:
            entry.update(status='stopped', words=str(why))
        except Exception as why:  # a failed step does not end the run
            entry.update(words='%s: %s' % (type(why).__name__, why))
            traceback.print_exc(file=self.log)
        except BaseException:  # run.sh got a signal
            entry.update(status='stopped', words='run.sh was told to end')
            raise
        finally:
            entry['seconds'] = round(time.monotonic() - start, 1)
            self.save()
        print('   %s: %s' % (entry['status'], entry['words']), flush=True)
        return entry
