/*
 * rungs.c: if the emulated device refuses memory, a stream goes down one rung
 * of the ladder, with the same bytes. It goes up again with a new sequence.
 *
 * rungs MODEL STRIDE
 */

#include "../clips.h"
#include "emu_rt.h"

#define MEMORY ((uint64_t) 4 << 30)

/* Settings with which a stream begins at a certain rung. The last one has
 * windows, which the next rung lacks. */
typedef struct Start {
    const char *label;
    int slice, frames, strips;
    VaeSpill spill;
    int tile; /* pixels, or 0: no tiles */
} Start;

static const Start starts[] = {
    {"slices of 4", 0, 0, 0, VAE_SPILL_AUTO, 0},
    {"slices of 1", 1, 0, 0, VAE_SPILL_AUTO, 0},
    {"8 strips, 2 frames at once", 1, 2, 8, VAE_SPILL_AUTO, 0},
    {"16 strips, 1 frame at once", 1, 1, 16, VAE_SPILL_AUTO, 0},
    {"all carries spilled", 1, 1, 16, VAE_SPILL_HOST, 0},
    {"tiles", 1, 0, 0, VAE_SPILL_AUTO, SIZE / 2},
};
enum { STARTS = sizeof starts / sizeof *starts };

static VaeStreamParams
params_at(const Start *start, VaeDirection direction, char *said)
{
    VaeStreamParams params = params_of(direction);
    params.slice_size = start->slice;
    params.frames_at_once = start->frames;
    params.strips = start->strips;
    params.spill = start->spill;
    params.tiles = start->tile > 0;
    params.tile_width = start->tile;
    params.tile_overlap = -1;
    params.log = listen;
    params.log_user = said;
    said[0] = '\0';
    return params;
}

/* Returns the number of log lines about steps down the ladder. */
static int
steps_down(const char *said)
{
    static const char *const words[] = {" instead of ",
                                        "fewer carries are fetched ahead: "};
    int n = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *at = said; (at = strstr(at, words[i])); at++)
            n++;
    return n;
}

/* ------------------------------------------------------------------ */

/* Opens a stream while an allocation or load of code is refused, and runs the
 * clip. */
static void
open_refused(const Bed *bed, const Start *start, Clips *c, Refusals *r)
{
    char said[SAID];
    VaeError error = {0};
    VaeStream *stream = NULL;
    const VaeStreamParams params = params_at(start, VAE_DECODE, said);
    VaeModel *model = open_model(bed);
    const int alive = emu_alive();
    clip_poison(bed, &c->got, VAE_DECODE);
    emu_unload();
    refuse_begin(r);
    const VaeStatus status = vae_stream_new(model, &params, &stream, &error);
    const bool refused = refuse_end(r);
    if (status == VAE_OK) {
        run_clip(bed, stream, VAE_DECODE, &c->got, whole);
        r->wrong +=
            steps_down(said) != refused || !same_clips(bed, c, VAE_DECODE);
    } else {
        r->wrong++;
    }
    vae_stream_free(&stream);
    vae_model_free(&model);
    r->wrong += emu_alive() != alive;
}

/* Computes the right result in tiles, which differs. */
static void
want_tiles(const Bed *bed, const Start *start, Clips *c, VaeDirection direction)
{
    char said[SAID];
    const VaeStreamParams params = params_at(start, direction, said);
    SCOPED_STREAM VaeStream *stream = new_stream(bed->model, &params);
    run_clip(bed, stream, direction, &c->want, whole);
    expect(vae_stream_get_plan(stream)->tiles == 4, "4 tiles");
}

static void
opening(const Bed *bed, int stride)
{
    SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
    for (int i = 0; i < 2 * STARTS; i++) {
        const Start *start = &starts[i / 2];
        Refusals r = {.refuse = i % 2 ? emu_fail_load : emu_fail_alloc,
                      .dense = 12,
                      .stride = stride};
        if (start->tile)
            want_tiles(bed, start, &c, VAE_DECODE);
        while (refuse_next(&r))
            open_refused(bed, start, &c, &r);
        expect(r.refused > 3 && r.wrong == 0,
               "%s, %s: %d refused, %d handled wrong", start->label,
               i % 2 ? "loading code" : "opening", r.refused, r.wrong);
    }
}

