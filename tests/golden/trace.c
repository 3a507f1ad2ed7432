/*
 * trace.c: compares the output of every block with that of the official
 * network.
 *
 * The test joins the frames of all slices of a block, so that both sides may
 * use different slices. It applies this engine's fusions to the official
 * output: it adds SiLU after a norm, and the block's input after the last
 * convolution of a residual block.
 */
#include "golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 256, SLICES = 2 };

typedef struct Seen {
    char name[128];
    int t, h, w, c;
    float *values; /* [t, h, w, c] */
} Seen;

typedef struct Trace {
    const char *arch;
    bool wan;
    Seen seen[MAX_NAMES];
    int n;
} Trace;

static Seen *
find(Trace *trace, const char *name)
{
    for (int i = 0; i < trace->n; i++)
        if (strcmp(trace->seen[i].name, name) == 0)
            return &trace->seen[i];
    return NULL;
}

static void
collect(void *user, const VaeDump *dump)
{
    Trace *trace = user;
    Seen *s = find(trace, dump->name);
    const size_t t = (size_t) dump->t;
    const size_t frame = (size_t) dump->h * (size_t) dump->w * (size_t) dump->c;
    if (!s && trace->n == MAX_NAMES) {
        fprintf(stderr, "more than %d names in a trace\n", MAX_NAMES);
        exit(1);
    }
    if (!s) {
        s = &trace->seen[trace->n++];
        *s = (Seen){.h = dump->h, .w = dump->w, .c = dump->c};
        snprintf(s->name, sizeof s->name, "%s", dump->name);
    }
    s->values =
        realloc(s->values, ((size_t) s->t + t) * frame * sizeof *s->values);
    if (!s->values)
        exit(1);
    memcpy(s->values + (size_t) s->t * frame, dump->values,
           t * frame * sizeof *dump->values);
    s->t += dump->t;
}

/* Joins all frames of "dec.s0.x", "dec.s1.x" and so on, or of "dec.x", as
 * [t, h, w, c]. Returns NULL if there are none. */
static float *
official(const VaeTensorFile *file, const char *side, const char *name,
         int64_t dims[4])
{
    float *all = NULL;
    dims[0] = 0;
    for (int i = -1; i < SLICES; i++) {
        char key[192];
        const VaeTensorInfo *t;
        snprintf(key, sizeof key, "%s.%s", side, name);
        if (i >= 0)
            snprintf(key, sizeof key, "%s.s%d.%s", side, i, name);
        if (!vae_tensor_file_find(file, key))
            continue;
        SCOPED_BLOCK float *v = test_read(file, key, &t);
        const int64_t c = t->dims[0], n = t->dims[1],
                      plane = t->dims[2] * t->dims[3];
        all = realloc(all, (size_t) ((dims[0] + n) * plane * c) * sizeof *all);
        if (!all)
            exit(1);
        float *to = all + dims[0] * plane * c;
        for (int64_t k = 0; k < c; k++)
            for (int64_t p = 0; p < n * plane; p++)
                to[p * c + k] = v[k * n * plane + p];
        dims[0] += n;
        dims[1] = t->dims[2];
        dims[2] = t->dims[3];
        dims[3] = c;
    }
    return all;
}

static bool
ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* The norms that this engine computes together with SiLU. */
static bool
is_norm(const char *name)
{
    return ends_with(name, "residual.0") || ends_with(name, "residual.3") ||
           ends_with(name, "head.0") || ends_with(name, "norm1") ||
           ends_with(name, "norm2") || ends_with(name, "norm_out");
}

/* The last convolution of a residual block, which gives the block's result. */
static bool
is_block_end(const char *name, char *block, size_t size)
{
    if (!ends_with(name, ".residual.6") && !ends_with(name, ".conv2"))
        return false;
    const size_t n =
        strlen(name) -
        strlen(ends_with(name, ".conv2") ? ".conv2" : ".residual.6");
    snprintf(block, size, "%.*s", (int) n, name);
    return true;
}

/* The names in the trace that differ from this engine's paths. */
static const char *
own_name(const char *side, const char *name, bool wan, char *out, size_t size)
{
    const bool dec = strcmp(side, "dec") == 0;
    if (strcmp(name, "output") == 0)
        name = wan ? "head.2" : "conv_out";
    snprintf(out, size, "%s.%s", dec ? "decoder" : "encoder", name);
    if (wan && dec && strcmp(name, "input") == 0)
        snprintf(out, size, "conv2");
    return out;
}

