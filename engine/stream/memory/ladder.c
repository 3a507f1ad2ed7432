/*
 * ladder.c: chooses the settings with which a stream fits in memory. Each rung
 * of the ladder is a setting, the fastest first; all give the same bytes. The
 * rungs are slice sizes, then the smallest slice with strips of rows and groups
 * of frames, then also with spilled carries.
 */
#include <stdio.h>
#include <string.h>

#include "stream.h"

/* From so many pixels on, AUTO uses slices of 1 step, which need less than half
 * of the memory of slices of 4. */
#define LARGE_PICTURE (1280 * 720)

/* The part of the free memory that AUTO uses. */
#define SHARE 0.9

static int
round_up(int v, int step)
{
    return (v + step - 1) / step * step;
}

/* Groups of frames, and strips of rows. Both cost little time, strips less. */
static const VaeRung cuts[] = {
    {.group = 0, .strips = 4},  {.group = 0, .strips = 8},
    {.group = 2, .strips = 8},  {.group = 1, .strips = 16},
    {.group = 1, .strips = 32}, {.group = 1, .strips = 64},
};

/* True if a slice size that is set by hand is the largest, not the only one:
 * smaller slices are exact, and tiles, which the stream may choose, are not. */
static bool
may_lower_slice(const VaeStream *s)
{
    const VaeStreamParams *p = &s->params;
    return p->slice_size > 1 && vae_stream_may_tile(p);
}

/* Lists the rungs that spill no more carries than the caller sets, the fastest
 * first. *cut: the first rung with strips or groups of frames; later ones
 * differ only in these. Returns the number of rungs. */
static int
list_rungs(const VaeStream *s, VaeRung rungs[VAE_RUNGS], int *cut)
{
    const VaeStreamParams *p = &s->params;
    const int64_t pixels =
        (int64_t) s->plan.padded_width * s->plan.padded_height;
    VaeRung rung = {.group = p->frames_at_once,
                    .strips = (int) p->strips,
                    .windows = UINT64_MAX};
    int n = 0;
    if (p->spill == VAE_SPILL_HOST && s->class->copy)
        rung.spared = UINT64_MAX;
    /* If no step reads another, larger slices only take more memory. */
    const bool alone = s->model->info.temporal == 1;
    rung.slice = p->slice_size                      ? p->slice_size
                 : alone || pixels >= LARGE_PICTURE ? 1
                                                    : 4;
    rungs[n++] = rung;
    while ((!p->slice_size || s->lowers_slice) && rung.slice > 1) {
        rung.slice /= 2;
        rungs[n++] = rung;
    }
    *cut = n;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const VaeRung before = rung;
        if (!p->frames_at_once)
            rung.group = cuts[i].group;
        if (!p->strips)
            rung.strips = cuts[i].strips;
        if (rung.group != before.group || rung.strips != before.strips)
            rungs[n++] = rung;
    }
    return n;
}

typedef struct Limit {
    uint64_t bytes, preferred; /* the limit; and the bytes to stay below if a
                               smaller rung exists */
    bool own;                  /* the limit is that of the process (ulimit) */
} Limit;

/* Bytes of the stream's memory, which it frees before it allocates anew. */
static uint64_t
held(const VaeStream *s)
{
    const VaeStream *fallback = s->fallback;
    const uint64_t theirs = fallback ? fallback->plan.total : 0;
    return (s->memory.arena ? s->plan.total - theirs : 0) +
           (fallback && fallback->memory.arena ? theirs : 0);
}

