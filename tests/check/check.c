/*
 * check.c: see check.h.
 */
#include <stdarg.h>
#include <time.h>

#include "check.h"
#include "number.h"
#ifdef VAE_CHECK_INTERPRETER
#include "interpreter.h"
#endif

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n) ((void) (p), (void) (n))
#define UNPOISON(p, n) ((void) (p), (void) (n))
#endif

enum { GUARD = 512, GUARD_BYTE = 0x6b };

struct VaeCheckBlock {
    VaeCheckBlock *next;
    uint8_t *all, *data;
    size_t total, bytes;
    bool kept; /* not freed */
};

/* ------------------------------------------------------------ random */

uint64_t
vae_check_bits(VaeCheck *t)
{
    uint64_t z = t->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int
vae_check_range(VaeCheck *t, int from, int to)
{
    return from + (int) (vae_check_bits(t) % (uint64_t) (to - from + 1));
}

/* ------------------------------------------------------------- memory */

static void
fatal(const char *text)
{
    fprintf(stderr, "check: %s\n", text);
    exit(1);
}

static void
take(VaeCheckBlock *b, size_t bytes)
{
    bytes = (bytes + 63) / 64 * 64;
#ifdef VAE_CHECK_INTERPRETER
    b->all = vae_emu_interpreter_alloc(bytes);
    b->kept = b->all != NULL;
#endif
    if (!b->kept && !(b->all = aligned_alloc(64, bytes)))
        fatal("out of memory");
}

void *
vae_check_buffer_at(VaeCheck *t, size_t bytes, size_t past)
{
    VaeCheckBlock *b = calloc(1, sizeof *b);
    const size_t total = bytes + 2 * GUARD + past;
    if (!b)
        fatal("out of memory");
    take(b, total);
    b->total = total;
    b->bytes = bytes;
    b->data = b->all + GUARD + past;
    b->next = t->blocks;
    t->blocks = b;
    memset(b->all, GUARD_BYTE, total);
    memset(b->data, 0xff, bytes);
    POISON(b->all, (size_t) (b->data - b->all));
    POISON(b->data + bytes, total - bytes - (size_t) (b->data - b->all));
    return b->data;
}

void *
vae_check_buffer(VaeCheck *t, size_t bytes, size_t size)
{
    const uint64_t r = vae_check_bits(t);
    const size_t past = r >> 63 ? 0 : r % (64 / size) * size;
    return vae_check_buffer_at(t, bytes, past);
}

uint64_t *
vae_check_counter(VaeCheck *t, uint64_t from)
{
    uint64_t *counter = vae_check_buffer(t, sizeof *counter, sizeof *counter);
    *counter = from;
    return counter;
}

static void
release(VaeCheck *t)
{
    while (t->blocks) {
        VaeCheckBlock *b = t->blocks;
        t->blocks = b->next;
        UNPOISON(b->all, b->total);
        const size_t from = (size_t) (b->data - b->all);
        for (size_t i = 0; i < b->total; i++) {
            if (i == from)
                i += b->bytes;
            if (i < b->total && b->all[i] != GUARD_BYTE) {
                vae_check_fail(t, "byte %td of a buffer of %zu was written",
                               (ptrdiff_t) i - (ptrdiff_t) from, b->bytes);
                break;
            }
        }
        if (!b->kept)
            free(b->all);
        free(b);
    }
}

#ifdef VAE_CHECK_INTERPRETER
static const char *
name_of_case(void *user)
{
    const VaeCheck *t = user;
    return t->name;
}

static bool
find_buffer(void *user, size_t i, const void **data, size_t *bytes)
{
    const VaeCheck *t = user;
    const VaeCheckBlock *b = t->blocks;
    while (b && i--)
        b = b->next;
    if (!b)
        return false;
    *data = b->data;
    *bytes = b->bytes;
    return true;
}
#endif

float *
vae_check_random(VaeCheck *t, size_t n, float deviation)
{
    float *x = vae_check_buffer(t, n * sizeof *x, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = vae_check_bits(t);
        double sum = -2; /* four uniform numbers: variance 1/3 */
        for (int j = 0; j < 4; j++)
            sum += (double) (r >> (16 * j) & 0xffff) / 65536;
        x[i] = (float) (sum * 1.7320508 * deviation);
    }
    return x;
}

uint16_t *
vae_check_bf16(VaeCheck *t, const float *x, size_t n)
{
    uint16_t *y = vae_check_buffer(t, n * sizeof *y, sizeof *y);
    for (size_t i = 0; i < n; i++)
        y[i] = vae_to_bf16(x[i]);
    return y;
}

float *
vae_check_floats(VaeCheck *t, const uint16_t *x, size_t n)
{
    float *y = vae_check_buffer(t, n * sizeof *y, sizeof *y);
    for (size_t i = 0; i < n; i++)
        y[i] = vae_from_bf16(x[i]);
    return y;
}

size_t
vae_check_size(VaeType type)
{
    return type == VAE_TYPE_F32 ? 4 : 2;
}

void *
vae_check_narrow(VaeCheck *t, const float *x, size_t n, VaeType type,
                 size_t past)
{
    void *y = vae_check_buffer_at(t, n * vae_check_size(type), past);
    for (size_t i = 0; i < n; i++)
        vae_store(y, type, i, x[i]);
    return y;
}

float *
vae_check_widen(VaeCheck *t, const void *x, size_t n, VaeType type)
{
    float *y = vae_check_buffer_at(t, n * sizeof *y, 0);
    for (size_t i = 0; i < n; i++)
        y[i] = vae_load(x, type, i);
    return y;
}

/* -------------------------------------------------------------- cases */

static void
end_case(VaeCheck *t)
{
    release(t);
    t->case_failures = 0;
}

bool
vae_check_begin(VaeCheck *t, const char *format, ...)
{
    va_list args;
    end_case(t);
    va_start(args, format);
    vsnprintf(t->name, sizeof t->name, format, args);
    va_end(args);
    if (t->only && !strstr(t->name, t->only))
        return false;
    if (t->list) {
        puts(t->name);
        return false;
    }
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *p = t->name; *p; p++)
        hash = (hash ^ (uint8_t) *p) * 0x100000001b3u;
    t->state = hash ^ t->seed;
    t->bench_calls = 0;
    t->cases++;
    return true;
}

