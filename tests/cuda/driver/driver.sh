#!/bin/sh
# Writes the source of an empty CUDA driver to standard output. The driver has every
# function of STUB, the toolkit's stub. The functions that load a kernel report
# success. With this driver in place of libcuda.so.1, cuDNN makes plans for engines
# that are compiled at run time. Do not run or store these plans.
#
# usage: driver.sh STUB
set -eu
echo 'static char here[64];'
nm -D --defined-only "$1" | while read -r _ kind name; do
    [ "$kind" = T ] || continue
    case $name in
    cuLibraryLoadData | cuLibraryGetKernel | cuKernelGetFunction | \
        cuModuleLoadData | cuModuleLoadDataEx | cuModuleGetFunction)
        echo "int $name(void **out); int $name(void **out) { *out = here; return 0; }"
        ;;
    cuOccupancy*)
        echo "int $name(int *out); int $name(int *out) { *out = 1; return 0; }"
        ;;
    cuFuncSetAttribute | cuKernelSetAttribute | cuLibraryUnload | cuModuleUnload)
        echo "int $name(void); int $name(void) { return 0; }"
        ;;
    cu*) # CUDA_ERROR_STUB_LIBRARY
        echo "int $name(void); int $name(void) { return 34; }"
        ;;
    esac
done
