/*
 * models.c: each allocation, file access and thread that opening a model and
 * running its streams needs is refused once.
 *
 *   models MODEL BACKEND STRIDE
 *
 * STRIDE n tests every n-th of them. A refusal ends in an error with a text. If
 * the engine can do without the resource, or at another rung of the ladder, it
 * ends in the same bytes as usual. Nothing is left behind, and the next stream
 * writes the same bytes as before.
 */

#include "../refuse.h"
#include "../stream/streams.h"
#include "hash.h"
#include "inject.h"

enum { SIZE = 16, SLICE = 2, LATENTS = 6, FRAMES = 8 * LATENTS };

/* A setting of a stream. */
typedef struct Rung {
    const char *label;
    int slice, frames, strips, tile; /* as in VaeStreamParams */
    bool yields; /* a refusal may leave out strips, or lead to slices of 2 */
} Rung;

static const Rung rungs[] = {
    {"the last rung", SLICE, 1, 1, 0, false},
    {"strips", SLICE, 1, 2, 0, true},
    {"tiles", SLICE, 1, 1, SIZE / 2, false},
    {"the first rung", 0, 0, 0, 0, true},
};
enum { RUNGS = sizeof rungs / sizeof *rungs };

typedef struct Case {
    char path[512];
    const Rung *rung;
    int slice;  /* that the stream chose */
    int second; /* slice of the second rung: 1 for networks of images, else 2 */
    VaeBackendKind backend;
    VaeDirection direction;
    TestClip clip;
    VaeLatentIn latents[LATENTS];
    VaeLatentOut results[LATENTS];
    VaePicture pictures[FRAMES];
} Case;

static const char *
file_name(const Case *c)
{
    return strrchr(c->path, '/') + 1;
}

/* Points the buffers at the clip's data. */
static void
fill(Case *c, const VaeModelInfo *info)
{
    const size_t latent = (size_t) info->latent_channels *
                          (size_t) (SIZE / info->spatial) *
                          (size_t) (SIZE / info->spatial);
    for (int i = 0; i < LATENTS; i++) {
        c->latents[i] = (VaeLatentIn){.type = VAE_TYPE_F32,
                                      .data = c->clip.latents + i * latent};
        c->results[i] = (VaeLatentOut){.type = VAE_TYPE_F32,
                                       .data = c->clip.latents + i * latent};
    }
    for (int i = 0; i < c->clip.frames && i < FRAMES; i++)
        c->pictures[i] = clip_picture(&c->clip, NULL, i);
}

static VaeStatus
steps(const Case *c, VaeStream *stream, int n, int *in, int *out,
      VaeError *error)
{
    int n_in, n_out;
    vae_stream_count(stream, n, &n_in, &n_out);
    const VaeStatus status =
        c->direction == VAE_DECODE
            ? vae_stream_decode(stream, c->latents + *in, n_in,
                                c->pictures + *out, n_out, error)
            : vae_stream_encode(stream, c->pictures + *in, n_in,
                                c->results + *out, n_out, error);
    *in += n_in;
    *out += n_out;
    return status;
}

/* A stream, and each of its programs. */
static VaeStatus
play(Case *c, VaeModel *model, VaeError *error)
{
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .direction = c->direction,
                                    .backend = c->backend,
                                    .precision = VAE_PRECISION_FP32,
                                    .width = SIZE,
                                    .height = SIZE,
                                    .slice_size = c->rung->slice,
                                    .frames_at_once = c->rung->frames,
                                    .strips = c->rung->strips,
                                    .spill = VAE_SPILL_OFF,
                                    .tiles = c->rung->tile > 0,
                                    .tile_width = c->rung->tile,
                                    .tile_overlap = -1,
                                    .threads = 1,
                                    .restarts = true};
    SCOPED_STREAM VaeStream *stream = NULL;
    int in = 0, out = 0;
    VaeStatus status = vae_stream_new(model, &params, &stream, error);
    if (status == VAE_OK)
        c->slice = vae_stream_get_plan(stream)->slice_size;
    if (status == VAE_OK)
        status = steps(c, stream, 3, &in, &out, error);
    if (status == VAE_OK)
        status = steps(c, stream, 1, &in, &out, error);
    if (status == VAE_OK)
        status = vae_stream_restart(stream, 4, error);
    if (status == VAE_OK)
        status = steps(c, stream, 1, &in, &out, error);
    return status;
}