/* Each allocation of a reload is refused in the middle of a sequence. */
static void
resuming(const Bed *bed, const Start *start, VaeDirection direction, int stride)
{
    char said[SAID];
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    VaeError error = {0};
    VaeStream *stream;
    Refusals r = {.refuse = emu_fail_alloc, .dense = 12, .stride = stride};
    if (start->tile)
        want_tiles(bed, start, &c, direction);
    while (refuse_next(&r)) {
        Place at = {direction, &c.got, 0, 0};
        const VaeStreamParams params = params_at(start, direction, said);
        SCOPED_MODEL VaeModel *model = open_model(bed);
        clip_poison(bed, &c.got, direction);
        stream = new_stream(model, &params);
        run_steps(bed, stream, &at, 0, 1);
        must(vae_stream_release(stream, &error), &error);
        refuse_begin(&r);
        must(vae_stream_resume(stream, &error), &error);
        const bool refused = refuse_end(&r);
        run_steps(bed, stream, &at, 2, 3);
        r.wrong +=
            steps_down(said) != refused || !same_clips(bed, &c, direction);
        vae_stream_free(&stream);
    }
    expect(r.refused > 5 && r.wrong == 0,
           "%s, %s, resuming: %d refused, %d handled wrong", name_of(direction),
           start->label, r.refused, r.wrong);
}

/* ------------------------------------------------------------------ */

/* With less memory at each reload, the stream goes down rung by rung to the
 * last one. It goes up only with a new sequence. */
static void
down_and_up(const Bed *bed, VaeDirection direction)
{
    char said[SAID];
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    Place at = {direction, &c.got, 0, 0};
    VaeError error = {0};
    VaeModel *model = open_model(bed);
    const uint64_t empty = memory_left();
    const VaeStreamParams params = params_at(&starts[0], direction, said);
    VaeStream *stream = new_stream(model, &params);
    const VaePlan *plan = vae_stream_get_plan(stream);
    const uint64_t total = plan->total;
    for (int i = 0; i < CALLS; i++) {
        must(call(bed, stream, &at, steps[i], &error), &error);
        const uint64_t taken = empty - memory_left();
        must(vae_stream_release(stream, &error), &error);
        emu_set_memory(MEMORY - empty + taken - (i < 3 ? 1 : 0));
        must(vae_stream_resume(stream, &error), &error);
        emu_set_memory(MEMORY);
    }
    expect(plan->slice_size == 1 && plan->total < total && steps_down(said) > 2,
           "%s: with less and less memory: %d rungs down", name_of(direction),
           steps_down(said));
    same_result(bed, &c.got, &c.want, direction, "going down");
    const uint64_t low = plan->total;
    must(vae_stream_release(stream, &error), &error);
    must(vae_stream_resume(stream, &error), &error);
    expect(plan->total == low, "%s: the rung does not change within a sequence",
           name_of(direction));
    emu_set_memory(MEMORY - memory_left());
    vae_stream_reset(stream);
    expect(plan->total == low && !vae_stream_stats(stream)->released,
           "%s: nor without free memory", name_of(direction));
    emu_set_memory(MEMORY);
    vae_stream_reset(stream);
    clip_poison(bed, &c.got, direction);
    run_clip(bed, stream, direction, &c.got, whole);
    expect(plan->slice_size == 4 && plan->total == total,
           "%s: a new sequence has slices of %d again", name_of(direction),
           plan->slice_size);
    expect(empty - memory_left() <= total, "%s: as planned",
           name_of(direction));
    same_result(bed, &c.got, &c.want, direction, "going up");
    vae_stream_free(&stream);
    vae_model_free(&model);
    expect(memory_left() == empty, "%s: nothing is left", name_of(direction));
}

/* ------------------------------------------------------------------ */

/* The log has a line for each rung. The bytes in it are those of a stream at
 * this rung, except for weights and scratch. */
