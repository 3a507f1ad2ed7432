#!/bin/sh
# Cross-builds libvae, vaetool, the plugin and the Python package for 64-bit
# Windows, and runs them under Wine, the plugin in GStreamer's own programs. The
# last line is "N passed, N failed, N skipped". The exit status is 0 if none
# failed.
#
#   sh tests/windows.sh [BUILD FOLDER]    default: build-windows
#
# A test decodes a vector as a Windows program and as a program of this system:
# both files must be equal. If a package is not available, the whole script is
# one skip. What windows/root.sh builds stays in BUILD FOLDER-root.
set -u
cd "$(dirname "$0")/.." || exit 1
case $#,${1:-} in
0, | 1,[!-]*) ;;
*)
    echo 'usage: sh tests/windows.sh [BUILD FOLDER]' >&2
    exit 2
    ;;
esac
build=${1:-build-windows}
source=$PWD
# Options of the build machine are wrong for the target.
unset CC CXX CFLAGS CXXFLAGS LDFLAGS PKG_CONFIG_PATH

skip() { # WHY
    echo "SKIPPED: windows: $*"
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
}

sh tests/deps.sh windows || skip 'mingw-w64 and Wine are not to be had'
wine=/usr/lib/wine/wine64
for tool in x86_64-w64-mingw32-gcc-posix "$wine" cmake apt-get; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
sh tests/windows/root.sh "$build-root" >"$build-root.log" 2>&1 || {
    tail -n 20 "$build-root.log"
    skip 'libraries for Windows are not to be had'
}
root=$(cd "$build-root" && pwd) || exit

compile() { # FOLDER TARGETS OPTION...
    folder=$1 targets=$2
    shift 2
    if [ -f "$folder/build.ninja" ]; then
        meson setup --reconfigure "$folder" "$@" ||
            meson setup --wipe "$folder" "$@"
    else
        meson setup "$folder" "$@"
    fi || return
    # shellcheck disable=SC2086 # a list of words
    ninja -C "$folder" $targets
}
options='-Donednn=enabled -Dcuda-archs=90a'
# shellcheck disable=SC2086 # a list of words
if ! sh tests/windows/zip.sh "$root" "$build" $options >"$build.log" 2>&1 ||
    ! compile "$build/build" tests/golden/golden.exe -Dtests=enabled \
        >>"$build.log" 2>&1 ||
    ! compile "$build-native" 'engine/vaetool gst/libgstvae.so' --buildtype=release \
        -Donednn=enabled -Dgst=enabled -Dgst-cuda=disabled -Dcuda=disabled \
        -Dpython=disabled -Ddocs=disabled >>"$build.log" 2>&1; then
    tail -n 60 "$build.log"
    echo 'FAILED: build'
    echo '0 passed, 1 failed, 0 skipped'
    exit 1
fi

export WINEPREFIX="$root/wine" WINEDEBUG=-all WINEARCH=win64
export WINEDLLOVERRIDES='mscoree,mshtml=' LC_ALL=C.UTF-8
export WINELOADER="$wine" WINESERVER=/usr/lib/wine/wineserver64
[ -d "$WINEPREFIX" ] || "$wine" wineboot -i >/dev/null 2>&1

