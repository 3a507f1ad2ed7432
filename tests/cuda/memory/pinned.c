/*
 * pinned.c: tests large blocks of pinned host memory. Each call that makes one
 * is refused in turn, and each call of `cancelled` cancels one. Then the run
 * time allocates the block, or nothing is left.
 *
 * The linker redirects mmap(), munmap(), pthread_create() and vae_mem_left() to
 * this file.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "../../stream/streams.h"
#include "emu_rt.h"
#include "gpu.h"

enum { THREADS = 3, SIDES = 4, ROUNDS = 50 };
#define LARGE ((size_t) 64 << 20)

/* ------------------------------------------------------------------ */
/* The system.                                                         */

static atomic_int maps, threads; /* mappings alive; threads made */
static bool no_maps, no_threads;
static uint64_t left = UINT64_MAX;

/* The names are the linker's. */
void *__real_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t o);
void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t o);
int __real_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *user);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *user);
uint64_t __wrap_vae_mem_left(int count, bool *limited);

void *
__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t o)
{
    void *map = no_maps ? MAP_FAILED : __real_mmap64(at, n, prot, flags, fd, o);
    maps += map != MAP_FAILED;
    return map;
}

int
__wrap_munmap(void *at, size_t n)
{
    maps--;
    return __real_munmap(at, n);
}

int
__wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                      void *(*run)(void *), void *user)
{
    threads++;
    return no_threads ? EAGAIN
                      : __real_pthread_create(out, attributes, run, user);
}

uint64_t
__wrap_vae_mem_left(int count, bool *limited)
{
    *limited = false;
    return left;
}

/* ------------------------------------------------------------------ */

static const VaeBackendClass *const class = &vae_backend_cuda;
static VaeBackend *backend;
static VaeError error;
static int asked, cancel_at; /* calls of `cancelled`; the one that cancels */

static bool
cancelled(void *user)
{
    return ++asked == cancel_at;
}

static VaeBackend *
open_backend(void)
{
    VaeBackend *out;
    VaeDevice device;
    must(class->open(&(VaeBackendParams){.precision = VAE_PRECISION_FP32,
                                         .threads = THREADS,
                                         .device = -1,
                                         .cancelled = cancelled},
                     &out, &device, &error),
         &error);
    return out;
}

static VaeStatus
take(size_t bytes, uint8_t **out)
{
    void *block;
    const VaeStatus status =
        class->alloc(backend, VAE_ON_HOST, bytes, &block, &error);
    *out = block;
    return status;
}

static bool
is_zero(const uint8_t *block, size_t bytes)
{
    return block[0] == 0 && memcmp(block, block + 1, bytes - 1) == 0;
}

/* A block is made and freed. mapped false: the run time allocates it. */
static void
made(size_t bytes, bool mapped, const char *what)
{
    const int alive = emu_alive(), pins = emu_pins(), before = maps;
    uint8_t *block;
    must(take(bytes, &block), &error);
    const bool as_wanted =
        emu_pins() - pins == mapped && emu_alive() == alive + 1 &&
        maps - before == mapped &&
        (!mapped || (uintptr_t) block % ((size_t) 2 << 20) == 0);
    const bool zero = is_zero(block, bytes);
    memset(block, 0x5a, bytes);
    class->free(backend, VAE_ON_HOST, block);
    expect(as_wanted && zero && emu_alive() == alive && maps == before,
           "%s: %s", what, mapped ? "mapped and pinned" : "of the run time");
}

/* Checks the number of threads, without the calling one. */
static void
number_of_threads(void)
{
    cpu_set_t set, one;
    sched_getaffinity(0, sizeof set, &set);
    const int usable = CPU_COUNT(&set);
    threads = 0;
    made(LARGE, true, "a large block");
    expect(threads == (usable < THREADS ? usable : THREADS) - 1,
           "%d threads, %d processors", threads + 1, usable);
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &set))
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
    threads = 0;
    made(LARGE + 1, true, "on one processor");
    sched_setaffinity(0, sizeof set, &set);
    expect(threads == 0, "one thread for one processor");
}

