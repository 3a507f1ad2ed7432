/*
 * failures.c: what comes of a device that is not there, of memory that is
 * refused and of a kernel that fails, each in a process of its own.
 *
 * failures MODEL WxH
 *
 * Each must be an error in words, end by itself, and leave a process in which
 * the next stream works or says why none can.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_rt.h"
#include "vae-private/stream.h"

enum { SKIP = 77, LONGEST = 60, TRIES = 16, MAX_UNITS = 64 };

int __real_vae_rt_stream_new(VaeRtStream *out);
int __real_vae_rt_alloc(void **out, size_t bytes);
int __real_vae_rt_alloc_host(void **out, size_t bytes);

int __wrap_vae_rt_stream_new(VaeRtStream *out);
int __wrap_vae_rt_alloc(void **out, size_t bytes);
int __wrap_vae_rt_alloc_host(void **out, size_t bytes);

/* The emulation's: the n-th launch from now fails, and all that follow. */
__attribute__((weak)) int emu_fail_work(int n);

static struct {
    VaeRtStream streams[3]; /* as the backend makes them: up, compute, down */
    int n_streams;
    int allocs, refused; /* refused: which one, from 1; 0: none */
    int memory;          /* the code for it */
} at;

static const char *path;
static int width, height;

static int
refuse(void **out)
{
    if (++at.allocs != at.refused)
        return 0;
    *out = NULL;
    return at.memory;
}

int
__wrap_vae_rt_stream_new(VaeRtStream *out)
{
    const int code = __real_vae_rt_stream_new(out);
    at.streams[at.n_streams++ % 3] = *out;
    return code;
}

int
__wrap_vae_rt_alloc(void **out, size_t bytes)
{
    const int code = refuse(out);
    return code ? code : __real_vae_rt_alloc(out, bytes);
}

int
__wrap_vae_rt_alloc_host(void **out, size_t bytes)
{
    const int code = refuse(out);
    return code ? code : __real_vae_rt_alloc_host(out, bytes);
}

/* ------------------------------------------------------------------ */

static bool
expect(bool good, const char *what, const char *words)
{
    printf("%s %s%s%s\n", good ? "ok  " : "FAIL", what, *words ? ": " : "",
           words);
    return good;
}

static VaeModel *
open_model(void)
{
    VaeModel *model = NULL;
    VaeError error;
    if (vae_model_open(path, NULL, &model, &error) != VAE_OK) {
        expect(false, "the model opens", error.message);
        exit(1);
    }
    return model;
}

static VaeStatus
open_stream(VaeModel *model, int device, VaeStream **out, VaeError *error)
{
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .backend = VAE_BACKEND_CUDA,
                                    .precision = VAE_PRECISION_FP16,
                                    .width = width,
                                    .height = height,
                                    .slice_size = 1,
                                    /* No other rung of the memory ladder. */
                                    .frames_at_once = 1000,
                                    .strips = 1,
                                    .spill = VAE_SPILL_OFF,
                                    .device = device};
    at.n_streams = 0;
    error->message[0] = '\0';
    return vae_stream_new(model, &params, out, error);
}

/* The next step, decoded and waited for. */
static VaeStatus
step(VaeStream *stream, const VaeModelInfo *info, VaeError *error)
{
    const size_t site = (size_t) info->spatial;
    const size_t n = (size_t) info->latent_channels *
                     (((size_t) width + site - 1) / site) *
                     (((size_t) height + site - 1) / site);
    VaeLatentIn latents[MAX_UNITS];
    VaePicture pictures[MAX_UNITS];
    float *latent = calloc(n, sizeof *latent);
    float *picture =
        calloc((size_t) width * (size_t) height, 3 * sizeof *picture);
    int n_in, n_out;
    error->message[0] = '\0';
    vae_stream_count(stream, 1, &n_in, &n_out);
    if (!latent || !picture || n_in > MAX_UNITS || n_out > MAX_UNITS)
        exit(1);
    for (int i = 0; i < MAX_UNITS; i++) {
        latents[i] = (VaeLatentIn){.type = VAE_TYPE_F32, .data = latent};
        pictures[i] = (VaePicture){.pixels = VAE_PIXELS_RGB_F32,
                                   .width = width,
                                   .height = height,
                                   .data = {(uint8_t *) picture},
                                   .stride = {(ptrdiff_t) width * 12}};
    }
    const VaeStatus status =
        vae_stream_decode(stream, latents, n_in, pictures, n_out, error);
    free(latent);
    free(picture);
    return status;
}

/* True if a model's first stream opens and gives two steps; else *error says
 * why not. */
static bool
works(VaeError *error)
{
    VaeModel *model = open_model();
    VaeStream *stream = NULL;
    VaeStatus status = open_stream(model, 0, &stream, error);
    for (int i = 0; i < 2 && status == VAE_OK; i++)
        status = step(stream, vae_model_info(model), error);
    vae_stream_free(&stream);
    vae_model_free(&model);
    return status == VAE_OK;
}

