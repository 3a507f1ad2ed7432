/*
 * Any bytes as an archive that PyTorch wrote, and as the pickle in an archive
 * that is right otherwise.
 */
#include "archive.h"
#include "fuzz.h"

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
