/*
 * Fuzzes the index of a sharded model. Beside it are two shards: a.safetensors
 * with the tensors x and z, and b.safetensors with y.
 */
#include <stdio.h>
#include <unistd.h>

#include "../files/folder.h"
#include "fuzz.h"

static void
clean(void)
{
    unlink(path_of("a.safetensors"));
    unlink(path_of("b.safetensors"));
    unlink(path_of("i.json"));
    rmdir(folder);
}

static void
make_folder(void)
{
    const VaeTensorOut tensors[] = {{"x", VAE_TYPE_U8, 1, {2}, "ab"},
                                    {"z", VAE_TYPE_U8, 1, {2}, "cd"},
                                    {"y", VAE_TYPE_U8, 1, {2}, "ef"}};
    snprintf(folder, sizeof folder, "%s/vae-fuzz-XXXXXX", P_tmpdir);
    if (mkdtemp(folder) == NULL ||
        vae_tensor_file_write(path_of("a.safetensors"), tensors, 2, NULL, 0,
                              NULL) != VAE_OK ||
        vae_tensor_file_write(path_of("b.safetensors"), tensors + 2, 1, NULL, 0,
                              NULL) != VAE_OK)
        abort();
    atexit(clean);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    VaeError error = {0};
    VaeTensorFile *file;
    if (folder[0] == '\0')
        make_folder();
    /* A new file is faster than to overwrite the old one. */
    unlink(path_of("i.json"));
    FILE *f = fopen(path_of("i.json"), "wb");
    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    const VaeStatus status =
        vae_tensor_file_open(path_of("i.json"), &file, &error);
    fuzz_result(status, &error, &file);
    return 0;
}