static void
told(const Bed *bed, VaeDirection direction, size_t limit, VaeSpill spill)
{
    char said[SAID] = "", setting[100], expected[200];
    VaeStreamParams params = params_at(&starts[0], direction, said);
    int lines = 0, chosen = 0;
    params.memory_limit = limit;
    params.spill = spill;
    SCOPED_STREAM VaeStream *stream = new_stream(bed->model, &params);
    const VaePlan *plan = vae_stream_get_plan(stream);
    for (const char *at = said; (at = strstr(at, "memory setting slices of "));
         at++)
        lines++;
    for (const char *at = said; (at = strstr(at, " (chosen)")); at++)
        chosen++;
    vae_plan_setting(plan, setting, sizeof setting);
    snprintf(expected, sizeof expected,
             "memory setting %s: %.1f MiB; estimate for a step: ", setting,
             (double) plan->peak / 1048576);
    expect(chosen == 1 && strstr(said, expected),
           "%s: one rung of %d is chosen: %s", name_of(direction), lines,
           setting);
    expect(lines >= (spill == VAE_SPILL_AUTO ? 4 : 3) &&
               !strstr(said, "on the host") == (spill == VAE_SPILL_OFF),
           "%s: the log has %d rungs", name_of(direction), lines);
    expect((plan->bus_step > 0) == (plan->spilled > 0),
           "%s: %llu bytes to and from the host", name_of(direction),
           (unsigned long long) plan->bus_step);
}

static void
all_told(const Bed *bed, VaeDirection direction)
{
    VaeStreamParams params = params_of(direction);
    params.slice_size = 1;
    params.frames_at_once = 0;
    VaePlan plan = plan_of(bed->model, &params);
    told(bed, direction, 0, VAE_SPILL_AUTO);
    told(bed, direction, 0, VAE_SPILL_OFF);
    told(bed, direction, 0, VAE_SPILL_HOST);
    told(bed, direction, (size_t) plan.peak, VAE_SPILL_OFF);
    params.frames_at_once = 1;
    plan = plan_of(bed->model, &params);
    told(bed, direction, (size_t) plan.peak - 64, VAE_SPILL_AUTO);
}

/* ------------------------------------------------------------------ */
/* The settings that AUTO chooses. */

static VaePlan
planned(const Bed *bed, int width, int height, uint64_t free)
{
    VaeStreamParams params = params_of(VAE_DECODE);
    params.slice_size = params.frames_at_once = 0;
    params.spill = VAE_SPILL_AUTO;
    params.width = width;
    params.height = height;
    /* The backend leaves 128 MiB free for the driver and the libraries. */
    emu_set_memory(MEMORY - memory_left() + free + ((uint64_t) 128 << 20));
    VaePlan plan = plan_of(bed->model, &params);
    emu_set_memory(MEMORY);
    return plan;
}

/* AUTO chooses the fastest rung within 90 % of the free memory, and uses no
 * more than a large picture needs. */
static void
automatic(const Bed *bed)
{
    const uint64_t lots = (uint64_t) 1 << 50;
    const VaePlan four = planned(bed, 416, 240, lots);
    const uint64_t fits = four.peak / 9 * 10 + 100;
    VaePlan plan = planned(bed, 416, 240, fits);
    expect(four.slice_size == 4 && plan.slice_size == 4, "within 90 %%");
    plan = planned(bed, 416, 240, fits - 1000);
    expect(plan.slice_size == 2 && plan.peak < four.peak,
           "past 90 %%: slices of %d", plan.slice_size);
    plan = planned(bed, 1280, 704, lots);
    expect(plan.slice_size == 4,
           "a smaller picture than 1280x720: slices of %d", plan.slice_size);
    for (int i = 0; i < 2; i++) {
        plan = planned(bed, i ? 720 : 1280, i ? 1280 : 720, lots);
        expect(plan.slice_size == 1 && plan.frames_at_once == 0 &&
                   plan.spilled == 0,
               "%dx%d: slices of %d, %d frames at once, %llu bytes spilled",
               plan.padded_width, plan.padded_height, plan.slice_size,
               plan.frames_at_once, (unsigned long long) plan.spilled);
    }
    /* The last rung may use all free memory, and spills no more than necessary.
     */
    const VaePlan one = planned(bed, 1280, 720, plan.peak);
    const VaePlan least = planned(bed, 1280, 720, plan.peak - plan.carries / 2);
    expect(one.peak <= plan.peak && one.spilled == 0,
           "the plan needs all free memory");
    expect(least.peak <= plan.peak - plan.carries / 2 &&
               least.spilled < least.carries,
           "less than that: %llu of %llu bytes spilled",
           (unsigned long long) least.spilled,
           (unsigned long long) least.carries);
}

