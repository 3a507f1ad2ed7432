/*
 * Tests the library's allocator, and the file readers if it returns NULL.
 */
#include "alloc.h"
#include "base.h"
#include "../refuse.h"
#include "../scoped.h"
#include "vae-private/stream.h"

static void
check_blocks(void)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4097, 1 << 20};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const uint64_t before = vae_allocation_count();
        uint8_t *block = vae_mem_alloc(sizes[i]);
        bool good = block != NULL && (uintptr_t) block % 64 == 0 &&
                    vae_allocation_count() == before + 1;
        for (size_t k = 0; good && k < sizes[i]; k++)
            good = block[k] == 0;
        if (block != NULL)
            memset(block, 0x5a, sizes[i]);
        vae_mem_free(block);
        check(good, "%zu bytes", sizes[i]);
    }
    check(vae_mem_alloc(SIZE_MAX) == NULL, "all bytes there are");
    vae_mem_free(NULL);
}

/* Refuses each allocation of an open or a write in turn. */
static void
check_refusals(void)
{
    const char *json =
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    size_t size;
    uint8_t *bytes = make_file(json, strlen(json), 2, &size);
    Refusals r = {.refuse = vae_mem_refuse};
    while (refuse_next(&r)) {
        SCOPED_FILE VaeTensorFile *file = NULL;
        VaeError error = {0};
        refuse_begin(&r);
        const VaeStatus status =
            vae_tensor_file_open_memory(bytes, size, size, "m", &file, &error);
        if (refuse_end(&r))
            check(status == VAE_ERR_MEMORY && file == NULL &&
                      error.message[0] != '\0',
                  "open without allocation %d: %s", r.n, error.message);
        else
            check(status == VAE_OK, "open with all memory");
    }
    check(r.refused >= 3, "%d allocations refused", r.refused);
    free(bytes);
}

void
test_memory(void)
{
    check_blocks();
    check_refusals();
}
