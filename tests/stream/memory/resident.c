/*
 * resident.c: the resident memory of a process is what was planned.
 *
 * resident MODEL BACKEND PRECISION WIDTH HEIGHT SLICE RUNS [FRAMES STRIPS]
 *
 * MODEL is a folder of golden vectors; or an architecture and "-full", for
 * which the test writes generated weights of real widths to a file. One child
 * process only opens the backend. Other child processes open the file, make a
 * stream, and run the first step and, if RUNS is 2, a later slice, with FRAMES
 * at once and in STRIPS. The difference of their peaks must be the plan's, to 3
 * %. The pages of the mapped file are freed after use, so they do not count.
 * Memory that the plan does not count, and the error of its estimate for the
 * library, must be within the 3 %. The margin for the library is larger than
 * what a small network takes. Such a network may take less, or up to 14 MiB
 * more.
 */
#include "../streams.h"

#include <sys/wait.h>

#include "choose.h"

enum { THREADS = 2 };

#define FULL "-full"

typedef struct Case {
    char **argv;
    char path[512];
    bool small; /* the file is one of the golden vectors */
    VaeStreamParams params;
    int runs;
} Case;

/* The report of a child process. */
typedef struct Told {
    uint64_t peak; /* resident memory in bytes */
    VaePlan plan;
    int status; /* 0, or the exit status of the test */
} Told;

/* VmHWM is the peak of this process, and also counts pages of files. */
static uint64_t
peak_now(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return (uint64_t) kib << 10;
}

static void
make_file(const Case *c, Told *told)
{
    VaeModel *model;
    VaeError error;
    char arch[64];
    snprintf(arch, sizeof arch, "%.*s",
             (int) (strstr(c->argv[1], FULL) - c->argv[1]), c->argv[1]);
    must(vae_model_generate(arch, &model, &error), &error);
    must(vae_model_write(model, c->path, VAE_TYPE_F32, &error), &error);
    vae_model_free(&model);
}

static void
open_backend(const Case *c, Told *told)
{
    const VaeLog log = {NULL, NULL};
    VaeBackend *backend;
    VaeError error;
    VaeDevice device;
    VaeBackendChoice choice = {.kind = c->params.backend,
                               .precision = c->params.precision,
                               .direction = VAE_DECODE};
    const VaeStatus status = vae_backend_choose(&choice, &log, &error);
    if (status == VAE_ERR_UNSUPPORTED || status == VAE_ERR_BACKEND) {
        printf("skipped: %s\n", error.message);
        told->status = TEST_SKIP;
        return;
    }
    must(status, &error);
    must(choice.class->open(&(VaeBackendParams){.precision = choice.chosen,
                                                .threads = THREADS,
                                                .device = -1},
                            &backend, &device, &error),
         &error);
    told->peak = peak_now();
    choice.class->close(&backend);
}

static void
run_slices(VaeStream *s, const VaeModelInfo *info, const VaeStreamParams *p,
           int runs)
{
    VaeError error;
    const bool decode = p->direction == VAE_DECODE;
    const size_t latent = (size_t) info->latent_channels *
                          (size_t) (p->height / info->spatial) *
                          (size_t) (p->width / info->spatial);
    const size_t picture = (size_t) p->width * (size_t) p->height * 3;
    float *values = test_alloc(latent * sizeof *values);
    uint8_t *pixels = test_alloc(picture);
    memset(values, 0, latent * sizeof *values);
    memset(pixels, 128, picture);
    for (int i = 0; i < runs; i++) {
        VaeLatentIn latents[64];
        VaeLatentOut results[64];
        VaePicture pictures[256];
        int n_in, n_out;
        vae_stream_count(s, i ? p->slice_size : 1, &n_in, &n_out);
        for (int k = 0; k < 64; k++) {
            latents[k] = (VaeLatentIn){.type = VAE_TYPE_F32, .data = values};
            results[k] = (VaeLatentOut){.type = VAE_TYPE_F32, .data = values};
        }
        for (int k = 0; k < 256; k++)
            pictures[k] = (VaePicture){.pixels = VAE_PIXELS_RGB,
                                       .width = p->width,
                                       .height = p->height,
                                       .data = {pixels},
                                       .stride = {(ptrdiff_t) p->width * 3}};
        if (decode)
            must(vae_stream_decode(s, latents, n_in, pictures, n_out, &error),
                 &error);
        else
            must(vae_stream_encode(s, pictures, n_in, results, n_out, &error),
                 &error);
    }
    free(values);
    free(pixels);
}