static void
refused(void)
{
    uint8_t *block;
    no_threads = true;
    made(LARGE, true, "without threads");
    no_threads = false;
    no_maps = true;
    made(LARGE, false, "without a mapping");
    emu_fail_alloc(1);
    expect(take(LARGE, &block) == VAE_ERR_MEMORY && !block &&
               strstr(error.message, "the host's pinned memory has no 64.0 MiB "
                                     "left in one block"),
           "the run time has no memory either: %s", error.message);
    emu_fail_alloc(0);
    no_maps = false;
    vae_mem_refuse(1);
    made(LARGE, false, "without memory for the entry of the block");
    vae_mem_refuse(0);
    emu_refuse_call(2); /* the first one selects the device */
    made(LARGE, false, "pinning fails");
    emu_refuse_call(0);
    left = LARGE;
    threads = 0;
    made(LARGE, false, "a block larger than the free memory");
    expect(threads == 0, "no thread writes to the block");
    left = UINT64_MAX;
}

/* After a failure of the device, the error is that failure. */
static void
lost(void)
{
    const int before = maps;
    uint8_t *block;
    emu_fail_work(1);
    vae_rt_zero(&block, 1, backend->compute);
    expect(take(LARGE, &block) == VAE_ERR_BACKEND && !block && maps == before,
           "a failed device: %s", error.message);
    emu_fail_work(0);
}

static void
each_question(void)
{
    const int alive = emu_alive(), before = maps;
    int n = 0, wrong = 0;
    VaeStatus status;
    uint8_t *block;
    do {
        asked = 0;
        cancel_at = ++n;
        status = take(LARGE, &block);
        wrong += status != VAE_OK && (status != VAE_ERR_CANCELLED || block ||
                                      asked != n || maps != before);
    } while (status != VAE_OK);
    cancel_at = 0;
    class->free(backend, VAE_ON_HOST, block);
    /* each thread writes 16 MiB, then the calling one asks again */
    expect(n > 1 && wrong == 0 && emu_alive() == alive && maps == before,
           "cancelled at %d calls of `cancelled`, %d handled wrong", n - 1,
           wrong);
}

/* Several threads make blocks at the same time. */
static void *
side(void *user)
{
    bool *good = user;
    VaeBackend *own = open_backend();
    VaeError mine;
    void *blocks[2] = {NULL};
    *good = true;
    for (int i = 0; i < ROUNDS; i++) {
        void **block = &blocks[i % 2];
        if (*block)
            class->free(own, VAE_ON_HOST, *block);
        *good &= class->alloc(own, VAE_ON_HOST, 5000, block, &mine) == VAE_OK &&
                 is_zero(*block, 5000);
        memset(*block, 0x5a, 5000);
    }
    class->free(own, VAE_ON_HOST, blocks[0]);
    class->free(own, VAE_ON_HOST, blocks[1]);
    class->close(&own);
    return NULL;
}

static void
together(void)
{
    pthread_t thread[SIDES];
    bool good[SIDES];
    int wrong = 0;
    vae_cuda_map_from(1);
    for (int i = 0; i < SIDES; i++)
        pthread_create(&thread[i], NULL, side, &good[i]);
    for (int i = 0; i < SIDES; i++) {
        pthread_join(thread[i], NULL);
        wrong += !good[i];
    }
    vae_cuda_map_from(LARGE);
    expect(wrong == 0, "%d of %d threads have a wrong block", wrong, SIDES);
}

int
main(void)
{
    backend = open_backend();
    made(LARGE - 1, false, "a small block");
    number_of_threads();
    refused();
    each_question();
    together();
    lost();
    class->close(&backend);
    expect(emu_alive() == 0, "%d objects of the device are not freed",
           emu_alive());
    return tests_end();
}