void
vae_check_fail(VaeCheck *t, const char *format, ...)
{
    va_list args;
    if (!t->case_failures++)
        t->failures++;
    printf("FAIL %s: ", t->name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf(" (--seed %llu --only %s)\n", (unsigned long long) t->seed, t->name);
}

bool
vae_check_that(VaeCheck *t, bool ok, const char *text)
{
    if (!ok)
        vae_check_fail(t, "%s", text);
    return ok;
}

void
vae_check_close(VaeCheck *t, const char *what, const float *got,
                const float *want, size_t n, VaeBound allowed)
{
    size_t bad = 0, worst = 0;
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const bool nan = isnan(got[i]), want_nan = isnan(want[i]);
        if (got[i] == want[i] || (nan && want_nan))
            continue;
        const double bound =
            allowed.absolute + allowed.relative * fabs((double) want[i]);
        double over = fabs((double) got[i] - want[i]) / bound;
        if (nan || want_nan || isnan(over))
            over = INFINITY;
        bad += over > 1;
        if (over > most) {
            most = over;
            worst = i;
        }
    }
    if (bad)
        vae_check_fail(t,
                       "%s: %zu of %zu are off, worst %zu: found %.9g, "
                       "expected %.9g (%.3g times the bound)",
                       what, bad, n, worst, got[worst], want[worst], most);
}

bool
vae_check_row(VaeCheck *t, const float *got, const double *want, int n,
              double bound, const char *format, ...)
{
    char row[128];
    va_list args;
    int i = 0;
    while (i < n && fabs(got[i] - want[i]) <= bound)
        i++;
    if (i == n)
        return true;
    va_start(args, format);
    vsnprintf(row, sizeof row, format, args);
    va_end(args);
    vae_check_fail(t, "%s channel %d: found %.9g, expected %.9g", row, i,
                   (double) got[i], want[i]);
    return false;
}

const void *
vae_check_silu(VaeCheck *t, const void *found, const float *y, size_t n,
               VaeType type)
{
    uint16_t *want = vae_check_narrow(t, y, n, type, 0);
    float *low = vae_check_random(t, n, 0), *high = vae_check_random(t, n, 0);
    for (size_t i = 0; i < n; i++) {
        const float most = fabsf(y[i]) * 0x1p-17f + 1e-36f;
        low[i] = y[i] - most;
        high[i] = y[i] + most;
    }
    low = vae_check_widen(t, vae_check_narrow(t, low, n, type, 0), n, type);
    high = vae_check_widen(t, vae_check_narrow(t, high, n, type, 0), n, type);
    const float *is = vae_check_widen(t, found, n, type);
    for (size_t i = 0; i < n; i++)
        if (is[i] >= low[i] && is[i] <= high[i])
            want[i] = ((const uint16_t *) found)[i];
    return want;
}