/* Returns the hash of the output and poisons the output again. */
static uint64_t
result(const Case *c, const Bed *bed)
{
    size_t n;
    uint8_t *bytes = (uint8_t *) clip_result(bed, &c->clip, c->direction, &n);
    const uint64_t hash = vae_hash(VAE_HASH, bytes, n);
    memset(bytes, 0xee, n);
    return hash;
}

/* ------------------------------------------------------------------ */

static bool
same_live(Live a, Live b)
{
    return a.blocks == b.blocks && a.descriptors == b.descriptors &&
           a.mappings == b.mappings;
}

typedef struct Sweep {
    const char *label;
    Inject kind;
    Refusals r;
    int harmless;
    int lower; /* of the harmless ones: at the second rung */
} Sweep;

/* A run in which one call was refused. */
typedef struct Try {
    Live before;
    VaeStatus status;
    VaeError error;
    bool good; /* it succeeded with the usual bytes */
    int slice; /* that the stream chose */
} Try;

/* names_file: the error of a file that was not read must name it. */
static void
judge(Sweep *s, const Case *c, const Try *try, bool names_file)
{
    const Live before = try->before, after = inject_live();
    const char *what = NULL;
    const VaeStatus status = try->status;
    const VaeError *error = &try->error;
    const bool memory = s->kind == INJECT_MEMORY;
    const bool lower =
        status == VAE_OK && !c->rung->slice && try->slice == c->second;
    s->harmless += status == VAE_OK;
    s->lower += lower;
    if (!same_live(before, after))
        what = "something is left behind";
    else if (status == VAE_OK && !try->good)
        what = "no error, but another result";
    else if (status == VAE_OK && memory && !lower &&
             !(c->rung->yields && c->rung->strips) &&
             strcmp(inject_refused(), "json") != 0)
        what = "no error, though there was no memory";
    else if (status == VAE_OK && names_file &&
             strcmp(inject_refused(), "close") != 0 &&
             strcmp(inject_refused(), "stat") != 0)
        what = "no error, though a file was not read";
    else if (status != VAE_OK && strlen(error->message) < 9)
        what = "an error without words";
    else if (status != VAE_OK && memory && status != VAE_ERR_MEMORY)
        what = "the error is not that of memory";
    else if (status != VAE_OK && names_file &&
             strstr(error->message, file_name(c)) == NULL &&
             strstr(error->message, "/config.json") == NULL)
        what = "the error does not name the file";
    if (!what)
        return;
    s->r.wrong++;
    printf("FAIL %s %d (%s): %s: %s [%s] %+ld blocks, %+ld descriptors, %+ld "
           "mappings\n",
           s->label, s->r.n, inject_refused(), what,
           status == VAE_OK ? "ok" : error->message, vae_status_name(status),
           after.blocks - before.blocks, after.descriptors - before.descriptors,
           after.mappings - before.mappings);
}

static void
sweep_end(const Sweep *s)
{
    expect(s->r.wrong == 0 && (s->r.refused > 0 || s->kind == INJECT_THREAD),
           "%s: %d refused, %d without harm, %d at a lower rung, %d wrong",
           s->label, s->r.refused, s->harmless - s->lower, s->lower,
           s->r.wrong);
}