static void
compare_name(Golden *g, Trace *trace, const VaeTensorFile *file,
             const char *side, const char *name)
{
    char mine[192], block[128], label[256];
    int64_t dims[4];
    SCOPED_BLOCK float *want =
        official(file, side,
                 is_block_end(name, block, sizeof block) ? block : name, dims);
    const Seen *s =
        find(trace, own_name(side, name, trace->wan, mine, sizeof mine));
    if (!s) /* a causal convolution is a module of its own */
        s = find(trace, strcat(mine, ".conv"));
    snprintf(label, sizeof label, "%s %s", trace->arch, mine);
    if (!s || s->t != dims[0] || s->h != dims[1] || s->w != dims[2] ||
        s->c != dims[3]) {
        printf("FAIL %s: is not there, or not %lldx%lldx%lldx%lld\n", label,
               (long long) dims[0], (long long) dims[1], (long long) dims[2],
               (long long) dims[3]);
        golden_check(g, false);
        return;
    }
    const size_t n = (size_t) (dims[0] * dims[1] * dims[2] * dims[3]);
    double largest = 1;
    for (size_t i = 0; i < n; i++) {
        if (is_norm(name))
            want[i] = (float) (want[i] / (1 + exp(-(double) want[i])));
        largest = fmax(largest, fabs((double) want[i]));
    }
    /* fp32 sums of up to 864 products each, through up to 40 layers. */
    golden_check(g, test_compare(label, s->values, want, dims, 4,
                                 (TestBound){.max_abs = 2e-5 * largest}));
}

/* The inputs and outputs of the network. */
static bool
is_end(const char *name)
{
    static const char *const names[] = {"frames", "latent", "video_u8", "mean",
                                        "logvar"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Lists each name of one side once. */
static void
compare_side(Golden *g, Trace *trace, const VaeTensorFile *file,
             const char *side)
{
    char done[MAX_NAMES][128];
    int n_done = 0;
    for (size_t i = 0; i < vae_tensor_file_count(file); i++) {
        const char *name = vae_tensor_file_at(file, i)->name;
        int k = 0;
        if (strncmp(name, side, 3) != 0 || is_end(name + 4))
            continue;
        name += name[4] == 's' && name[6] == '.' ? 7 : 4;
        /* The first input comes from Wan's conv2 and not from a block. */
        if (strcmp(name, "input") == 0 && !(trace->wan && side[0] == 'd'))
            continue;
        while (k < n_done && strcmp(done[k], name) != 0)
            k++;
        if (k < n_done || n_done == MAX_NAMES)
            continue;
        snprintf(done[n_done++], sizeof done[0], "%s", name);
        compare_name(g, trace, file, side, name);
    }
}

static Trace *
trace_new(const VaeModelInfo *info)
{
    Trace *trace = test_alloc(sizeof *trace);
    trace->arch = info->arch;
    trace->wan = strcmp(info->arch, "wan2.1") == 0;
    trace->n = 0;
    return trace;
}

static void
trace_clear(Trace *trace)
{
    for (int i = 0; i < trace->n; i++)
        free(trace->seen[i].values);
    trace->n = 0;
}

static void
trace_decode(Golden *g, VaeModel *model, const VaeTensorFile *file)
{
    static const int plan[] = {1, 0};
    const VaeModelInfo *info = vae_model_info(model);
    const VaeTensorInfo *l, *f = vae_tensor_file_find(file, "dec.frames");
    SCOPED_BLOCK float *latent = test_read(file, "dec.latent", &l);
    SCOPED_BLOCK Trace *trace = trace_new(info);
    VaeError error;
    SCOPED_CLIP TestClip clip = test_clip(latent, l, f);
    VaeStream *stream = golden_stream(g, model,
                                      (VaeStreamParams){.width = clip.width,
                                                        .height = clip.height,
                                                        .dump = collect,
                                                        .dump_user = trace});
    must(test_run(stream, info, VAE_DECODE, &clip, plan, &error), &error);
    compare_side(g, trace, file, "dec");
    vae_stream_free(&stream);
    trace_clear(trace);
}

static void
trace_encode(Golden *g, VaeModel *model, const VaeTensorFile *file)
{
    static const int plan[] = {1, 0};
    const VaeModelInfo *info = vae_model_info(model);
    const VaeTensorInfo *v = vae_tensor_file_find(file, "enc.video_u8");
    const VaeTensorInfo *m = vae_tensor_file_find(file, "enc.mean");
    SCOPED_BLOCK Trace *trace = trace_new(info);
    VaeError error;
    SCOPED_CLIP TestClip clip = {
        .t = (int) m->dims[1],
        .frames = (int) v->dims[0],
        .height = (int) v->dims[1],
        .width = (int) v->dims[2],
        .video_u8 = v->data,
        .latents = test_alloc(m->bytes),
    };
    VaeStream *stream = golden_stream(g, model,
                                      (VaeStreamParams){.direction = VAE_ENCODE,
                                                        .width = clip.width,
                                                        .height = clip.height,
                                                        .dump = collect,
                                                        .dump_user = trace});
    must(test_run(stream, info, VAE_ENCODE, &clip, plan, &error), &error);
    compare_side(g, trace, file, "enc");
    vae_stream_free(&stream);
    trace_clear(trace);
}

void
golden_trace(Golden *g, const char *folder)
{
    char path[512];
    SCOPED_FILE VaeTensorFile *file = test_open(folder, "trace");
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    SCOPED_MODEL VaeModel *model = golden_model(path);
    trace_decode(g, model, file);
    trace_encode(g, model, file);
}
