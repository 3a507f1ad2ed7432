"""Finds what a build needs, builds, and describes the machine."""
import glob
import os
import platform
import re
import shutil
import subprocess
import sys

from runner import TOP


def ask(*command, env=None):
    """Returns the output of a command, or None if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=60, env=env, cwd=TOP)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


# ---------------------------------------------------------------------------
# Packages that are unpacked.

def extend(env, name, *folders):
    old = [env[name]] if env.get(name) else []
    env[name] = os.pathsep.join([f for f in folders if os.path.isdir(f)] + old)


def unpack(run, folder):
    """Unpacks the .deb files of the folder beside the build, without installing
    them. run.env has their paths."""
    packages = sorted(glob.glob(os.path.join(folder, '*.deb')))
    if not packages:
        raise RuntimeError('%s: no .deb files' % folder)
    root = run.build + '-root'
    for package in packages:
        done = run.call(['dpkg-deb', '-x', package, root])
        if done.code:
            raise RuntimeError('%s: %s' % (package, done.last()))
    for path in glob.glob(root + '/usr/**/pkgconfig/*.pc', recursive=True):
        with open(path) as f:
            text = re.sub(r'^(\w+=)/usr', r'\1%s/usr' % root, f.read(),
                          flags=re.M)
        # Only static linking needs these packages, so the folder lacks them.
        text = re.sub(r'^Requires\.private:.*\n', '', text, flags=re.M)
        with open(path, 'w') as f:
            f.write(text)
    env = run.env
    libs = glob.glob(root + '/usr/lib/*-linux-gnu') + [root + '/usr/lib']
    extend(env, 'LD_LIBRARY_PATH', *libs,
           *glob.glob(root + '/lib/*-linux-gnu'))
    extend(env, 'LIBRARY_PATH', *libs)
    extend(env, 'CPATH', root + '/usr/include')
    extend(env, 'PKG_CONFIG_PATH', *(f + '/pkgconfig' for f in libs),
           root + '/usr/share/pkgconfig')
    extend(env, 'PATH', root + '/usr/bin')
    extend(env, 'PYTHONPATH', root + '/usr/lib/python3/dist-packages')
    for lib in libs:
        scanner = lib + '/gstreamer1.0/gstreamer-1.0/gst-plugin-scanner'
        extend(env, 'GST_PLUGIN_SYSTEM_PATH_1_0', lib + '/gstreamer-1.0')
        if os.path.exists(scanner):
            env['GST_PLUGIN_SCANNER_1_0'] = scanner
    return len(packages)


def has_jansson(run):
    """True if pkg-config finds the library, as Meson does."""
    return ask('pkg-config', '--exists', 'jansson', env=run.env) is not None


def take_jansson(run):
    """Unpacks packages if jansson is missing: those of the folder gpu-debs, or
    else of this machine's system. Returns their number."""
    if run.emulate or has_jansson(run):
        return 0
    brought, fetched = os.path.join(TOP, 'gpu-debs'), run.build + '-debs'
    if glob.glob(brought + '/*.deb'):
        return unpack(run, brought)
    run.call(['sh', os.path.join(TOP, 'tests/gpu/debs.sh'), fetched, 'build'],
             60)
    if glob.glob(fetched + '/*.deb'):
        return unpack(run, fetched)
    raise RuntimeError('jansson is not there and cannot be downloaded; run '
                       '"sh tests/gpu/debs.sh gpu-debs build" on a machine '
                       'with the same system, and bring the folder gpu-debs')


# ---------------------------------------------------------------------------
# The machine.

def find_meson(run):
    """Returns the command of Meson, or of its Python package with this Python.
    """
    path = run.env.get('PATH', os.defpath)
    found = shutil.which('meson', path=path)
    if found and found.startswith(run.build + '-root'):
        return [sys.executable, found]
    if found:
        return [found]
    if ask(sys.executable, '-m', 'mesonbuild.mesonmain', '--version',
           env=run.env):
        return [sys.executable, '-m', 'mesonbuild.mesonmain']
    raise RuntimeError('Meson is not there; install it, or see --debs')


def nvcc_of(run):
    return (shutil.which('nvcc', path=run.env.get('PATH', os.defpath)) or
            shutil.which('nvcc', path='/usr/local/cuda/bin'))


def version_of(include):
    """Returns the version of cuDNN in its header, (major, minor), or None."""
    try:
        with open(os.path.join(include, 'cudnn_version.h')) as f:
            text = f.read()
    except OSError:
        return ()
    found = [re.search(r'#define\s+CUDNN_%s\s+(\d+)' % part, text)
             for part in ('MAJOR', 'MINOR', 'PATCHLEVEL')]
    return tuple(int(m[1]) for m in found if m)


def parts_of_cudnn(root):
    """Returns the folders with cuDNN's header and its library below a folder,
    in the order in which Meson looks."""
    triplet = platform.machine() + '-linux-gnu'
    headers = [f for f in (os.path.join(root, 'include', sub)
                           for sub in ('', triplet))
               if os.path.exists(os.path.join(f, 'cudnn.h'))]
    libs = [lib for lib in ('lib64', 'lib', 'lib/' + triplet) if
            os.path.exists(os.path.join(root, lib, 'libcudnn.so.9'))]
    return headers, libs