static void
open_refused(const Case *c, const VaeModelInfo *info, Inject kind, int stride)
{
    Sweep s = {.label = kind == INJECT_MEMORY ? "open, memory" : "open, files",
               .kind = kind,
               .r = {.refuse = inject_refuse, .stride = stride}};
    inject_choose(kind);
    while (refuse_next(&s.r)) {
        VaeModel *model = NULL;
        Try try = {.before = inject_live()};
        refuse_begin(&s.r);
        try.status = vae_model_open(c->path, NULL, &model, &try.error);
        const bool refused = refuse_end(&s.r);
        try.good = model &&
                   strcmp(vae_model_info(model)->space, info->space) == 0 &&
                   vae_model_info(model)->tensor_count == info->tensor_count;
        vae_model_free(&model);
        if (refused)
            judge(&s, c, &try, true);
    }
    sweep_end(&s);
}

static void
play_refused(Case *c, const Bed *bed, Inject kind, int stride)
{
    static const char *const labels[] = {"", "memory", "files",  "",
                                         "", "",       "threads"};
    char label[64];
    VaeError error = {0};
    snprintf(label, sizeof label, "%s, %s, %s",
             c->direction == VAE_DECODE ? "decode" : "encode", c->rung->label,
             labels[kind]);
    Sweep s = {.label = label,
               .kind = kind,
               .r = {.refuse = inject_refuse, .stride = stride}};
    inject_choose(kind);
    result(c, bed);
    must(play(c, bed->model, &error), &error);
    const uint64_t want = result(c, bed);
    while (refuse_next(&s.r)) {
        VaeModel *model;
        Try try = {.before = inject_live()};
        must(vae_model_open(c->path, NULL, &model, &error), &error);
        refuse_begin(&s.r);
        try.status = play(c, model, &try.error);
        const bool refused = refuse_end(&s.r);
        try.good = result(c, bed) == want;
        try.slice = c->slice;
        /* The model must still be usable. Only each eighth refusal tests this,
         * because a stream takes time. */
        if (refused && s.r.refused % 8 == 1) {
            VaeError next;
            must(play(c, model, &next), &next);
            if (result(c, bed) != want)
                expect(false, "%s %d: the next stream differs", label, s.r.n);
        }
        vae_model_free(&model);
        if (refused)
            judge(&s, c, &try, false);
    }
    sweep_end(&s);
    if (!c->rung->slice)
        expect(s.lower > 0 || s.r.refused < 10, "%s: %d times at a lower rung",
               label, s.lower);
}

int
main(int argc, char **argv)
{
    Bed bed;
    Case c = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int stride = argc == 4 ? atoi(argv[3]) : 0;
    if (stride < 1) {
        fprintf(stderr, "usage: models MODEL BACKEND STRIDE\n");
        return 2;
    }
    bed_open(&bed, argv[1], argv[2], "fp32");
    bed.threads = 1;
    weights_path(c.path, sizeof c.path, argv[1]);
    c.backend = bed.backend;
    c.second = bed.info->temporal > 1 ? 2 : 1;
    c.rung = rungs;
    c.clip = bed_clip(&bed, LATENTS, SIZE, SIZE, 0);
    fill(&c, bed.info);
    open_refused(&c, bed.info, INJECT_MEMORY, stride);
    open_refused(&c, bed.info, INJECT_FILE, 1);
    const VaeDirection directions[] = {VAE_DECODE, VAE_ENCODE};
    for (int i = 0; i < 2; i++) {
        c.direction = directions[i];
        for (c.rung = rungs + 1; c.rung < rungs + RUNGS; c.rung++)
            if (c.rung->tile % bed.info->spatial == 0)
                play_refused(&c, &bed, INJECT_MEMORY, 10 * stride);
        c.rung = rungs;
        play_refused(&c, &bed, INJECT_MEMORY, stride);
        play_refused(&c, &bed, INJECT_FILE, 1);
        play_refused(&c, &bed, INJECT_THREAD, 1);
    }
    clip_free(&c.clip);
    return bed_close(&bed);
}