/* make: the memory is allocated next, so the free memory is also a limit. */
static VaeStatus
find_limit(VaeStream *s, bool make, Limit *out, VaeError *error)
{
    const VaeStreamParams *p = &s->params;
    uint64_t free = UINT64_MAX;
    VaeStatus status = VAE_OK;
    *out = (Limit){.bytes = p->memory_limit, .preferred = p->memory_limit};
    if (p->memory_limit && !make)
        return VAE_OK;
    if (s->class->memory_left)
        status = s->class->memory_left(s->backend, &free, error);
    else
        free = vae_mem_left(s->plan.threads, &out->own);
    if (status != VAE_OK)
        return status;
    if (free < UINT64_MAX - held(s))
        free += held(s);
    if (p->memory_limit) {
        out->own = out->own && free < p->memory_limit;
        if (free < p->memory_limit)
            out->bytes = out->preferred = free;
        return VAE_OK;
    }
    out->bytes = free;
    if (p->memory_share > 0)
        out->bytes = (uint64_t) (p->memory_share * (double) free);
    out->preferred =
        p->memory_share > 0 ? out->bytes : (uint64_t) (SHARE * (double) free);
    return VAE_OK;
}

static bool
can_spill(const VaeStream *s)
{
    return s->params.spill == VAE_SPILL_AUTO && s->class->copy;
}

int
vae_stream_list_rungs(const VaeStream *s, VaeRung rungs[VAE_RUNGS])
{
    int cut, all = list_rungs(s, rungs, &cut);
    const int n = all;
    for (int i = cut - 1; i < n && can_spill(s); i++) {
        rungs[all] = rungs[i];
        rungs[all++].spared = UINT64_MAX;
    }
    return all;
}

/* Saves the smallest plan that was tried, for the error of a stream that does
 * not fit. A plan that was not prepared has fewer bytes than it needs, so it
 * counts only as long as none was prepared. */
static void
keep_least(VaeStream *s)
{
    const bool prepared = s->execs[FIRST] != NULL;
    if (s->least.peak &&
        (prepared == s->least_is_prepared ? s->least.peak <= s->plan.peak
                                          : s->least_is_prepared))
        return;
    s->least = s->plan;
    s->least_is_prepared = prepared;
}

/* Builds a rung roughly. *fits: the plan has at most `most` bytes, so an exact
 * plan is worth its time. */
static VaeStatus
try_roughly(VaeStream *s, VaeRung rung, uint64_t most, bool *fits,
            VaeError *error)
{
    const VaeStatus status = vae_stream_build(s, rung, VAE_BUILD_ROUGH, error);
    *fits = status == VAE_OK && s->plan.peak <= most;
    if (status == VAE_OK && !*fits)
        keep_least(s);
    return status;
}

/* Builds a rung and prepares it without weights. *fits: its plan has at most
 * `most` bytes. It is not prepared if its activations and carries alone have
 * more, because a library may take minutes to prepare a picture that cannot
 * fit. */
static VaeStatus
try_rung(VaeStream *s, VaeRung rung, uint64_t most, bool *fits, VaeError *error)
{
    VaeStatus status = try_roughly(s, rung, most, fits, error);
    if (status != VAE_OK || !*fits)
        return status;
    if (s->rough)
        status = vae_stream_build(s, rung, VAE_BUILD_EXACT, error);
    if (status == VAE_OK && s->plan.peak <= most)
        status = vae_stream_prepare(s, NULL, error);
    *fits = s->plan.peak <= most;
    if (status == VAE_OK && !*fits)
        keep_least(s);
    return status;
}

/* Spills the missing bytes. The first attempt counts only activations and
 * carries, later ones also weights and memory of libraries. */
static VaeStatus
spill_enough(VaeStream *s, VaeRung rung, uint64_t most, bool *fits,
             VaeError *error)
{
    VaeStatus status = try_rung(s, rung, most, fits, error);
    while (status == VAE_OK && !*fits &&
           s->plan.peak - most <= s->plan.carries - s->plan.spilled) {
        rung.spared = s->plan.spilled + (s->plan.peak - most);
        status = try_rung(s, rung, most, fits, error);
    }
    return status;
}