vectors=$PWD/tests/golden/data
data=$vectors/taehv/taew2_1
demo=$PWD/pipelines/demo
build=$(cd "$build" && pwd)
rm -rf "$root/dist"
python3 -m zipfile -e "$build"/gst-vae-*-win64.zip "$root/dist"
installed=$root/dist/gst-vae
skipped=0
[ -f "$installed/bin/vae-cuda.dll" ] || {
    echo 'SKIPPED: the CUDA backend: there is no nvcc'
    skipped=1
}
tool=$installed/bin/vaetool.exe
native=$build-native/engine/vaetool
decode="decode --model $data/weights.safetensors $data/decode_t5_6x10.safetensors"
# Two versions of oneDNN may compute different bytes. The backend ref cannot.
ref="$decode --backend ref"
passed=1 failed=0
check() { # WHAT COMMAND...
    what=$1
    shift
    "$@" >"$build.log" 2>&1
    status=$?
    if [ "$status" = 0 ]; then
        echo "ok: $what"
        passed=$((passed + 1))
    elif [ "$status" = 77 ]; then
        echo "SKIPPED: $what"
        skipped=$((skipped + 1))
    else
        tail -n 5 "$build.log"
        echo "FAILED: $what"
        failed=$((failed + 1))
    fi
}
windows() { # OUTPUT OPTION...: decodes to that file
    out=$1
    shift
    # shellcheck disable=SC2086 # a list of words
    "$wine" "$tool" $ref "$out" "$@"
}
slices() { windows "s$1.npy" --slice "$1" && cmp "s$1.npy" native.npy; }
backslashes() { windows 'Ünicode\frames 例.npy' && cmp 'Ünicode/frames 例.npy' native.npy; }
replaces() { cp s1.npy old.npy && echo x >>old.npy && windows old.npy && cmp old.npy native.npy; }
resumes() { windows kept.npy --resume && cmp kept.npy native.npy; }
refuses() {
    ! windows missing/out.npy && grep -q 'missing/out.npy: cannot create' "$build.log"
}
# With the backend cpu: the same bytes in slices, and those of the native build
# but for rounding.
processor() {
    # shellcheck disable=SC2086 # lists of words
    "$wine" "$tool" $decode --backend cpu --precision fp32 "cpu$1.npy" --slice "$1" &&
        cmp "cpu$1.npy" cpu1.npy &&
        "$native" compare --min-psnr 100 "cpu$1.npy" native.npy
}
golden() { # BACKEND PRECISION
    VAE_TEST_VECTORS=Z:$vectors "$wine" "$build/build/tests/golden/golden.exe" small "$@"
}
mkdir -p "$root/work" && cd "$root/work" && rm -rf ./* && mkdir Ünicode || exit 1
check 'golden vectors, ref fp32' golden ref fp32
check 'golden vectors, cpu fp32' golden cpu fp32
check 'golden vectors, cpu bf16' golden cpu bf16
# shellcheck disable=SC2086 # a list of words
check 'native decode' "$native" $ref native.npy
check 'slices of 1 latent' slices 1
check 'slices of 4 latents' slices 4
check 'the backend cpu, in slices of 1 latent' processor 1
check 'the backend cpu, in slices of 4 latents' processor 4
check 'a path with backslashes and other letters' backslashes
check 'an old file is replaced' replaces
check 'a whole run of --resume' resumes
check 'a missing folder is an error that names it' refuses
# A killed run leaves its files; the same command continues.
# shellcheck disable=SC2086 # a list of words
"$wine" "$tool" $ref cut.npy --resume --slice 1 --checkpoint-interval 1 \
    >/dev/null 2>&1 &
tries=0
while [ ! -f cut.npy.checkpoint ] && [ ! -f cut.npy ] && [ $tries -lt 1200 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -9 $! 2>/dev/null
wait
"$WINESERVER" -w # until all programs have ended
cut() { windows cut.npy --resume --slice 1 --checkpoint-interval 1 && cmp cut.npy native.npy; }
check 'a killed run continues' cut

# vaetool ends with 3 if it can continue. The console moves the cursor between all
# letters.
ctrl_c() {
    x86_64-w64-mingw32-gcc-posix -municode "$source/tests/windows/interrupt.c" \
        -o interrupt.exe || return
    script -qec "'$wine' interrupt.exe stopped.npy.checkpoint '$tool' decode \
        --backend ref --model $demo/demo.safetensors $demo/latents.safetensors \
        stopped.npy --resume --slice 1 --checkpoint-interval 1" /dev/null \
        </dev/null >said
    [ $? = 3 ] && sed 's/\x1b[^a-zA-Z]*[a-zA-Z]//g' said | grep interrupted &&
        [ -f stopped.npy.checkpoint ]
}
check 'Ctrl-C in the console' ctrl_c

# The wheel, in CPython's own DLL. Under Wine 8, Python needs a pipe as output.
packages=$root/python/Lib/site-packages
windows_python() { # ARGUMENT...
    {
        "$wine" "$root/python/python.exe" "$@" </dev/null 2>&1
        echo $? >python.status
    } | cat
    [ "$(cat python.status)" = 0 ]
}
wheel() {
    # shellcheck disable=SC2086 # a list of words
    sh "$source/tests/windows/wheel.sh" "$root" "$build-wheel" $options &&
        wheel=$(echo "$build-wheel"/gst_vae-*-cp310-abi3-win_amd64.whl) &&
        rm -rf "$packages"/gst_vae* &&
        python3 -m zipfile -e "$wheel" "$packages"
}
python_test() { # NAME
    VAE_TEST_VECTORS=Z:$vectors windows_python "$source/tests/python/test_$1.py"
}
check 'the wheel for Python' wheel
check 'Python: the bytes are those of vaetool' python_test package
check 'Python: misuse, and Ctrl-C' python_test misuse

# The plugin, in GStreamer's programs, with few of GStreamer's plugins: Wine 8
# cannot load some of the others. Wine takes PATH from WINEPATH.
mkdir -p "$root/plugins"
for name in coreelements videoconvertscale videotestsrc png vpx matroska; do
    cp "$root"/site/*/lib/gstreamer-1.0/gst$name.dll "$root/plugins/"
