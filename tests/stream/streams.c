#include "streams.h"

#include <stdarg.h>

#include "choose.h"
#include "model.h"
#include "toy.h"

static int n_run, n_failed;

bool
expect(bool good, const char *format, ...)
{
    va_list args;
    n_run++;
    n_failed += !good;
    printf("%s ", good ? "ok  " : "FAIL");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    return good;
}

void
expect_misuse(VaeStatus status, VaeStatus expected, const VaeError *error,
              const char *what)
{
    expect(status == expected && error->message[0] && error->found[0] &&
               error->expected[0],
           "%s: %s: %s; found \"%s\", expected \"%s\"", what,
           vae_status_name(status), error->message, error->found,
           error->expected);
}

int
tests_end(void)
{
    printf("%d of %d checks failed\n", n_failed, n_run);
    return n_failed || !n_run;
}

bool
weights_path(char *out, size_t size, const char *name)
{
    return test_path(out, size, "VAE_TEST_VECTORS", "%s/weights.safetensors",
                     name);
}

void
bed_open(Bed *bed, const char *name, const char *backend, const char *precision)
{
    char path[512];
    VaeError error;
    *bed = (Bed){0};
    if (!vae_backend_parse(backend, &bed->backend) ||
        !vae_precision_parse(precision, &bed->precision)) {
        fprintf(stderr, "no backend %s or precision %s\n", backend, precision);
        exit(2);
    }
    VaeBackendChoice choice = {.kind = bed->backend,
                               .precision = bed->precision};
    if (vae_backend_choose(&choice, NULL, &error) != VAE_OK)
        test_skip(error.message);
    const size_t length = strlen(name);
    if (strcmp(name, toy_so_far.name) == 0) {
        must(vae_model_generate_arch(&toy_so_far, &bed->model, &error), &error);
    } else if (length > 5 && strcmp(name + length - 5, "-full") == 0) {
        snprintf(path, sizeof path, "%.*s", (int) length - 5, name);
        must(vae_model_generate(path, &bed->model, &error), &error);
    } else {
        if (!weights_path(path, sizeof path, name))
            test_skip("VAE_TEST_VECTORS has no such weights");
        must(vae_model_open(path, NULL, &bed->model, &error), &error);
    }
    bed->info = vae_model_info(bed->model);
}

void
bed_rewrite(Bed *bed, VaeStatus (*write)(const char *weights, const char *path,
                                         VaeError *error))
{
    char path[] = "/tmp/vae-weights-XXXXXX";
    VaeError error;
    close(mkstemp(path));
    must(write(bed->info->path, path, &error), &error);
    vae_model_free(&bed->model);
    must(vae_model_open(path, NULL, &bed->model, &error), &error);
    unlink(path);
    bed->info = vae_model_info(bed->model);
}

void
bed_open_main(Bed *bed, int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL BACKEND PRECISION\n", argv[0]);
        exit(2);
    }
    bed_open(bed, argv[1], argv[2], argv[3]);
    bed->threads = 1;
}

int
bed_open_device(Bed *bed, int argc, char **argv)
{
    const int stride = argc == 3 ? atoi(argv[2]) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (stride < 1) {
        fprintf(stderr, "usage: %s MODEL STRIDE\n", argv[0]);
        exit(2);
    }
    bed_open(bed, argv[1], "cuda", "fp32");
    return stride;
}

VaeStream *
bed_stream(const Bed *bed, VaeStreamParams params)
{
    params.backend = bed->backend;
    params.precision = bed->precision;
    if (!params.threads)
        params.threads = bed->threads;
    return test_stream(bed->model, params);
}

VaeStream *
bed_slices(const Bed *bed, VaeDirection direction, int width, int height,
           int slice)
{
    return bed_stream(bed, (VaeStreamParams){.direction = direction,
                                             .width = width,
                                             .height = height,
                                             .slice_size = slice});
}

int
bed_close(Bed *bed)
{
    vae_model_free(&bed->model);
    return tests_end();
}

/* Records the program of a later step. */
static VaeProgram *
record(const Bed *bed, VaeDirection direction, VaeCarrySet *carries)
{
    const int side = direction == VAE_DECODE ? 2 : 2 * bed->info->spatial;
    VaeProgram *program;
    VaeError error;
    must(vae_model_build(bed->model,
                         &(VaeBuildParams){.direction = direction,
                                           .steps = 1,
                                           .height = side,
                                           .width = side,
                                           .label = "test",
                                           .carries = carries},
                         &program, &error),
         &error);
    return program;
}

bool
bed_has_relu(const Bed *bed, VaeDirection direction)
{
    VaeCarrySet carries = {0};
    VaeProgram *program = record(bed, direction, &carries);
    bool relu = false;
    for (int i = 0; i < program->n_ops; i++)
        relu |=
            program->ops[i].kind == VAE_OP_CONV && program->ops[i].conv.relu;
    vae_program_free(&program);
    vae_carry_set_free(&carries);
    return relu;
}

