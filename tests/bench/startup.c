/*
 * startup.c: compares the time to open weights with the time to read the file.
 *
 *   bench-startup FILE PRECISION THREADS RUNS [BACKEND]
 *
 * In turns, and with the file in the system's cache, the program reads the file
 * into new memory, opens it with streams of both directions at 64x64, and opens
 * only its model. The streams convert all weights to the library's layout and
 * need little other memory. BACKEND is cpu by default. It prints the medians in
 * seconds and the median of the ratios.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "median.h"
#include "vae-private/stream.h"

enum { MOST = 1000, PIECE = 1 << 20, SIDE = 64 };

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void
need(VaeStatus status, const VaeError *error)
{
    if (status == VAE_OK)
        return;
    fprintf(stderr, "bench-startup: %s\n", error->message);
    exit(3);
}

/* Returns the seconds without the time to free the memory. */
static double
read_file(const char *path)
{
    struct stat st;
    const double start = now();
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        perror(path);
        exit(3);
    }
    const size_t size = (size_t) st.st_size;
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t at = 0;
    ssize_t n = block == MAP_FAILED ? -1 : 1;
    while (n > 0 && at < size) {
        n = read(fd, block + at, size - at < PIECE ? size - at : PIECE);
        at += n > 0 ? (size_t) n : 0;
    }
    const double took = now() - start;
    if (at < size) {
        fprintf(stderr, "bench-startup: %s: cannot be read\n", path);
        exit(3);
    }
    munmap(block, size);
    close(fd);
    return took;
}

static double
open_model(const char *path, VaeBackendKind backend, VaePrecision precision,
           int threads, bool streams)
{
    VaeModel *model;
    VaeStream *stream[2] = {NULL, NULL};
    VaeError error;
    const double start = now();
    need(vae_model_open(path, NULL, &model, &error), &error);
    for (int i = 0; streams && i < 2; i++) {
        const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                        .direction =
                                            i ? VAE_ENCODE : VAE_DECODE,
                                        .backend = backend,
                                        .precision = precision,
                                        .width = SIDE,
                                        .height = SIDE,
                                        .slice_size = 1,
                                        .threads = threads};
        need(vae_stream_new(model, &params, &stream[i], &error), &error);
    }
    const double took = now() - start;
    vae_stream_free(&stream[0]);
    vae_stream_free(&stream[1]);
    vae_model_free(&model);
    return took;
}

int
main(int argc, char **argv)
{
    static double reading[MOST], opening[MOST], model[MOST], ratio[MOST];
    VaePrecision precision;
    VaeBackendKind backend = VAE_BACKEND_CPU;
    const int threads = argc >= 5 ? atoi(argv[3]) : 0;
    const int runs = argc >= 5 ? atoi(argv[4]) : 0;
    if (threads < 1 || runs < 1 || runs > MOST || argc > 6 ||
        !vae_precision_parse(argv[2], &precision) ||
        (argc == 6 && !vae_backend_parse(argv[5], &backend))) {
        fprintf(stderr, "usage: bench-startup FILE PRECISION THREADS RUNS "
                        "[BACKEND]\n");
        return 2;
    }
    read_file(argv[1]); /* into the cache */
    for (int i = 0; i < runs; i++) {
        reading[i] = read_file(argv[1]);
        opening[i] = open_model(argv[1], backend, precision, threads, true);
        model[i] = open_model(argv[1], backend, precision, threads, false);
        ratio[i] = opening[i] / reading[i];
    }
    printf("reading %.3f s, opening %.3f s, of which the model %.4f s: ratio "
           "%.2f\n",
           median(reading, (size_t) runs), median(opening, (size_t) runs),
           median(model, (size_t) runs), median(ratio, (size_t) runs));
    return 0;
}
