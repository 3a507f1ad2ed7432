/*
 * opening.c: cancels a stream while it is planned or opened, also one that does
 * not fit in memory. The call must end at once.
 *
 * opening MODEL BACKEND PRECISION
 */
#include "streams.h"

#include "vae-private/stream.h"

/* MORE: largest number of calls of `cancelled` after the one that cancels. Each
 * program finds out separately, and then so does the op that is prepared first.
 */
enum { T = 3, W = 16, H = 16, LARGE = 768, MOMENTS = 20, MORE = 6 };

/* The calls that are cancelled. */
typedef enum Call { PLAN, OPEN, LADDER } Call;

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

static VaeStatus
try_call(const Bed *bed, VaeStreamParams params, Call call, Patience *p,
         VaeError *error)
{
    SCOPED_STREAM VaeStream *stream = NULL;
    VaePlan plan = VAE_INIT(VaePlan);
    VaeRungPlan rungs[VAE_RUNGS];
    int n;
    params.log_user = p;
    switch (call) {
    case PLAN:
        return vae_stream_plan(bed->model, &params, &plan, error);
    case OPEN:
        return vae_stream_new(bed->model, &params, &stream, error);
    default:
        return vae_stream_plan_ladder(bed->model, &params, &plan, rungs, &n,
                                      error);
    }
}

/* Checks that the call ends soon after question `most`, with VAE_ERR_CANCELLED.
 */
static bool
ends(const Bed *bed, VaeStreamParams params, Call call, int most)
{
    Patience p = {.most = most};
    VaeError error = {0};
    const VaeStatus status = try_call(bed, params, call, &p, &error);
    return status == VAE_ERR_CANCELLED && p.asked <= most + MORE &&
           strcmp(error.message, "VaeStreamParams.cancelled ended the call") ==
               0;
}

/* Cancels a call at many moments. Returns the number of questions of the whole
 * call, which ends with that status. */
static int
cancels(const Bed *bed, VaeStreamParams params, Call call, VaeStatus whole)
{
    static const char *const names[] = {"plan", "opening", "ladder"};
    Patience never = {0};
    VaeError error = {0};
    int bad = 0;
    const VaeStatus status = try_call(bed, params, call, &never, &error);
    for (int k = 1; k <= never.asked; k += 1 + never.asked / MOMENTS)
        bad += !ends(bed, params, call, k);
    expect(status == whole && never.asked > 0 && bad == 0,
           "%s of %dx%d (%s) with %d calls of `cancelled` is cancelled, except "
           "%d times",
           names[call], params.width, params.height, vae_status_name(status),
           never.asked, bad);
    return never.asked;
}

/* A stream that does not fit looks for settings that would. The limit suffices
 * for the small picture, so the search finds some. */
static void
cancels_all(const Bed *bed)
{
    VaeStreamParams params = params_of(bed, NULL);
    const int planned = cancels(bed, params, PLAN, VAE_OK);
    expect(cancels(bed, params, OPEN, VAE_OK) > planned,
           "an opening has more calls than a plan");
    cancels(bed, params, LADDER, VAE_OK);
    params.cancelled = NULL;
    params.memory_limit = (size_t) plan_of(bed->model, &params).peak;
    params.cancelled = gives_up;
    params.width = params.height = LARGE;
    for (int call = PLAN; call <= LADDER; call++)
        cancels(bed, params, (Call) call, VAE_ERR_MEMORY);
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
    cancels_all(&bed);
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