/* The same with windows for copies while ops compute: as many as fit. */
static VaeStatus
try_spilling(VaeStream *s, VaeRung rung, uint64_t most, bool *fits,
             VaeError *error)
{
    VaeRung least = rung;
    least.windows = 0;
    least.spared = UINT64_MAX;
    VaeStatus status = try_roughly(s, least, most, fits, error);
    if (status != VAE_OK || !*fits)
        return status;
    status = spill_enough(s, rung, most, fits, error);
    if (status != VAE_OK || *fits)
        return status;
    rung.windows = 0;
    status = spill_enough(s, rung, most, fits, error);
    if (status == VAE_OK && !*fits) /* so that an error names the least bytes */
        return try_rung(s, least, most, fits, error);
    if (status != VAE_OK)
        return status;
    rung = s->rung;
    rung.windows = most - s->plan.peak;
    status = try_rung(s, rung, most, fits, error);
    if (status != VAE_OK || *fits)
        return status;
    rung.windows = 0;
    return try_rung(s, rung, most, fits, error);
}

/* Tries one rung after another until one fits. */
static VaeStatus
try_rungs(VaeStream *s, const VaeRung *rungs, int n, const Limit *limit,
          bool *fits, VaeError *error)
{
    VaeStatus status = VAE_OK;
    *fits = false;
    for (int i = 0; i < n && status == VAE_OK && !*fits; i++)
        status =
            try_rung(s, rungs[i], i < n - 1 ? limit->preferred : limit->bytes,
                     fits, error);
    return status;
}

/* Does the timed runs of all programs, which load code. True: less memory may
 * be free than before. A run that fails is reported when its program is
 * prepared. */
static bool
tune(const VaeStream *s)
{
    const bool own_memory = s->class->memory_left != NULL;
    for (int i = 0; i < PROGRAMS && own_memory; i++)
        if (s->programs[i])
            s->class->prepare(s->backend, NULL, s->programs[i], NULL, NULL);
    return own_memory;
}

/* *fits false: even the last rung, with all carries spilled, does not fit. */
static VaeStatus
may_fit(VaeStream *s, const Limit *limit, bool *fits, VaeError *error)
{
    VaeRung rungs[VAE_RUNGS];
    int cut;
    const int n = list_rungs(s, rungs, &cut);
    VaeRung last = rungs[n - 1];
    last.windows = 0;
    if (can_spill(s))
        last.spared = UINT64_MAX;
    return try_roughly(s, last, limit->bytes, fits, error);
}

/* Tries all rungs with the current tiles. */
static VaeStatus
climb_down(VaeStream *s, bool make, Limit *limit, bool *fits, VaeError *error)
{
    VaeRung rungs[VAE_RUNGS];
    int cut, n = list_rungs(s, rungs, &cut);
    if (s->few_rungs) { /* the last one, and the last without cuts */
        rungs[0] = rungs[cut - 1];
        rungs[1] = rungs[n - 1];
        n = cut < n ? 2 : 1;
        cut = 1;
    }
    VaeStatus status = try_rungs(s, rungs, n, limit, fits, error);
    if (status == VAE_OK && *fits && make && tune(s)) {
        status = find_limit(s, make, limit, error);
        if (status == VAE_OK)
            status = try_rungs(s, rungs, n, limit, fits, error);
    }
    /* each further group of frames copies each carry once more */
    const bool spills = can_spill(s) || rungs[0].spared;
    for (int i = cut - 1; i < n && spills && status == VAE_OK && !*fits; i++)
        status = try_spilling(s, rungs[i], limit->bytes, fits, error);
    return status;
}

/* The same, but returns early if nothing can fit. */
static VaeStatus
climb_down_quickly(VaeStream *s, bool make, Limit *limit, bool *fits,
                   VaeError *error)
{
    VaeStatus status = may_fit(s, limit, fits, error);
    if (status == VAE_OK && *fits)
        status = climb_down(s, make, limit, fits, error);
    return status;
}

/* Takes the least rung if it fits: only the last one in the list may use all of
 * the free memory. If the least has strips, this first prepares the last rung
 * without cuts, which may need less: a library has more code for strips. */
