/*
 * tiles.c: pictures in tiles against those of the official pipelines.
 *
 * golden-tiles SET BACKEND PRECISION
 *   small  the vectors of this source tree
 *   more   those of VAE_TEST_DATA/golden that are not in it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

typedef struct Case {
    const char *model, *name;
    int width, height, overlap; /* of tiles, in pixels */
    bool small;
} Case;

/* Sizes as in the metadata of the files; those of Wan2.2's encoder count
 * pixels that are folded by two. */
static const Case cases[] = {
    {"hunyuan15", "tiled_decode_t1_4x5", 48, 48, 16, false},
    {"wan21", "tiled_decode_t2_10x14", 80, 64, 16, true},
    {"wan21", "tiled_encode_f5_80x112", 80, 64, 16, true},
    {"seedvr2", "tiled_decode_t2_10x14", 80, 64, 16, true},
    {"seedvr2", "tiled_encode_f5_80x112", 80, 64, 16, true},
    {"wan22", "tiled_decode_t2_6x8", 64, 64, 16, false},
    {"wan22", "tiled_encode_f5_96x128", 64, 64, 32, false},
};

typedef struct Suite {
    VaeBackendKind backend;
    VaePrecision precision;
    int failed, warnings;
} Suite;

static void
warn(void *user, const char *line)
{
    Suite *s = user;
    printf("warning: %s\n", line);
    s->warnings += strstr(line, "not exact") != NULL;
}

static VaeStream *
open_stream(Suite *s, VaeModel *model, const Case *c, const TestClip *clip,
            VaeDirection direction)
{
    return test_stream(model, (VaeStreamParams){.direction = direction,
                                                .backend = s->backend,
                                                .precision = s->precision,
                                                .width = clip->width,
                                                .height = clip->height,
                                                .tiles = VAE_TILES_BLEND,
                                                .tile_width = c->width,
                                                .tile_height = c->height,
                                                .tile_overlap = c->overlap,
                                                .history = 1,
                                                .warn = warn,
                                                .log_user = s});
}

/* As golden.c; a blended value is a mean of values with these errors. */
static TestBound
bound_for(const Suite *s, bool encodes_seedvr2)
{
    if (s->precision == VAE_PRECISION_FP32)
        return (TestBound){.max_abs = encodes_seedvr2 ? 2e-4 : 1e-4};
    return (TestBound){.max_abs = 0.2, .min_psnr = 40};
}

static void
compare(Suite *s, const Case *c, const char *what, const float *got,
        const float *want, const VaeTensorInfo *t)
{
    char label[200];
    const bool encodes = strcmp(what, "frames") != 0;
    snprintf(label, sizeof label, "%s %s %s", c->model, c->name, what);
    s->failed += !test_compare(
        label, got, want, t->dims, 4,
        bound_for(s, encodes && strcmp(c->model, "seedvr2") == 0));
}

static void
decode_case(Suite *s, const Case *c, VaeModel *model, const VaeTensorFile *file)
{
    const char *const clamped = "frames_tiled_clamped";
    const bool clamps = vae_tensor_file_find(file, clamped) != NULL;
    const VaeTensorInfo *l, *f;
    VaeError error;
    SCOPED_BLOCK float *latent = test_read(file, "latent", &l);
    SCOPED_BLOCK float *want =
        test_read(file, clamps ? clamped : "frames_tiled", &f);
    const size_t n = (size_t) (f->bytes / sizeof(float));
    SCOPED_CLIP TestClip clip = test_clip(latent, l, f);
    SCOPED_STREAM VaeStream *stream =
        open_stream(s, model, c, &clip, VAE_DECODE);
    must(test_run(stream, vae_model_info(model), VAE_DECODE, &clip,
                  (int[]){1, 0}, &error),
         &error);
    for (size_t i = 0; i < n && clamps; i++)
        clip.video[i] = clip.video[i] < -1  ? -1
                        : clip.video[i] > 1 ? 1
                                            : clip.video[i];
    compare(s, c, "frames", clip.video, want, f);
}

static void
encode_case(Suite *s, const Case *c, VaeModel *model, const VaeTensorFile *file)
{
    const VaeTensorInfo *v = vae_tensor_file_find(file, "video_u8");
    const VaeTensorInfo *m = vae_tensor_file_find(file, "mean_tiled");
    VaeError error;
    SCOPED_CLIP TestClip clip = {.t = (int) m->dims[1],
                                 .frames = (int) v->dims[0],
                                 .height = (int) v->dims[1],
                                 .width = (int) v->dims[2],
                                 .video_u8 = v->data,
                                 .latents = test_alloc(m->bytes),
                                 .mean = test_alloc(m->bytes),
                                 .logvar = test_alloc(m->bytes)};
    SCOPED_STREAM VaeStream *stream =
        open_stream(s, model, c, &clip, VAE_ENCODE);
    must(test_run(stream, vae_model_info(model), VAE_ENCODE, &clip,
                  (int[]){1, 0}, &error),
         &error);
    const struct {
        const char *name;
        float *got;
    } results[] = {{"mean_tiled", clip.mean}, {"logvar_tiled", clip.logvar}};
    for (int i = 0; i < 2; i++) {
        SCOPED_BLOCK float *want = test_read(file, results[i].name, NULL);
        SCOPED_BLOCK float *got = test_swap(
            results[i].got, m->dims[1], m->dims[0], m->dims[2] * m->dims[3]);
        compare(s, c, results[i].name, got, want, m);
    }
}

static void
run_case(Suite *s, const Case *c, const char *folder)
{
    char path[512];
    SCOPED_FILE VaeTensorFile *file = test_open(folder, c->name);
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error;
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    must(vae_model_open(path, NULL, &model, &error), &error);
    s->warnings = 0;
    if (strstr(c->name, "decode"))
        decode_case(s, c, model, file);
    else
        encode_case(s, c, model, file);
    if (s->warnings != 1) {
        printf("FAIL %s: %d warnings that it is not exact, expected 1\n",
               c->name, s->warnings);
        s->failed++;
    }
}

int
main(int argc, char **argv)
{
    Suite s = {0};
    if (argc != 4 || !vae_backend_parse(argv[2], &s.backend) ||
        !vae_precision_parse(argv[3], &s.precision)) {
        fprintf(stderr, "usage: golden-tiles SET BACKEND PRECISION\n");
        return 1;
    }
    const bool small = strcmp(argv[1], "small") == 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[256];
        if (cases[i].small != small)
            continue;
        if (!test_path(folder, sizeof folder,
                       small ? "VAE_TEST_VECTORS" : "VAE_TEST_DATA", "%s%s",
                       small ? "" : "golden/", cases[i].model))
            return TEST_SKIP;
        run_case(&s, &cases[i], folder);
    }
    printf("%d failed\n", s.failed);
    return s.failed > 0;
}
