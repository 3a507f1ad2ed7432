/*
 * code.c: counts the device memory of the library's code.
 *
 * The library loads the code of a choice at its first run and keeps it until
 * the process ends. A start that times layers loads the code of all choices, a
 * later start only the code that it uses. Both must choose the same slice size.
 * A later start therefore subtracts the code of all choices from the free
 * memory.
 */
#include <string.h>

#include "gpu.h"
#include "hash.h"

enum { MOST_DEVICES = 64, MOST_LAYERS = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* For each device: bytes of code of all counted layers, and those that are
 * loaded. */
static uint64_t needed[MOST_DEVICES], loaded[MOST_DEVICES];
/* Hashes of device and layer name. */
static uint64_t counted[MOST_LAYERS];
static int n_counted;

uint64_t
vae_cuda_code_begin(void)
{
    uint64_t bytes = 0;
    return vae_rt_memory_left(&bytes) ? 0 : bytes;
}

uint64_t
vae_cuda_code_end(const VaeBackend *cuda, uint64_t before)
{
    uint64_t after = before;
    if (vae_rt_memory_left(&after) || after > before ||
        cuda->number >= MOST_DEVICES)
        return 0;
    pthread_mutex_lock(&lock);
    loaded[cuda->number] += before - after;
    pthread_mutex_unlock(&lock);
    return before - after;
}

void
vae_cuda_code_need(const VaeBackend *cuda, const char *layer, uint64_t bytes)
{
    const uint64_t key =
        vae_hash(VAE_HASH + (uint64_t) cuda->number, layer, strlen(layer));
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < n_counted && counted[i] != key)
        i++;
    if (i == n_counted && i < MOST_LAYERS && cuda->number < MOST_DEVICES) {
        counted[n_counted++] = key;
        needed[cuda->number] += bytes;
    }
    pthread_mutex_unlock(&lock);
}

uint64_t
vae_cuda_code_to_come(const VaeBackend *cuda)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&lock);
    const int i = cuda->number;
    if (i < MOST_DEVICES && needed[i] > loaded[i])
        bytes = needed[i] - loaded[i];
    pthread_mutex_unlock(&lock);
    return bytes;
}
