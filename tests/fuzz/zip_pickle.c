/*
 * Fuzzes an archive of PyTorch. The input is once the whole archive and once
 * the pickle in an otherwise valid archive.
 */
#include "fuzz.h"
#include "torch/archive.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Bytes pickle = {0};
    fuzz_bytes(data, size);
    put(&pickle, data, size);
    const Bytes zip = make_torch(&pickle);
    fuzz_bytes(zip.data, zip.n);
    free(zip.data);
    return 0;
}