static VaeStatus
take_least(VaeStream *s, const Limit *limit, bool *fits, VaeError *error)
{
    VaeRung rungs[VAE_RUNGS];
    VaeStatus status = VAE_OK;
    int cut;
    const int n = list_rungs(s, rungs, &cut);
    if (s->few_rungs || !s->least_is_prepared ||
        vae_stream_may_tile(&s->params))
        return VAE_OK;
    if (s->least.strips)
        status = try_rung(s, rungs[cut - 1], s->least.peak - 1, fits, error);
    if (status == VAE_OK && *fits)
        keep_least(s);
    *fits = false;
    for (int i = 0; i < n && status == VAE_OK && !*fits; i++)
        if (s->least.peak <= limit->bytes && !s->least.spilled &&
            rungs[i].slice == s->least.slice_size &&
            rungs[i].group == s->least.frames_at_once &&
            rungs[i].strips == s->least.strips)
            status = try_rung(s, rungs[i], limit->bytes, fits, error);
    return status;
}

VaeStatus
vae_stream_choose_rung(VaeStream *s, bool make, bool all, VaeError *error)
{
    const int unit = s->model->info.spatial;
    Limit limit;
    bool fits = false;
    VaeStatus status = find_limit(s, make, &limit, error);
    s->plan.padded_width = round_up(s->params.width, unit);
    s->plan.padded_height = round_up(s->params.height, unit);
    s->lowers_slice = s->too_large = false;
    s->least.peak = 0;
    if (status == VAE_OK)
        status = (all ? climb_down : climb_down_quickly)(s, make, &limit, &fits,
                                                         error);
    if (status == VAE_OK && !fits && may_lower_slice(s)) {
        s->lowers_slice = true;
        status = climb_down_quickly(s, make, &limit, &fits, error);
    }
    while (status == VAE_OK && !fits && vae_stream_shrink_tiles(s))
        status = climb_down_quickly(s, make, &limit, &fits, error);
    if (status == VAE_OK && !fits)
        status = take_least(s, &limit, &fits, error);
    if (status != VAE_OK || fits)
        return status;
    s->too_large = true;
    s->limit = limit.bytes;
    s->own_limit = limit.own;
    return vae_fail(error, VAE_ERR_MEMORY, "does not fit");
}

void
vae_plan_setting(const VaePlan *p, char *out, size_t size)
{
    char group[40] = "", strips[40] = "", whole[48] = "", tiles[64] = "";
    if (p->frames_at_once)
        snprintf(group, sizeof group, ", %d frame%s at once", p->frames_at_once,
                 p->frames_at_once == 1 ? "" : "s");
    if (p->strips)
        snprintf(strips, sizeof strips, ", %d strips", p->strips);
    if (p->whole)
        snprintf(whole, sizeof whole, ", %d large layer%s not in strips",
                 p->whole, p->whole == 1 ? "" : "s");
    if (p->tiles)
        snprintf(tiles, sizeof tiles, ", %d tiles of %dx%d (not exact)",
                 p->tiles, p->tile_width, p->tile_height);
    snprintf(out, size, "slices of %d%s%s%s%s%s", p->slice_size, group, strips,
             whole,
             !p->spilled               ? ""
             : p->spilled < p->carries ? ", a part of the carries on the host"
                                       : ", the carries on the host",
             tiles);
}

/* The rung below s->rung. False: there is none. */
static bool
next_rung(const VaeStream *s, VaeRung *out)
{
    VaeRung rungs[VAE_RUNGS];
    const VaeRung *now = &s->rung;
    int cut, i = 0;
    const int n = list_rungs(s, rungs, &cut);
    const bool spilled = can_spill(s) && now->spared;
    while (i < n &&
           (rungs[i].slice != now->slice || rungs[i].group != now->group ||
            rungs[i].strips != now->strips))
        i++;
    *out = *now;
    if (i + 1 < n && !spilled) {
        *out = rungs[i + 1];
        return true;
    }
    out->windows = 0;
    if (can_spill(s) && s->plan.spilled < s->plan.carries) {
        out->spared = s->plan.carries;
        return true;
    }
    return s->plan.spilled && now->windows;
}

/* The next rung with a smaller slice than the caller set. False: there is none.
 */
