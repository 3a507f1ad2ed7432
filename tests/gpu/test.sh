#!/bin/sh
# Tests run.sh on the emulated device: each step must work, find errors and end
# by itself, and the report must be complete.
#
#   test.sh BUILD FOLDER    FOLDER is made, and removed at the end
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
out=$2
failed=0
rm -rf "$out"
mkdir -p "$out/bin" || exit 1
trap 'rm -rf "$out"' EXIT

# expect WHAT COMMAND...: the command must succeed.
expect() {
    what=$1
    shift
    if "$@"; then
        echo "ok   $what"
    else
        echo "FAIL $what"
        failed=1
    fi
}

# run STATUS ARGUMENT...: run.sh must exit with STATUS.
run() {
    want=$1
    shift
    status=0
    sh "$here/run.sh" --emulate --build "$build" --out "$out/report" "$@" \
        >"$out/said" 2>&1 || status=$?
    expect "run.sh $* ends with $want" [ "$status" = "$want" ]
    [ "$status" = "$want" ] || cat "$out/said"
}

# entry STEP STATUS WORDS: the report must have this entry.
entry() {
    expect "$1 is $2: $3" python3 - "$out/report/report.json" "$@" <<'END'
import json, sys
path, name, status, words = sys.argv[1:]
step = [s for s in json.load(open(path))['steps'] if s['step'] == name][0]
good = step['status'] == status and words in step['words']
if not good:
    print(step['status'], step['words'])
sys.exit(not good)
END
}

# tool NAME: puts a program of that name, from standard input, first in PATH.
tool() {
    cat >"$out/bin/$1"
    chmod +x "$out/bin/$1"
}

PATH=$out/bin:$PATH
export PATH
unset OFFICIAL TORCH
small='--models tests/golden/data/taehv/taew2_1/weights.safetensors
    --sizes 48x32 --frames 5 --directions decode'

# All steps that work, and the names of those that lack something.
# shellcheck disable=SC2086 # words
run 0 $small --only rates,start,overlap,speed,ladder,torch,exact,failures
entry rates passed 'product'
entry overlap passed '1 of 1'
expect 'slices are seen computing' python3 - "$out/report/report.json" <<'END'
import json, sys
step = [s for s in json.load(open(sys.argv[1]))['steps']
        if s['step'] == 'overlap'][0]
found = step['rows'][0]['compute']
assert found['ms'] > 0 and found['busy'] > 0.5, found
END
entry speed passed '1 of 1'
entry ladder passed '5 of 5'
entry torch skipped 'OFFICIAL is not set'
entry start passed 'stored'
expect 'the parts of a start' python3 - "$out/report/report.json" <<'END'
import json, sys
step = [s for s in json.load(open(sys.argv[1]))['steps']
        if s['step'] == 'start'][0]
parts, = [r['parts'] for r in step['rows'] if 'parts' in r]
names = ['model', 'backend', 'device', 'library', 'test', 'programs', 'choices',
         'plans', 'weights', 'upload', 'prepare', 'code', 'memory', 'other',
         'first', 'rest']
assert list(parts) == names and min(parts.values()) >= 0, parts
END
expect 'the parts in the table' grep -q \
    '^first frame of weights.* s: model 0.*, backend 0.*, rest 0' "$out/said"
entry exact passed '1 of 1'
entry failures passed '13 of 13'
expect 'its checks' grep -q '^pass results: weights.safetensors .* in slices$' \
    "$out/said"
expect 'each rung' grep -q '48x32, spilled: .* of slices of 1$' "$out/said"
expect 'what nobody measured' grep -q '^? *results: kernels .*was not run' "$out/said"
expect 'timed layers for the next one' sh -c 'ls "$1"/report/cuda-*.txt' sh "$out"
expect 'a table last' grep -q '^weights.safetensors decode.*48x32' "$out/said"
expect 'the same from the report' sh -c '
    python3 -B "$1/report.py" "$2/report/report.json" |
    cmp - "$2/report/table.txt"' sh "$here" "$out"
expect 'the log' grep -q '^= status 0' "$out/report/log.txt"

# The elements, where there are any; gst-launch-1.0 has no sanitizers.
if [ -e "$build/gst/libgstvae.so" ] && command -v gst-launch-1.0 >/dev/null &&
    ! ldd "$build/gst/libgstvae.so" | grep -q 'lib[a-z]*san'; then
    run 0 --only pipelines
    entry pipelines passed ' played'
    expect 'the device first, then the reference' python3 - \
        "$out/report/report.json" <<'END'
import json, sys
step = [s for s in json.load(open(sys.argv[1]))['steps']
        if s['step'] == 'pipelines'][0]