done
site=Z:$root/site
export WINEPATH="Z:$installed/bin;$site/gstreamer_libs/bin;$site/gstreamer_ext_runtime/bin;$site/gstreamer_plugins_libs/bin"
export GST_PLUGIN_SYSTEM_PATH_1_0="Z:$root/plugins"
export GST_PLUGIN_PATH_1_0="Z:$installed/lib/gstreamer-1.0" GST_REGISTRY_1_0="Z:$root/registry.bin"
export GST_REGISTRY_FORK=no
windows_gst() { # PROGRAM ARGUMENT...
    program=$1
    shift
    "$wine" "$root/site/gstreamer_cli/bin/gst-$program-1.0.exe" "$@"
}
native_gst() { # ARGUMENT...
    GST_PLUGIN_SYSTEM_PATH_1_0='' GST_PLUGIN_PATH_1_0=$native_plugins \
        GST_REGISTRY_1_0=$root/native.bin gst-launch-1.0 -q "$@"
}
native_plugins=$build-native/gst:$(pkg-config --variable=pluginsdir gstreamer-1.0)
vector="filesrc location=$data/decode_t5_6x10.safetensors ! latentdemux !
    vaedecode backend=ref model"
# Each library is installed, or in GStreamer's wheels, or a part of Windows.
closed() {
    for file in "$installed"/bin/* "$installed"/lib/gstreamer-1.0/*.dll; do
        x86_64-w64-mingw32-objdump -p "$file" | sed -n 's/.*DLL Name: //p'
    done | sort -u | while read -r dll; do
        case $dll in
        KERNEL32.dll | SHELL32.dll | msvcrt.dll) ;;
        *)
            [ -f "$installed/bin/$dll" ] || [ -f "$root/site/gstreamer_libs/bin/$dll" ] ||
                find "$root/nvidia" -name "$dll" | grep -q . || {
                echo "$dll is not there"
                exit 1
            }
            ;;
        esac
    done
}
listed() {
    for element in vaedecode vaeencode latentdemux latentmux; do
        windows_gst inspect $element | grep 'Description  *[A-Z].* latent' || return
    done
}
# shellcheck disable=SC2086 # lists of words
frames() {
    native_gst $vector="$data/weights.safetensors" ! video/x-raw,format=RGB ! \
        filesink location=native.rgb &&
        cp "$data/weights.safetensors" 'Ünicode/gewichte 例.safetensors' &&
        windows_gst launch -q $vector='"Ünicode/gewichte 例.safetensors"' ! \
            video/x-raw,format=RGB ! filesink location=windows.rgb &&
        cmp windows.rgb native.rgb
}
# shellcheck disable=SC2086 # lists of words
picture() {
    windows_gst launch -q $vector="$data/weights.safetensors" ! videoconvert ! \
        pngenc snapshot=true ! filesink location=one.png &&
        native_gst filesrc location=one.png ! pngdec ! videoconvert ! \
            video/x-raw,format=RGB ! filesink location=one.rgb &&
        cmp -n $((80 * 48 * 3)) one.rgb native.rgb
}
# The demo, with the model that the plugin finds by itself: 33 frames.
video() {
    windows_gst launch -q filesrc location="$demo/latents.safetensors" ! \
        latentdemux ! vaedecode backend=cpu ! videoconvert ! vp8enc deadline=1 ! \
        webmmux ! filesink location=demo.webm &&
        native_gst filesrc location=demo.webm ! matroskademux ! vp8dec ! \
            videoconvert ! video/x-raw,format=RGB,width=416,height=240 ! \
            filesink location=demo.rgb &&
        [ "$(wc -c <demo.rgb)" = $((33 * 416 * 240 * 3)) ]
}
no_model() {
    # shellcheck disable=SC2086 # a list of words
    ! windows_gst launch -q $vector=missing.safetensors ! fakesink &&
        grep -q 'missing.safetensors: ' "$build.log"
}
check 'all libraries are there' closed
check 'gst-inspect-1.0 lists the elements' listed
check 'frames of the plugin are those of the native one' frames
check 'a PNG picture' picture
check 'the demo as WebM' video
# As a user without the installed folder.
new_user() {
    cp "$source/tests/python/try_wheel.py" "$demo/latents.safetensors" . &&
        env -u GST_PLUGIN_PATH_1_0 WINEPATH="$site/gstreamer_cli/bin;${WINEPATH#*;}" \
            GST_REGISTRY_1_0="Z:$root/wheel.bin" sh -c '
            { "$WINELOADER" "$0" try_wheel.py $1 </dev/null 2>&1; echo $? >python.status; } |
                cat' "$root/python/python.exe" "$gpu" && [ "$(cat python.status)" = 0 ] &&
        grep -q 'the plugin plays' "$build.log"
}
no_driver() {
    ! WINEPATH="Z:$root/nvidia/cu13/bin/x86_64;Z:$root/nvidia/cudnn/bin" "$wine" \
        "$tool" plan --model "$data/weights.safetensors" --size 64x64 --backend cuda &&
        grep -q 'backend cuda: there is no NVIDIA driver' "$build.log"
}
gpu=
if [ -f "$installed/bin/vae-cuda.dll" ]; then
    gpu=cuda
    ln -sfn "$root/nvidia" "$packages/nvidia" # as NVIDIA's wheels beside ours
    check 'without a driver, the CUDA backend says so' no_driver
fi
check 'a missing model is an error that names it' no_model
check 'Python and the plugin of the wheel' new_user
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
