/*
 * Fuzzes an npy file. The input follows the magic number.
 */
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *file = malloc(6 + size);
    if (file == NULL)
        return 0;
    memcpy(file, "\x93NUMPY", 6);
    memcpy(file + 6, data, size);
    fuzz_bytes(file, 6 + size);
    free(file);
    return 0;
}