def find_cudnn(run):
    """Returns the folder of cuDNN for Meson, or None if Meson finds it. Selects
    the newest one, because an old one may be beside a Python package."""
    if run.options.cudnn:
        return os.path.abspath(run.options.cudnn)
    nvcc = nvcc_of(run)
    cuda = os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) \
        if nvcc else '/usr/local/cuda'
    best, version = None, None
    for root in cuda, '/usr':
        # Images may have the libraries without the headers.
        headers, libs = parts_of_cudnn(root)
        if headers and libs:  # Meson uses the first one
            version = version_of(headers[0])
            break
    say = 'import nvidia.cudnn as c; print(list(c.__path__)[0])'
    for python in sys.executable, run.env.get('TORCH', 'python3'):
        folder = ask(python, '-c', say)
        if folder and os.path.exists(folder + '/lib/libcudnn.so.9'):
            found = version_of(folder + '/include')
            if version is None or found > version:
                best, version = folder, found
    return best


# Major and minor compute capability (attributes 75 and 76 in cuda.h), from the
# driver.
ASK_DRIVER = '''
import ctypes
driver, values = ctypes.CDLL('libcuda.so.1'), [ctypes.c_int() for _ in '12']
codes = [driver.cuInit(0), *(driver.cuDeviceGetAttribute(
    ctypes.byref(v), what, 0) for v, what in zip(values, (75, 76)))]
assert not any(codes)
print('%d.%d' % tuple(v.value for v in values))
'''


def architecture():
    """Returns the capability of the first GPU, as for cuda-archs, or None."""
    text = ask('nvidia-smi', '--query-gpu=compute_cap', '--format=csv,noheader')
    if not re.match(r'\d+\.\d', text or ''):
        text = ask(sys.executable, '-c', ASK_DRIVER)
    if not text:
        return None
    number = text.splitlines()[0].strip().replace('.', '')
    return '90a' if number == '90' else number


# ---------------------------------------------------------------------------

def build(run):
    """Configures and compiles for this machine's GPU."""
    o = run.options
    unpacked = (unpack(run, os.path.abspath(o.debs)) if o.debs else
                take_jansson(run))
    run.meson = find_meson(run)
    configured = os.path.exists(run.path('build.ninja'))
    # Any folder with the emulation is used as it is configured.
    ready = run.emulate and configured and os.path.exists(
        run.path('tests/gpu/flow-emu'))
    words = ['-Dtests=enabled', '-Ddocs=disabled',
             '-Dcuda=' + ('disabled' if run.emulate else 'enabled')]
    arch, cudnn = architecture(), find_cudnn(run)
    if not run.emulate:
        words += ['-Dcuda-archs=' + arch] if arch else []
        words += ['-Dcudnn-path=' + cudnn] if cudnn else []
    setup = ['setup', '--reconfigure'] if configured else ['setup']
    setup = run.meson + setup + ['--buildtype=release', *words, run.build, TOP]
    done = None if ready else run.call(setup)
    if done and done.code and unpacked:  # only one step needs GStreamer
        done = run.call(setup + ['-Dgst=disabled'])
    if ready or not done.code:  # builds everything that can be built
        done = run.call(run.meson + ['compile', '-C', run.build,
                                     '--ninja-args=-k0'])
    if done.code or done.stopped:
        found = [s for s in (done.out + done.err).splitlines()
                 if 'error' in s.lower() or 'undefined reference' in s]
        return {'status': 'failed', 'words': 'stopped' if done.stopped else
                (found or [done.last()])[0]}
    return {'status': 'passed', 'words': 'for %s%s%s' % (
        'the emulation' if run.emulate else
        'sm_' + arch if arch else 'the default devices',
        ', cuDNN of ' + cudnn if cudnn else '',
        ', %d packages unpacked' % unpacked if unpacked else '')}


def processor():
    try:
        with open('/proc/cpuinfo') as f:
            return re.search(r'^model name\s*: (.*)', f.read(), re.M)[1]
    except (OSError, TypeError):
        return platform.machine()


def describe(run):
    """Describes the machine, for the report."""
    m = run.report['machine']
    run.report['revision'] = 'unknown'
    revision = (run.options.revision or ask('git', 'rev-parse', 'HEAD') or
                'unknown')
    if not run.options.revision and ask(
            'git', 'status', '--porcelain', '--untracked-files=no'):
        revision += ' and changes'
    run.report['revision'] = revision
    m['cpu'] = processor()
    m['system'] = ' '.join((platform.system(), platform.release()))
    text = ask('nvidia-smi', '--query-gpu=name,driver_version,memory.total',
               '--format=csv,noheader')
    if text:
        m['gpu'], m['driver'], m['memory'] = \
            [v.strip() for v in text.splitlines()[0].split(',')]
    elif run.emulate:
        m['gpu'] = 'emulated'
    nvcc = nvcc_of(run)
    said = ask(nvcc, '--version') if nvcc else None
    if said:
        m['nvcc'] = re.search(r'release ([\d.]+)', said)[1]
    said = ask('gst-launch-1.0', '--version', env=run.env)
    if said:
        m['gstreamer'] = said.splitlines()[-1].split()[-1] \
            if 'GStreamer' not in said else \
            re.search(r'GStreamer ([\d.]+)', said)[1]
