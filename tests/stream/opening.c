/*
 * opening.c: cancels a stream while it is planned or opened. The call must end
 * at once.
 *
 * opening MODEL BACKEND PRECISION
 */
#include "streams.h"

/* MORE: largest number of calls of `cancelled` after the one that cancels. Each
 * program finds out separately, and then so does the op that is prepared first.
 */
enum { T = 3, W = 16, H = 16, LARGE = 768, MOMENTS = 20, MORE = 6 };

typedef struct Patience {
    int asked, most; /* asked: number of calls so far. most: number of the call
                        from which the answer is true; 0: never */
} Patience;

/* The function `cancelled` of the stream. It shares log_user with the log. */
static bool
gives_up(void *user)
{
    Patience *p = user;
    p->asked++;
    return p->most && p->asked >= p->most;
}

static VaeStreamParams
params_of(const Bed *bed, Patience *p)
{
    return (VaeStreamParams){.struct_size = sizeof(VaeStreamParams),
                             .backend = bed->backend,
                             .precision = bed->precision,
                             .threads = bed->threads,
                             .width = W,
                             .height = H,
                             .slice_size = 2,
                             .cancelled = gives_up,
                             .log_user = p};
}

/* Checks that the call ends soon after question `most`, with VAE_ERR_CANCELLED.
 */
static bool
ends(const Bed *bed, int most, bool plan)
{
    Patience p = {.most = most};
    const VaeStreamParams params = params_of(bed, &p);
    SCOPED_STREAM VaeStream *stream = NULL;
    VaePlan planned = VAE_INIT(VaePlan);
    VaeError error = {0};
    const VaeStatus status =
        plan ? vae_stream_plan(bed->model, &params, &planned, &error)
             : vae_stream_new(bed->model, &params, &stream, &error);
    const bool good =
        status == VAE_ERR_CANCELLED && !stream && p.asked <= most + MORE &&
        strcmp(error.message, "VaeStreamParams.cancelled ended the call") == 0;
    return good;
}

static void
cancels(const Bed *bed)
{
    Patience never = {0};
    VaeStreamParams params = params_of(bed, &never);
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    int bad = 0;
    must(vae_stream_plan(bed->model, &params, &plan, &error), &error);
    const int planned = never.asked;
    for (int k = 1; k <= planned; k += 1 + planned / MOMENTS)
        bad += !ends(bed, k, true);
    expect(planned > 0 && bad == 0,
           "a plan with %d calls of `cancelled` is cancelled, except %d times",
           planned, bad);
    never.asked = bad = 0;
    VaeStream *stream = bed_stream(bed, params);
    const int opened = never.asked;
    vae_stream_free(&stream);
    for (int k = 1; k <= opened; k += 1 + opened / MOMENTS)
        bad += !ends(bed, k, false);
    expect(
        opened > planned && bad == 0,
        "an opening with %d calls of `cancelled` is cancelled, except %d times",
        opened, bad);
}

/* Returns how often a stream calls `cancelled` while it opens. *plan receives
 * its plan. */
static int
questions(const Bed *bed, int side, VaePlan *plan)
{
    Patience never = {0};
    VaeStreamParams params = params_of(bed, &never);
    VaeError error = {0};
    params.width = params.height = side;
    params.slice_size = 1;
    VaeStream *stream = bed_stream(bed, params);
    vae_stream_free(&stream);
    const int asked = never.asked;
    must(vae_stream_plan(bed->model, &params, plan, &error), &error);
    return asked;
}

/* A large picture needs some GiB, which the system takes seconds to allocate.
 * The stream allocates them in parts and calls `cancelled` in between. */
static void
allocates_in_parts(const Bed *bed)
{
    VaePlan small = VAE_INIT(VaePlan), large = VAE_INIT(VaePlan);
    const int few = questions(bed, W, &small);
    const int many = questions(bed, LARGE, &large);
    const int parts = (int) ((large.carries + large.arena) >> 26);
    expect(parts >= 4 && many >= few + parts - 2,
           "%d calls of `cancelled`, %d for %d x 64 MiB", few, many, parts);
}

int
main(int argc, char **argv)
{
    const int plan[] = {1, 2, 0};
    Patience never = {0};
    Bed bed;
    bed_open_main(&bed, argc, argv);
    TestClip want = bed_clip(&bed, T, W, H, 0),
             got = bed_clip(&bed, T, W, H, 0);
    VaeStream *stream = bed_stream(&bed, params_of(&bed, &never));
    run_clip(&bed, stream, VAE_DECODE, &want, plan);
    vae_stream_free(&stream);
    vae_model_free(&bed.model);

    /* the model is opened again, so that no weights are loaded yet */
    bed_open_main(&bed, argc, argv);
    cancels(&bed);
    if (bed.backend != VAE_BACKEND_CUDA)
        allocates_in_parts(&bed);
    stream = bed_stream(&bed, params_of(&bed, &never));
    run_clip(&bed, stream, VAE_DECODE, &got, plan);
    same_result(&bed, &got, &want, VAE_DECODE, "the next stream");
    vae_stream_free(&stream);
    clip_free(&want);
    clip_free(&got);
    return bed_close(&bed);
}