void
vae_check_equal(VaeCheck *t, const char *what, const void *got,
                const void *want, size_t bytes)
{
    const uint8_t *a = got, *b = want;
    if (bytes == 0 || !memcmp(a, b, bytes))
        return;
    size_t bad = 0, first = bytes;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) {
            bad++;
            first = i < first ? i : first;
        }
    vae_check_fail(t,
                   "%s: %zu of %zu bytes differ, first %zu: found %02x, "
                   "expected %02x",
                   what, bad, bytes, first, a[first], b[first]);
}

/* --------------------------------------------------------------- time */

static uint64_t
now(void)
{
    struct timespec s;
    clock_gettime(CLOCK_MONOTONIC, &s);
    return (uint64_t) s.tv_sec * 1000000000u + (uint64_t) s.tv_nsec;
}

bool
vae_check_bench(VaeCheck *t, double bytes, double flop)
{
    if (!t->bench)
        return false;
    if (t->bench_calls < 2) {
        t->bench_start = now();
        t->bench_calls++;
        return true;
    }
    const uint64_t ns = now() - t->bench_start;
    if (ns < 300000000u) {
        t->bench_calls++;
        return true;
    }
    const double each = (double) ns / (double) (t->bench_calls - 1);
    printf("%-40s %12.0f ns", t->name, each);
    if (bytes > 0)
        printf(" %8.2f GB/s", bytes / each);
    if (flop > 0)
        printf(" %8.2f GFLOP/s", flop / each);
    putchar('\n');
    t->bench_calls = 0;
    return false;
}

bool
vae_check_queue(size_t i, VaeQueue *q)
{
    static const VaeQueue queues[] = {
        {1, VAE_VECTORS_BASE}, {1, VAE_VECTORS_AVX2}, {1, VAE_VECTORS_AVX512},
        {2, VAE_VECTORS_BEST}, {3, VAE_VECTORS_BEST},
    };
#ifdef VAE_CHECK_DEVICE
    const size_t n = 2;
#else
    const size_t n = VAE_COUNT(queues);
#endif
    if (i >= n)
        return false;
    *q = queues[i];
    return true;
}

static bool interpreted;

bool
vae_check_order_varies(void)
{
    return !interpreted;
}

double *
vae_check_norm_sums(VaeCheck *t, const VaeNormArgs *a)
{
    size_t n = vae_norm_sums(a->h, a->w, a->groups);
#ifdef VAE_CHECK_CUDA
    const size_t cuda = vae_norm_sums_cuda(a->t, a->h, a->w, a->c, a->groups);
    n = cuda > n ? cuda : n;
#endif
    return vae_check_buffer(t, n * sizeof(double), sizeof(double));
}

/* --------------------------------------------------------------- main */

static bool
number(const char *text, uint64_t *out)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    *out = strtoull(text, &end, 0);
    return !*end;
}

static bool
options(VaeCheck *t, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        uint64_t n = 0;
        if (!strcmp(argv[i], "--bench"))
            t->bench = true;
        else if (!strcmp(argv[i], "--list"))
            t->list = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            t->only = argv[++i];
        else if (!strcmp(argv[i], "--seed") && number(argv[i + 1], &n))
            t->seed = n, i++;
        else if (!strcmp(argv[i], "--threads") && number(argv[i + 1], &n) &&
                 n > 0 && n < 1024)
            t->queue.threads = (int) n, i++;
        else
            return false;
    }
    return true;
}

int
vae_check_main(int argc, char **argv, const VaeCheckFunc *funcs, size_t n)
{
    VaeCheck t = {.ref = &vae_kernels_ref, .queue = {.threads = 2}};
#if defined(VAE_CHECK_CUDA)
    t.dut = &vae_kernels_cuda;
    t.cuda = true;
#elif defined(VAE_HAVE_ONEDNN)
    t.dut = &vae_kernels_cpu;
#endif
    t.seed = now() % 1000000;
    if (!options(&t, argc, argv)) {
        fprintf(stderr,
                "usage: %s [--seed N] [--only TEXT] [--bench] "
                "[--threads N] [--list]\n",
                argv[0]);
        return 2;
    }
#ifdef VAE_CHECK_INTERPRETER
    interpreted = vae_emu_interpreter_open(
        &(VaeInterpreted){name_of_case, find_buffer, &t});
#endif
    if (!t.list)
        printf("seed %llu\n", (unsigned long long) t.seed);
    for (size_t i = 0; i < n; i++)
        funcs[i](&t);
    end_case(&t);
    if (!t.list)
        printf("%d cases, %d failed\n", t.cases, t.failures);
    return t.failures || (!t.cases && !t.list);
}