names = [r['pipeline'] for r in step['rows']]
assert names[0] == 'decode by cuda', names
assert names[-1] in ('decode by cpu in fp32', 'decode by ref'), names
assert all(r['psnr'] > 40 for r in step['rows'] if 'psnr' in r), step
assert 'psnr' in step['rows'][0], step
END
fi
expect 'frames of padded lines, and too few of them' env PYTHONPATH="$here" \
    python3 -B - "$out" <<'END'
import sys, types
from measure import pipelines
run = types.SimpleNamespace(tmp=sys.argv[1] + '/frames', emulate=True, rows=[],
                            path=str, env={})
e = pipelines.Elements(run)
line = bytes(range(104)) * 16
def write(name, data):
    with open(e.file(name), 'wb') as f:
        f.write(data)
write('a', line * 80)
write('b', (line + bytes(384)) * 80)
write('c', line * 79)
write('d', (line[:-2] + b'?' + line[-1:]) * 80)
for other, result in ('b', 'ok'), ('c', 'failed'), ('d', 'failed'), \
        ('none', 'failed'):
    row = {'result': 'ok', 'words': ''}
    e.same(row, 'a', other)
    assert row['result'] == result, (other, row)
got = e.pictures('a', 2, 4)
write('known.rgb', got)
known = {'result': 'ok'}, 2
for name, result in ('b', 'ok'), ('c', 'failed'):
    row = {'result': 'ok'}
    e.compare(row, name, 4, known)
    assert row['result'] == result, (name, row)
write('known.rgb', got[:len(got) // 5])  # the first of five frames
for expected, steps, result in ('ok', 1, 'ok'), ('stopped', 1, 'stopped'), \
        ('ok', 2, 'failed'):
    row = {'result': 'ok'}
    e.compare(row, 'b', 4, ({'result': expected}, steps))
    assert row['result'] == result, (expected, steps, row)
write('known.rgb', bytes(255 - v for v in got))
row = {'result': 'ok'}
e.compare(row, 'a', 4, known)
assert row['result'] == 'failed' and row['psnr'] < 40, row
END

# A sanitizer that finds an error, and one that does not end.
tool compute-sanitizer <<'END'
#!/bin/sh
case $* in
*racecheck*) echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error)' && exit 99 ;;
*synccheck*) exec sleep 1000 ;;
*memcheck*--report-api-errors\ no*) echo '========= ERROR SUMMARY: 0 errors' ;;
*) echo '========= ERROR SUMMARY: 1 error' && exit 99 ;;
esac
END
run 1 --only sanitizer,torch --limit 60
entry sanitizer failed 'racecheck norm x96: 1 hazard displayed'
entry sanitizer failed '3 of 6 cases clean'
expect 'the cases of sanitizers are there' env PYTHONPATH="$here" \
    python3 -B - "$build/tests/gpu" <<'END'
import glob, re, subprocess, sys, types
import steps
run = types.SimpleNamespace(
    options=types.SimpleNamespace(quick=False), emulate=False,
    program=lambda name: '%s/%s-emu' % (sys.argv[1], name), path=str)
cases = steps.sanitizer_cases(run)
assert cases[-1][3]['XDG_CACHE_HOME'] == 'tests/cache', cases[-1]
for _, label, command, _ in cases:
    if '-emu' in command[0]:
        said = subprocess.run([*command, '--list'], capture_output=True,
                              text=True, check=True).stdout
        assert len(said.splitlines()) > 0, (label, said)
# `types` calls the kernels of the other families.
families = {re.search('check-(.*)-emu$', path)[1]
            for path in glob.glob(sys.argv[1] + '/check-*-emu')}
for tool, expected in ('memcheck', families), ('racecheck', families - {'types'}):
    found = {label.split()[0] for kind, label, *_ in cases if kind == tool}
    assert len(expected) > 6 and expected <= found, (tool, expected - found)
rows = []
run = types.SimpleNamespace(**vars(run), over=lambda: True, rows=rows)
steps.find_sanitizer = lambda run: 'none'
assert steps.sanitizer(run)['status'] == 'stopped'
assert len(rows) == len(steps.sanitizer_cases(run)), rows
END
# run.sh is terminated in the middle of a step.
tool compute-sanitizer <<END
#!/bin/sh
: >'$out/begun'
exec sleep 1000
END
rm "$out/report/table.txt"
sh "$here/run.sh" --emulate --build "$build" --out "$out/report" \
    --only rates,sanitizer >"$out/said" 2>&1 &
pid=$!
until [ -e "$out/begun" ] || ! kill -0 "$pid"; do sleep 0.1; done
kill "$pid"
status=0
wait "$pid" || status=$?
expect 'ended with 143' [ "$status" = 143 ]
entry rates passed 'product'
entry sanitizer stopped 'told to end'
expect 'what was done is in the table' grep -q '^rates *passed' \
    "$out/report/table.txt"