bool
bed_adds_context(const Bed *bed, VaeDirection direction)
{
    VaeCarrySet carries = {0};
    VaeProgram *program = record(bed, direction, &carries);
    bool found = false;
    for (int i = 0; i < program->n_ops; i++)
        for (int k = i + 1; k < program->n_ops; k++) {
            VaeTensor *x = program->ops[i].x, *add = program->ops[k].add;
            found |= x && x->ctx && add && vae_root_of(x) == vae_root_of(add);
        }
    vae_program_free(&program);
    vae_carry_set_free(&carries);
    return found;
}

VaeStream *
new_stream(VaeModel *model, const VaeStreamParams *params)
{
    VaeStream *stream;
    VaeError error;
    must(vae_stream_new(model, params, &stream, &error), &error);
    return stream;
}

int
convs_by(const VaeStream *stream, const char *way)
{
    VaeProfileRow row;
    int n = 0;
    for (size_t i = 0; vae_stream_profile_row(stream, i, &row); i++)
        n +=
            strcmp(row.op, "conv") == 0 && (!way || strcmp(row.impl, way) == 0);
    return n;
}

VaePlan
plan_of(VaeModel *model, const VaeStreamParams *params)
{
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error;
    must(vae_stream_plan(model, params, &plan, &error), &error);
    return plan;
}

size_t
clip_latent_count(const Bed *bed, const TestClip *clip)
{
    const int s = bed->info->spatial;
    return (size_t) clip->t * (size_t) bed->info->latent_channels *
           (size_t) ((clip->height + s - 1) / s) *
           (size_t) ((clip->width + s - 1) / s);
}

size_t
clip_video_count(const TestClip *clip)
{
    return (size_t) clip->frames * (size_t) clip->height * clip_row(clip);
}

/* Returns n generated numbers, from number `seed` on. */
static float *
numbers(const char *name, size_t n, int seed)
{
    const int64_t dims[] = {(int64_t) n + 1000 * seed};
    float *all = test_alloc((size_t) dims[0] * sizeof *all);
    vae_generate(name, dims, 1, all);
    memmove(all, all + 1000 * seed, n * sizeof *all);
    return all;
}

TestClip
bed_clip(const Bed *bed, int t, int width, int height, int seed)
{
    TestClip clip = {
        .t = t,
        .frames = (int) vae_model_frames_of(bed->model, t),
        .width = width,
        .height = height,
        .channels = bed->info->out_channels,
    };
    clip.latents = numbers("latent", clip_latent_count(bed, &clip), seed);
    clip.video = numbers("video", clip_video_count(&clip), seed);
    return clip;
}

TestClip
bed_later_clip(const Bed *bed, VaeDirection direction, int t, int width,
               int height, int seed)
{
    const bool decode = direction == VAE_DECODE;
    const VaeModelInfo *info = bed->info;
    TestClip clip = bed_clip(bed, t + 1, width, height, seed);
    clip.t = t;
    clip.frames = t * (decode ? info->decode.step_out : info->encode.step_in);
    return clip;
}

const void *
clip_result(const Bed *bed, const TestClip *clip, VaeDirection direction,
            size_t *bytes)
{
    if (direction == VAE_DECODE) {
        *bytes = clip_video_count(clip) * sizeof(float);
        return clip->video;
    }
    *bytes = clip_latent_count(bed, clip) * sizeof(float);
    return clip->latents;
}

int
units_before(const Bed *bed, VaeDirection direction, int k, bool in)
{
    const VaeModelInfo *info = bed->info;
    const bool decode = direction == VAE_DECODE;
    const VaeSteps *s = decode ? &info->decode : &info->encode;
    if (in == decode)
        return k;
    if (info->chunk)
        return (int) vae_count_frames(vae_model_counts(info), k);
    return k == 0 ? 0
                  : (in ? s->first_in : s->first_out) +
                        (k - 1) * (in ? s->step_in : s->step_out);
}

void
clip_poison(const Bed *bed, TestClip *clip, VaeDirection direction)
{
    size_t bytes;
    void *result = (void *) clip_result(bed, clip, direction, &bytes);
    memset(result, 0xee, bytes);
}

VaeStatus
try_run(const Bed *bed, VaeStream *stream, VaeDirection direction,
        const TestClip *clip, const int *plan, VaeError *error)
{
    return test_run(stream, bed->info, direction, clip, plan, error);
}

void
run_clip(const Bed *bed, VaeStream *stream, VaeDirection direction,
         const TestClip *clip, const int *plan)
{
    VaeError error;
    must(try_run(bed, stream, direction, clip, plan, &error), &error);
}

bool
same_result(const Bed *bed, const TestClip *a, const TestClip *b,
            VaeDirection direction, const char *what)
{
    size_t n, m, at = 0;
    const float *x = clip_result(bed, a, direction, &n);
    const float *y = clip_result(bed, b, direction, &m);
    const bool same = n == m && memcmp(x, y, n) == 0;
    while (!same && n == m && memcmp(x + at, y + at, sizeof *x) == 0)
        at++;
    if (same)
        return expect(true, "%s: %zu bytes the same", what, n);
    return expect(false, "%s: differ at number %zu of %zu: %.9g, %.9g", what,
                  at, n / sizeof *x, (double) x[at], (double) y[at]);
}