/* ------------------------------------------------------------------ */

typedef struct Waiter {
    VaeStream *stream;
    bool cancels; /* false: the other process frees the memory */
    int waits;
} Waiter;

static void
while_waiting(void *user, const char *line)
{
    Waiter *w = user;
    if (strncmp(line, "waits up to ", 12) != 0)
        return;
    w->waits++;
    if (w->cancels)
        vae_stream_cancel(w->stream);
    else
        emu_set_memory(MEMORY);
}

/* Another process has all memory when the stream tries to reload its own. */
static void
waiting(const Bed *bed, bool cancels)
{
    SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
    Place at = {VAE_DECODE, &c.got, 0, 0};
    VaeError error = {0};
    Waiter w = {.cancels = cancels};
    VaeStreamParams params = params_of(VAE_DECODE);
    params.slice_size = 0;
    params.resume_ms = 3600 * 1000;
    params.log = while_waiting;
    params.log_user = &w;
    must(vae_stream_new(bed->model, &params, &w.stream, &error), &error);
    must(call(bed, w.stream, &at, 1, &error), &error);
    must(vae_stream_release(w.stream, &error), &error);
    emu_set_memory(0);
    const VaeStatus status = call(bed, w.stream, &at, 2, &error);
    emu_set_memory(MEMORY);
    expect(status == (cancels ? VAE_ERR_CANCELLED : VAE_OK) && w.waits == 1,
           "%s while it waits for memory: %s",
           cancels ? "cancelled" : "another process frees memory",
           vae_status_name(status));
    if (cancels) {
        expect(strstr(error.message, "the wait for memory"), "the error: %s",
               error.message);
        vae_stream_reset(w.stream);
        run_clip(bed, w.stream, VAE_DECODE, &c.got, whole);
    } else {
        must(call(bed, w.stream, &at, 3, &error), &error);
    }
    same_result(bed, &c.got, &c.want, VAE_DECODE, "after the wait");
    vae_stream_free(&w.stream);
}

static void
in_vain(const Bed *bed)
{
    SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
    Place at = {VAE_DECODE, &c.got, 0, 0};
    VaeError error = {0};
    SCOPED_STREAM VaeStream *stream = NULL;
    VaeStreamParams params = params_of(VAE_DECODE);
    params.resume_ms = -1;
    expect(vae_stream_new(bed->model, &params, &stream, &error) ==
               VAE_ERR_ARGUMENT,
           "a negative wait is refused: %s", error.message);
    params.resume_ms = 1;
    stream = new_stream(bed->model, &params);
    must(call(bed, stream, &at, 3, &error), &error);
    must(vae_stream_release(stream, &error), &error);
    emu_set_memory((uint64_t) 300 << 20);
    emu_take_memory(1, (uint64_t) 300 << 20);
    const VaeStatus status = call(bed, stream, &at, 3, &error);
    emu_take_memory(0, 0);
    expect(
        status == VAE_ERR_MEMORY &&
            strstr(error.message, "cannot be allocated again within 0.0 s") &&
            strstr(error.message, " MiB are free)"),
        "the error has numbers: %s", error.message);
    emu_set_memory(MEMORY);
    must(call(bed, stream, &at, 3, &error), &error);
    same_result(bed, &c.got, &c.want, VAE_DECODE, "a later attempt");
}

int
main(int argc, char **argv)
{
    Bed bed;
    const int stride = bed_open_device(&bed, argc, argv);
    opening(&bed, stride);
    /* No rung follows the one that spills all carries. */
    for (int i = 0; i < STARTS; i++)
        if (starts[i].spill != VAE_SPILL_HOST)
            resuming(&bed, &starts[i], i % 2 ? VAE_ENCODE : VAE_DECODE, stride);
    down_and_up(&bed, VAE_DECODE);
    down_and_up(&bed, VAE_ENCODE);
    automatic(&bed);
    all_told(&bed, VAE_DECODE);
    all_told(&bed, VAE_ENCODE);
    waiting(&bed, false);
    waiting(&bed, true);
    in_vain(&bed);
    return device_close(&bed);
}
