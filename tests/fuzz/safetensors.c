/*
 * Fuzzes the JSON header of a safetensors file. The target puts the header's
 * length in front of the input. The last quarter of the input is data.
 */
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint64_t length = size - size / 4;
    uint8_t *file = malloc(8 + size);
    if (file == NULL)
        return 0;
    memcpy(file, &length, 8);
    memcpy(file + 8, data, size);
    fuzz_bytes(file, 8 + size);
    free(file);
    return fuzz_bytes(data, size);
}
