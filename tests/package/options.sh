#!/bin/sh
# Tests the messages of meson setup about the options of the backends: the
# architectures, and missing parts. The toolkit consists of empty files; the
# test compiles nothing.
#
#   options.sh SOURCE
set -u
source=$1
failed=0
command -v meson >/dev/null || {
    echo 'skipped: meson is not there'
    exit 77
}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cuda=$folder/cuda
mkdir -p "$cuda/bin" "$cuda/include" "$cuda/lib64" "$folder/bin"
echo '#define CUDART_VERSION 13000' >"$cuda/include/cuda_runtime_api.h"
echo '#define CUDNN_VERSION 91900' >"$cuda/include/cudnn.h"
: >"$cuda/lib64/libcudart_static.a"
: >"$cuda/lib64/libcudnn.so.9"
cat >"$cuda/bin/nvcc" <<'END'
#!/bin/sh
case $1 in
--version) echo 'Cuda compilation tools, release 99.0, V99.0.0' ;;
*) printf 'sm_%s\n' 75 80 90 ;;
esac
END
cat >"$folder/bin/nvidia-smi" <<END
#!/bin/sh
cat '$folder/gpu'
END
chmod +x "$cuda/bin/nvcc" "$folder/bin/nvidia-smi"
PATH=$folder/bin:$PATH
export PATH

# options STATUS WORDS OPTION...: meson setup must exit with STATUS and print
# WORDS; - stands for no words.
options() {
    want=$1
    words=$2
    shift 2
    rm -rf "$folder/build"
    status=0
    meson setup "$folder/build" "$source" -Dtests=disabled -Dgst=disabled \
        -Donednn=disabled -Ddocs=disabled "$@" >"$folder/said" 2>&1 || status=1
    if [ "$status" = "$want" ] && grep -q "$words" "$folder/said"; then
        echo "ok   $*: $words"
    else
        echo "FAIL $*: status $status, expected $want and \"$words\""
        cat "$folder/said"
        failed=1
    fi
}

# also WORDS: the last run must also have printed WORDS.
also() {
    grep -q "$1" "$folder/said" && return
    echo "FAIL it does not say \"$1\""
    cat "$folder/said"
    failed=1
}

with=-Dcuda-path=$cuda
none=$folder/none
options 0 'CUDA architectures *: 75 80 90a$' -Dcuda=enabled "$with"
options 0 'WARNING: cuda-archs=native: no GPU is found' -Dcuda=enabled "$with" \
    -Dcuda-archs=native
also 'CUDA architectures *: 75 80 90a$'
echo 8.0 >"$folder/gpu"
options 0 'CUDA architectures *: 80$' -Dcuda=enabled "$with" -Dcuda-archs=native
! grep 'no GPU is found' "$folder/said" || failed=1
options 1 'ERROR: .*the option cuda-archs is empty: expected all, native' "$with" \
    -Dcuda-archs=
options 1 "ERROR: .* no libcudnn.so.9 .* in $none " -Dcuda=enabled "$with" \
    -Dcudnn-path="$none"
options 0 "WARNING: .* no libcudnn.so.9 .* in $none\$" "$with" -Dcudnn-path="$none"
also "CUDA backend (cuDNN) *: NO: no libcudnn.so.9 .* in $none\$"
# A header of another folder does not replace a missing one.
mkdir -p "$folder/half/lib"
: >"$folder/half/lib/libcudnn.so.9"
options 1 "ERROR: .* no libcudnn.so.9 .* in $folder/half " -Dcuda=enabled \
    "$with" -Dcudnn-path="$folder/half"
options 0 "WARNING: .* in $none\$" -Dcuda-path="$none"
also "CUDA backend (cuDNN) *: NO: "

# A cross build must not use the toolkit and the library of this machine.
cat >"$folder/cross.ini" <<'END'
[binaries]
c = 'cc'
pkgconfig = 'pkg-config'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
cross=--cross-file=$folder/cross.ini
PATH=$cuda/bin:$PATH
options 0 'CUDA backend (cuDNN) *: NO$' "$cross"
options 1 "ERROR: .* no libcudart_static.a in $cuda " -Dcuda=enabled "$cross"
mkdir -p "$cuda/targets/sbsa-linux/lib"
cp "$cuda/lib64/libcudart_static.a" "$cuda/targets/sbsa-linux/lib"
options 0 'CUDA architectures *: 75 80 90a$' -Dcuda=enabled "$cross"

# Without the option, and with a oneDNN that is none.
mkdir -p "$folder/other/oneapi/dnnl"
echo '#error' >"$folder/other/oneapi/dnnl/dnnl.h"
CPATH=$folder/other
export CPATH
options 0 'WARNING: the CPU backend is missing: .* times slower' \
    -Dcuda=disabled -Donednn=auto
also 'CPU backend (oneDNN) *: NO: '
options 1 'ERROR: .*the option onednn is enabled, but' -Dcuda=disabled \
    -Donednn=enabled
options 0 'CPU backend (oneDNN) *: NO: the option onednn is disabled' \
    -Dcuda=disabled
! grep 'CPU backend is missing' "$folder/said" || failed=1
exit "$failed"