static void
run_stream(const Case *c, Told *told)
{
    VaeModel *model;
    VaeStream *stream;
    VaeError error;
    must(vae_model_open(c->path, NULL, &model, &error), &error);
    must(vae_stream_new(model, &c->params, &stream, &error), &error);
    told->plan = *vae_stream_get_plan(stream);
    run_slices(stream, vae_model_info(model), &c->params, c->runs);
    told->peak = peak_now();
    vae_stream_free(&stream);
    vae_model_free(&model);
}

/* Runs work in a child process, because a peak is that of a whole process. */
static Told
in_child(void (*work)(const Case *c, Told *told), const Case *c)
{
    int ends[2], status;
    Told told = {0};
    fflush(stdout);
    if (pipe(ends) != 0)
        exit(1);
    const pid_t child = fork();
    if (child == 0) {
        work(c, &told);
        fflush(stdout);
        _exit(write(ends[1], &told, sizeof told) == sizeof told ? 0 : 1);
    }
    close(ends[1]);
    const ssize_t n = read(ends[0], &told, sizeof told);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0 ||
        n != sizeof told)
        told.status = 1;
    return told;
}

static void
check(Case *c, VaeDirection direction, const Told *base)
{
    c->params.direction = direction;
    const Told t = in_child(run_stream, c);
    const double mib = 1048576;
    const double taken = (double) (t.peak - base->peak);
    const double planned = (double) t.plan.peak;
    const double least = c->small ? 0 : 0.97 * planned;
    const double most = 1.03 * planned + (c->small ? 14 * mib : 0);
    expect(t.status == 0 && taken > least && taken < most,
           "%s: planned %.1f MiB, resident %.1f MiB beside the backend's %.1f: "
           "%+.2f %%",
           direction == VAE_DECODE ? "decode" : "encode", planned / mib,
           taken / mib, (double) base->peak / mib, 100 * (taken / planned - 1));
}

int
main(int argc, char **argv)
{
    char folder[] = "/tmp/vae-resident-XXXXXX";
    Case c = {.argv = argv, .params = VAE_INIT(VaeStreamParams)};
    if ((argc != 8 && argc != 10) ||
        !vae_backend_parse(argv[2], &c.params.backend) ||
        !vae_precision_parse(argv[3], &c.params.precision)) {
        fprintf(stderr, "usage: resident MODEL BACKEND PRECISION WIDTH HEIGHT "
                        "SLICE RUNS [FRAMES STRIPS]\n");
        return 2;
    }
    c.params.width = atoi(argv[4]);
    c.params.height = atoi(argv[5]);
    c.params.slice_size = atoi(argv[6]);
    c.params.threads = THREADS;
    c.runs = atoi(argv[7]);
    c.params.frames_at_once = argc == 10 ? atoi(argv[8]) : 0;
    c.params.strips = argc == 10 ? atoi(argv[9]) : 0;
    const Told base = in_child(open_backend, &c);
    if (base.status)
        return base.status;
    c.small = !strstr(argv[1], FULL);
    if (c.small && !weights_path(c.path, sizeof c.path, argv[1]))
        test_skip("VAE_TEST_VECTORS has no such weights");
    if (!c.small && !mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    if (!c.small)
        snprintf(c.path, sizeof c.path, "%s/weights.safetensors", folder);
    const Told made = c.small ? (Told){0} : in_child(make_file, &c);
    if (expect(made.status == 0, "weights of %s", argv[1])) {
        check(&c, VAE_DECODE, &base);
        check(&c, VAE_ENCODE, &base);
    }
    if (!c.small) {
        unlink(c.path);
        rmdir(folder);
    }
    return tests_end();
}