static bool
lower_slice(VaeStream *s, VaeRung *out)
{
    VaeRung rungs[VAE_RUNGS];
    int cut;
    if (s->lowers_slice || !may_lower_slice(s))
        return false;
    s->lowers_slice = true;
    list_rungs(s, rungs, &cut);
    *out = rungs[1];
    return true;
}

/* The first rung with the next smaller tiles that fits in the free memory.
 * False: there is none. Tiles do not change within a sequence, because each
 * tile has its own carries. */
static bool
take_tiles(VaeStream *s, VaeRung *out)
{
    const VaeTileGrid grid = s->grid;
    const VaeRung rung = s->rung;
    const VaePlan plan = s->plan;
    Limit limit;
    bool fits = false;
    if (s->at.next != FIRST || find_limit(s, true, &limit, NULL) != VAE_OK)
        return false;
    vae_stream_free_tiles(s);
    while (!fits && vae_stream_shrink_tiles(s))
        if (climb_down_quickly(s, true, &limit, &fits, NULL) != VAE_OK)
            break;
    *out = s->rung;
    if (fits)
        return true;
    s->grid = grid;
    s->rung = rung;
    s->plan = plan;
    vae_stream_drop_programs(s);
    return false;
}

bool
vae_stream_step_down(VaeStream *s, const VaeError *why)
{
    const VaeLog log = {s->params.log, s->params.log_user};
    char before[160], after[160];
    const uint64_t refused = s->plan.peak;
    VaeRung rung;
    vae_plan_setting(&s->plan, before, sizeof before);
    if (!next_rung(s, &rung) && !lower_slice(s, &rung) && !take_tiles(s, &rung))
        return false;
    VaePlan next = s->plan;
    next.slice_size = rung.slice;
    next.frames_at_once = rung.group;
    next.strips = rung.strips;
    next.spilled = rung.spared ? next.carries : next.spilled;
    vae_plan_setting(&next, after, sizeof after);
    if (strcmp(before, after) == 0)
        vae_log(&log, "fewer carries are fetched ahead: %s", why->message);
    else
        vae_log(&log, "%s instead of %s: %s", after, before, why->message);
    s->rung = rung;
    s->refused = refused;
    vae_stream_drop_programs(s);
    return true;
}

void
vae_stream_step_up(VaeStream *s)
{
    const VaeLog log = {s->params.log, s->params.log_user};
    const VaeRung rung = s->rung;
    const VaeTileGrid grid = s->grid;
    const bool lowers_slice = s->lowers_slice;
    Limit limit;
    if (!s->refused || find_limit(s, true, &limit, NULL) != VAE_OK ||
        limit.preferred < s->refused)
        return;
    s->refused = 0;
    s->stats.released = true; /* the next call allocates the memory */
    vae_stream_free_memory(s);
    vae_stream_free_tiles(s); /* the next rung may have other tiles */
    vae_stream_drop_programs(s);
    if (vae_stream_may_tile(&s->params))
        s->grid = (VaeTileGrid){0};
    if (vae_stream_choose_rung(s, true, false, NULL) == VAE_OK) {
        vae_log(&log, "there is memory again: slices of %d", s->rung.slice);
    } else {
        s->rung = rung;
        s->grid = grid;
        s->lowers_slice = lowers_slice;
    }
    vae_stream_drop_programs(s); /* they are prepared without weights */
}

/* Other programs and libraries may have used memory since the rung was chosen.
 * The rest may be enough for a smaller rung. */
VaeStatus
vae_stream_make(VaeStream *s, VaeError *error)
{
    VaeError why = {0};
    VaeStatus status;
    do {
        status = vae_stream_take(s, &why);
        if (status != VAE_OK || !s->fallback)
            continue;
        status = vae_stream_take(s->fallback, &why);
        if (status != VAE_OK)
            vae_stream_free_memory(s);
    } while (status == VAE_ERR_MEMORY && vae_stream_step_down(s, &why));
    if (status == VAE_ERR_MEMORY && vae_stream_goes_on(s, &why) != VAE_OK)
        status = VAE_ERR_CANCELLED;
    if (error && status != VAE_OK)
        *error = why;
    return status;
}