/* ------------------------------------------------------------------ */

static bool
wrong_device(void)
{
    VaeModel *model = open_model();
    VaeStream *stream = NULL;
    VaeError error;
    const VaeStatus status = open_stream(model, 1000, &stream, &error);
    bool good = expect(status != VAE_OK && strstr(error.message, "1000"),
                       "a device that is not there is an error", error.message);
    vae_stream_free(&stream);
    good &= expect(works(&error), "then a stream works", error.message);
    vae_model_free(&model);
    return good;
}

/* A refused allocation may be done without: then what is opened works. */
static bool
memory(void)
{
    VaeError error;
    char last[sizeof error.message] = "", words[sizeof last + 100];
    int errors = 0, without = 0, wrong = 0;
    for (int code = 1; code < 1000 && !at.memory; code++)
        at.memory = vae_rt_is_memory(code) ? code : 0;
    bool good = expect(at.memory && works(&error), "a stream works before",
                       error.message);
    at.allocs = 0;
    good &= expect(works(&error), "and once more", error.message);
    const int all = at.allocs, apart = all / TRIES + 1;
    for (int n = 1; n <= all; n += apart) {
        at.allocs = 0;
        at.refused = n;
        const bool opened = works(&error);
        at.refused = 0;
        without += opened;
        errors += !opened;
        if (!opened && (error.status != VAE_ERR_MEMORY || !error.message[0]))
            wrong++;
        if (!opened)
            snprintf(last, sizeof last, "%s", error.message);
    }
    snprintf(words, sizeof words,
             "of %d, %d errors of memory, %d others, %d done without; %s", all,
             errors - wrong, wrong, without, last);
    good &= expect(errors > 0 && wrong == 0,
                   "refused allocations are errors of memory", words);
    good &= expect(works(&error), "then a stream works", error.message);
    return good;
}

/* A kernel that reads and writes where there is no memory. */
static void
break_device(void)
{
    if (emu_fail_work) {
        emu_fail_work(1);
        return;
    }
    const VaeCastArgs args = {.y = (void *) (uintptr_t) 4096,
                              .x = (const void *) (uintptr_t) 65536,
                              .x_type = VAE_TYPE_F32,
                              .y_type = VAE_TYPE_F16,
                              .n = 4096};
    vae_rt_kernels()->cast(&(VaeQueue){.threads = 1, .stream = at.streams[1]},
                           &args);
}

static bool
broken(void)
{
    VaeModel *model = open_model();
    const VaeModelInfo *info = vae_model_info(model);
    VaeStream *stream = NULL;
    VaeError error;
    VaeStatus status = open_stream(model, 0, &stream, &error);
    for (int i = 0; i < 2 && status == VAE_OK; i++)
        status = step(stream, info, &error);
    bool good =
        expect(status == VAE_OK, "a stream works before", error.message);
    if (!good)
        return false;
    break_device();
    for (int i = 0; i < 3 && status == VAE_OK; i++)
        status = step(stream, info, &error);
    good =
        expect(status == VAE_ERR_BACKEND && error.message[0],
               "a kernel that fails is an error of the stream", error.message);
    vae_stream_free(&stream);
    status = open_stream(model, 0, &stream, &error);
    good &= expect(status != VAE_OK && error.message[0],
                   "later streams of the process say so", error.message);
    vae_stream_free(&stream);
    vae_model_free(&model);
    return good;
}

/* ------------------------------------------------------------------ */

/* In a process of its own, as after some failures CUDA is of no use to it. */
static bool
apart(const char *what, bool (*run)(void))
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(LONGEST);
        const bool good = run();
        fflush(stdout);
        exit(!good);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return expect(false, what, "no process for it");
    if (WIFSIGNALED(status))
        return expect(false, what,
                      WTERMSIG(status) == SIGALRM ? "it did not end"
                                                  : "it crashed");
    return WEXITSTATUS(status) == 0;
}

/* Nothing may touch CUDA before a fork; so the parent never asks. */
static bool
is_there(void)
{
    char why[256] = "";
    const bool there = vae_backend_available(VAE_BACKEND_CUDA, why, sizeof why);
    if (!there)
        printf("skipped: %s\n", why);
    return there;
}

int
main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3 || sscanf(argv[2], "%dx%d", &width, &height) != 2) {
        fprintf(stderr, "usage: failures MODEL WxH\n");
        return 2;
    }
    path = argv[1];
    if (!apart("the device", is_there))
        return SKIP;
    bool good = apart("a device that is not there", wrong_device);
    good &= apart("refused memory", memory);
    good &= apart("a kernel that fails", broken);
    return !good;
}