# The same by Ctrl-C, which a shell does not pass to background processes.
rm "$out/report/table.txt" "$out/begun"
expect 'interrupted: 130, and no traceback' python3 -B - "$here/run.sh" \
    "$build" "$out" <<'END'
import os, signal, subprocess, sys, time
script, build, out = sys.argv[1:]
with open(out + '/said', 'w') as said:
    run = subprocess.Popen(
        ['sh', script, '--emulate', '--build', build, '--out', out + '/report',
         '--only', 'rates,sanitizer'], stdout=said, stderr=subprocess.STDOUT)
while not os.path.exists(out + '/begun') and run.poll() is None:
    time.sleep(0.1)
run.send_signal(signal.SIGINT)
status, said = run.wait(), open(out + '/said').read()
assert status == 130 and 'Traceback' not in said, (status, said)
END
entry sanitizer stopped 'told to end'
expect 'what was done is in that table' grep -q '^rates *passed' \
    "$out/report/table.txt"

# A device whose clocks are recorded until the end.
tool nvidia-smi <<END
#!/bin/sh
[ "\$1" = dmon ] || exit 1
echo \$\$ >'$out/watcher'
exec sleep 1000
END
OFFICIAL=$out TORCH=false run 0 --only torch
expect 'clocks are watched' [ -s "$out/watcher" ]
expect 'and no longer' sh -c '! kill -0 "$(cat "$1")" 2>&-' sh "$out/watcher"
expect 'into the report' [ -e "$out/report/clocks.txt" ]
rm "$out/bin/nvidia-smi"
OFFICIAL=$out TORCH=false entry torch skipped 'false has no PyTorch'

# A stream with a wrong result.
expect 'faults are found' env PYTHONPATH="$here" python3 -B - <<'END'
from measure import speed
good = {'allocs_later': 0, 'allocs_host_later': 0, 'taken_later': 0,
        'taken_by_plan': 1.01, 'taken': 1 << 30, 'plan': {'total': 1 << 30},
        'slices': 3, 'upload': {'copies': 3, 'hidden': 1},
        'compute': {'slices': 3, 'ms': 1.5},
        'download': {'copies': 3, 'hidden': 0.99}}
bad = [('allocs_later', 1), ('allocs_host_later', 2), ('taken_later', 4096),
       ('taken', 1.05 * (1 << 30)), ('taken', 0.9 * (1 << 30)),
       ('compute', {'slices': 3, 'ms': 0}), ('compute', {'slices': 2, 'ms': 1}),
       ('upload', {'copies': 0, 'hidden': 1}),
       ('upload', {'copies': 3, 'hidden': 0.5}), ('download', {'copies': 0, 'hidden': 1}),
       ('download', {'copies': 3, 'hidden': float('nan')}),
       ('download', {'copies': 3, 'hidden': 0.5})]
assert not speed.flow_faults(good)
for key, value in bad:
    assert len(speed.flow_faults({**good, key: value})) == 1, key
ops = [{'program': 'next', 'op': 'conv', 'seconds': '2', 'gflops': '500',
        'gbytes_s': '1'}, {'program': 'next', 'op': 'norm', 'seconds': '1',
        'gflops': '0', 'gbytes_s': '50'}]
found = speed.floor({'convs': [{'type': 'bf16', 'tflops': 1}],
                     'copy_gbytes_s': 100}, {'precision': 'bf16', 'ops': ops})
assert found['floor_share'] == 0.5, found
END

# A crash must not count as a network that does not fit.
expect 'what cannot run has failed' \
    env PYTHONPATH="$here" python3 -B - "$out/crash" <<'END'
import sys, types
import runner
from measure import speed
options = types.SimpleNamespace(
    models=['wan2.1'], sizes=['832x480'], directions=['decode'], frames=9,
    precisions=['bf16'], usual=True, emulate=False, limit=None,
    out=sys.argv[1] + '-out', build=sys.argv[1])
says = {'an illegal memory access was encountered': 'failed',
        'read 12 of 99 bytes': 'failed', 'stopped after 180 s': 'stopped',
        'decode of 832x480 in bf16 with 4 latent steps per slice needs 9.0 MiB '
        '(x) and 8.0 MiB are free on the device; settings that would fit: '
        '64x48': 'skipped'}
for said, result in says.items():
    speed.bench = lambda *_: said
    step = runner.Run(options).step('speed', speed.speed, 9)
    assert step['rows'][0]['result'] == result, said
assert step['status'] == 'skipped'
END

# Wrong numbers.
expect 'numbers that miss are told' env PYTHONPATH="$here" \
    python3 -B "$here/test_checks.py"

# Packages that are unpacked, one of them without those it privately needs.
mkdir -p "$out/deb/DEBIAN" "$out/deb/usr/lib/x86_64-linux-gnu/pkgconfig" \
    "$out/debs"
cat >"$out/deb/DEBIAN/control" <<'END'
Package: one
Version: 1
Architecture: all
Maintainer: none
Description: none
END
cat >"$out/deb/usr/lib/x86_64-linux-gnu/pkgconfig/one.pc" <<'END'
prefix=/usr
Name: one
Description: none
Version: 1
Requires.private: none-of-this-name
Cflags: -I${prefix}/include/one
END
if command -v dpkg-deb >/dev/null; then
    dpkg-deb -b "$out/deb" "$out/debs/one.deb" >/dev/null
    expect 'unpacked packages are found' env PYTHONPATH="$here" python3 -B - \
        "$out" <<'END'
import sys
import build, gpu, runner, time
out = sys.argv[1]
o = gpu.parse(['--emulate', '--out', out + '/unpacked', '--build', out + '/u'])
run = runner.Run(o)
run.deadline = time.monotonic() + 60
assert build.unpack(run, out + '/debs') == 1
said = build.ask('pkg-config', '--cflags', 'one', env=run.env)
assert said == '-I%s/u-root/usr/include/one' % out, said
END
fi
expect 'a build without the GStreamer that fails' env PYTHONPATH="$here" \
    python3 -B - "$out" <<'END'
import os, sys, types
import build
said = []
def call(words):
    said.append(words)
    return types.SimpleNamespace(
        code='setup' in words and '-Dgst=disabled' not in words, stopped=False)
run = types.SimpleNamespace(
    options=types.SimpleNamespace(debs=sys.argv[1], cudnn=None), call=call,
    emulate=False, build=sys.argv[1] + '/u', env=dict(os.environ),
    path=lambda name: sys.argv[1] + '/u/' + name)
build.unpack, build.find_meson = lambda *_: 1, lambda *_: ['meson']
assert build.build(run)['status'] == 'passed'
assert [w[1] for w in said] == ['setup', 'setup', 'compile'], said
END

# Without a GPU run.sh says so and does nothing.
if [ ! -e /dev/nvidiactl ]; then
    status=0
    sh "$here/run.sh" --out "$out/none" >"$out/said" || status=$?
    expect 'without a GPU 77' [ "$status" = 77 ]
    expect 'in words' grep -q '^skipped: there is no NVIDIA GPU' "$out/said"
    expect 'and nothing written' [ ! -e "$out/none" ]
fi
expect 'three calls of at most ten minutes, with all steps that count' \
    env PYTHONPATH="$here" python3 -B - <<'END'
import gpu
names = []
for call in 1, 2, 3:
    o = gpu.parse(['--call', str(call)])
    steps = gpu.chosen(o)
    assert o.limit < 600 and sum(s[2] for s in steps) < o.limit - 90, steps
    names += [s[0] for s in steps]
assert names == ['rates', 'kernels', 'golden', 'start', 'overlap', 'speed',
                 'torch', 'exact'], names
small = gpu.parse(['--call', '2', '--emulate'])
assert small.models == gpu.parse(['--emulate']).models, small.models
assert gpu.parse(['--call', '2']).models == ['wan2.1', 'seedvr2', 'wan2.2',
                                             'taew2_1']
END
run 2 --call 4
run 2 --only nothing
run 2 --only speed:fast
run 2 --skip speed:9
run 2 --sizes large
run 2 --only speed:0
run 2 --only speed --skip speed
run 2 --only ,
run 2 --directions up
run 2 --precisions fp8
run 2 --frames 0
run 2 --limit -1
run 2 --timed "$out/nothing"
run 2 --models nope
run 2 --debs "$out/nothing"
run 2 --build ''
run 2 --build "$here"
run 2 --cudnn "$out/nothing"
expect 'in one line' [ "$(wc -l <"$out/said")" = 1 ]
expect 'with its name' grep -q "cudnn: .* $out/nothing" "$out/said"
: >"$out/file"
run 2 --out "$out/file/x"
expect 'a folder that cannot be made: one line' [ "$(wc -l <"$out/said")" = 1 ]
expect 'networks are those of vaetool' env PYTHONPATH="$here" python3 -B - \
    "$build/engine/vaetool" <<'END'
import subprocess, sys
from measure import speed
said = subprocess.run([sys.argv[1], 'make-weights', '--help'],
                      capture_output=True, text=True).stdout
listed = said.split('ARCH: ')[1].split('\n\n')[0].split()
assert listed == speed.NETWORKS, listed
END
exit $failed
