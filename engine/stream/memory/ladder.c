/*
 * ladder.c: chooses the settings with which a stream fits in memory. Each rung
 * of the ladder is a setting, the fastest first; all give the same bytes. The
 * rungs are slice sizes, then the smallest slice with strips of rows and groups
 * of frames, then also with spilled carries and, at last, a spilled history.
 */
#include <stdio.h>
#include <string.h>

#include "machine.h"

/* Pictures of at least this many pixels get slices of 1, which need less than
 * half of the memory of slices of 4. */
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

/* True if the user's slice size is only an upper limit. That is so where the
 * stream may use tiles: a smaller slice is exact, a tile is not. */
static bool
may_lower_slice(const VaeMachine *m)
{
    const VaeStreamParams *p = &m->params;
    return p->slice_size > 1 && vae_may_tile(p);
}

/* Lists the rungs that spill no more carries than the caller sets, the fastest
 * first. *cut: the first rung with strips or groups of frames; later ones
 * differ only in these. Returns the number of rungs. */
static int
list_rungs(const VaeMachine *m, VaeRung rungs[VAE_RUNGS], int *cut)
{
    const VaeStreamParams *p = &m->params;
    const int64_t pixels =
        (int64_t) m->plan.padded_width * m->plan.padded_height;
    VaeRung rung = {.group = p->frames_at_once,
                    .strips = (int) p->strips,
                    .windows = UINT64_MAX};
    int n = 0;
    if (p->spill == VAE_SPILL_HOST && m->class->copy)
        rung.spared = UINT64_MAX;
    /* If no step reads another, larger slices only take more memory. */
    const bool alone = m->model->info.temporal == 1;
    rung.slice = p->slice_size                      ? p->slice_size
                 : alone || pixels >= LARGE_PICTURE ? 1
                                                    : 4;
    rungs[n++] = rung;
    while ((!p->slice_size || m->search.lowers_slice) && rung.slice > 1) {
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

/* Bytes of the machine's memory, which it frees before it allocates anew. */
static uint64_t
held(const VaeMachine *m)
{
    const VaeMachine *wide = m->wide;
    const uint64_t theirs = wide ? wide->plan.total : 0;
    return (m->memory.arena ? m->plan.total - theirs : 0) +
           (wide && wide->memory.arena ? theirs : 0);
}

/* make: the memory is allocated next, so the free memory is also a limit. */
static VaeStatus
find_limit(VaeMachine *m, bool make, VaeError *error)
{
    VaeLimit *out = &m->search.limit;
    const VaeStreamParams *p = &m->params;
    uint64_t free = UINT64_MAX;
    VaeStatus status = VAE_OK;
    *out = (VaeLimit){.bytes = p->memory_limit, .preferred = p->memory_limit};
    if (p->memory_limit && !make)
        return VAE_OK;
    if (m->class->memory_left)
        status = m->class->memory_left(m->backend, &free, error);
    else
        free = vae_mem_left(m->plan.threads, &out->own);
    if (status != VAE_OK)
        return status;
    if (free < UINT64_MAX - held(m))
        free += held(m);
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
can_spill(const VaeMachine *m)
{
    return m->params.spill == VAE_SPILL_AUTO && m->class->copy;
}

int
vae_machine_list_rungs(const VaeMachine *m, VaeRung rungs[VAE_RUNGS])
{
    int cut, all = list_rungs(m, rungs, &cut);
    const int n = all;
    for (int i = cut - 1; i < n && can_spill(m); i++) {
        rungs[all] = rungs[i];
        rungs[all++].spared = UINT64_MAX;
    }
    return all;
}

/* Saves the smallest plan that was tried, for the error of a stream that does
 * not fit. A plan that was not prepared has fewer bytes than it needs, so it
 * counts only as long as none was prepared. */
static void
keep_least(VaeMachine *m)
{
    const bool prepared = m->execs[FIRST] != NULL;
    if (m->search.least.peak && (prepared == m->search.least_is_prepared
                                     ? m->search.least.peak <= m->plan.peak
                                     : m->search.least_is_prepared))
        return;
    m->search.least = m->plan;
    m->search.least_is_prepared = prepared;
}

/* Builds a rung roughly. *fits: the plan has at most `most` bytes, so an exact
 * plan is worth its time. */
static VaeStatus
try_roughly(VaeMachine *m, VaeRung rung, uint64_t most, bool *fits,
            VaeError *error)
{
    const VaeStatus status = vae_machine_build(m, rung, VAE_BUILD_ROUGH, error);
    *fits = status == VAE_OK && m->plan.peak <= most;
    if (status == VAE_OK && !*fits)
        keep_least(m);
    return status;
}

/* Builds a rung and prepares it without weights. *fits: its plan has at most
 * `most` bytes. It is not prepared if its activations and carries alone have
 * more, because a library may take minutes to prepare a picture that cannot
 * fit. */
static VaeStatus
try_rung(VaeMachine *m, VaeRung rung, uint64_t most, bool *fits,
         VaeError *error)
{
    VaeStatus status = try_roughly(m, rung, most, fits, error);
    if (status != VAE_OK || !*fits)
        return status;
    if (m->rough)
        status = vae_machine_build(m, rung, VAE_BUILD_EXACT, error);
    if (status == VAE_OK && m->plan.peak <= most)
        status = vae_machine_prepare(m, NULL, error);
    *fits = m->plan.peak <= most;
    if (status == VAE_OK && !*fits)
        keep_least(m);
    return status;
}

/* The bytes that further spilling takes off the device: carries, then the
 * history. */
static uint64_t
left_to_spill(const VaeMachine *m)
{
    const VaePlan *p = &m->plan;
    const uint64_t staged = vae_history_staged_bytes(&m->history);
    return p->carries - p->spilled +
           (p->history > staged ? p->history - staged : 0);
}

/* Spills the missing bytes. The first attempt counts only activations and
 * carries, later ones also weights and memory of libraries. */
static VaeStatus
spill_enough(VaeMachine *m, VaeRung rung, uint64_t most, bool *fits,
             VaeError *error)
{
    VaeStatus status = try_rung(m, rung, most, fits, error);
    while (status == VAE_OK && !*fits &&
           m->plan.peak - most <= left_to_spill(m)) {
        rung.spared = m->plan.spilled + (m->plan.peak - most);
        status = try_rung(m, rung, most, fits, error);
    }
    return status;
}

/* Tries a rung with spilled carries and as many windows as fit, so that copies
 * run while ops compute. */
static VaeStatus
try_spilling(VaeMachine *m, VaeRung rung, uint64_t most, bool *fits,
             VaeError *error)
{
    VaeRung least = rung;
    least.windows = 0;
    least.spared = UINT64_MAX;
    VaeStatus status = try_roughly(m, least, most, fits, error);
    if (status != VAE_OK || !*fits)
        return status;
    status = spill_enough(m, rung, most, fits, error);
    if (status != VAE_OK || *fits)
        return status;
    rung.windows = 0;
    status = spill_enough(m, rung, most, fits, error);
    if (status == VAE_OK && !*fits) /* so that an error names the least bytes */
        return try_rung(m, least, most, fits, error);
    if (status != VAE_OK)
        return status;
    rung = m->rung;
    rung.windows = most - m->plan.peak;
    status = try_rung(m, rung, most, fits, error);
    if (status != VAE_OK || *fits)
        return status;
    rung.windows = 0;
    return try_rung(m, rung, most, fits, error);
}

/* Does the timed runs of all programs, which load code. True: less memory may
 * be free than before. A run that fails is reported when its program is
 * prepared. */
static bool
tune(const VaeMachine *m)
{
    const bool own_memory = m->class->memory_left != NULL;
    for (int i = 0; i < PROGRAMS && own_memory; i++)
        if (m->programs[i])
            m->class->prepare(m->backend, NULL, m->programs[i], NULL, NULL);
    return own_memory;
}

/* *fits false: even the last rung, with all carries spilled, does not fit. */
static VaeStatus
may_fit(VaeMachine *m, bool *fits, VaeError *error)
{
    VaeRung rungs[VAE_RUNGS];
    int cut;
    const int n = list_rungs(m, rungs, &cut);
    VaeRung last = rungs[n - 1];
    last.windows = 0;
    if (can_spill(m))
        last.spared = UINT64_MAX;
    return try_roughly(m, last, m->search.limit.bytes, fits, error);
}

/* A setting that the search tries. */
typedef struct Candidate {
    VaeRung rung;
    bool last;   /* this setting may use all of the limit */
    bool spills; /* more carries are spilled, as many as needed */
} Candidate;

/* Lists what the search tries with the current slices and tiles, in order.
 * Returns the number. Rungs with spilled carries are last, because each further
 * group of frames copies each carry once more. */
static int
list_candidates(const VaeMachine *m, Candidate out[2 * VAE_RUNGS])
{
    VaeRung rungs[VAE_RUNGS];
    int cut, all = 0;
    const int n = list_rungs(m, rungs, &cut);
    const bool few = m->search.few_rungs;
    const bool spills = can_spill(m) || rungs[0].spared;
    for (int i = 0; i < n; i++)
        if (!few || i == cut - 1 || i == n - 1)
            out[all++] = (Candidate){.rung = rungs[i], .last = i == n - 1};
    for (int i = cut - 1; i < n && spills; i++)
        if (!few || i == cut - 1 || i == n - 1)
            out[all++] =
                (Candidate){.rung = rungs[i], .last = true, .spills = true};
    return all;
}

/* Tries one candidate after another until one fits. */
static VaeStatus
search_ladder(VaeMachine *m, bool make, bool *fits, VaeError *error)
{
    Candidate all[2 * VAE_RUNGS];
    const int n = list_candidates(m, all);
    bool tunes = make;
    VaeStatus status = VAE_OK;
    *fits = false;
    for (int i = 0; i < n && status == VAE_OK && !*fits; i++) {
        const Candidate *c = &all[i];
        status = (c->spills ? try_spilling : try_rung)(
            m, c->rung,
            c->last ? m->search.limit.bytes : m->search.limit.preferred, fits,
            error);
        if (status != VAE_OK || !*fits || c->spills || !tunes)
            continue;
        tunes = false;
        if (!tune(m))
            break;
        status = find_limit(m, make, error);
        *fits = false;
        i = -1; /* begins again with this limit */
    }
    return status;
}

/* Selects the next ladder: smaller slices than the caller set, then smaller and
 * smaller tiles. False: there is none. */
static bool
next_ladder(VaeMachine *m)
{
    const bool lowers = !m->search.lowers_slice && may_lower_slice(m);
    m->search.lowers_slice = m->search.lowers_slice || lowers;
    return lowers || vae_machine_shrink_tiles(m);
}

/* Searches this ladder and the next ones. Skips a ladder whose last rung cannot
 * fit. whole: does not skip the first. */
static VaeStatus
search(VaeMachine *m, const VaeTerms *terms, bool whole, bool *fits,
       VaeError *error)
{
    VaeStatus status;
    do {
        *fits = whole;
        status = whole ? VAE_OK : may_fit(m, fits, error);
        if (status == VAE_OK && *fits)
            status = search_ladder(m, terms->make, fits, error);
        whole = false;
    } while (status == VAE_OK && !*fits && next_ladder(m));
    return status;
}

/* Takes the least rung if it fits: only the last one in the list may use all of
 * the free memory. If the least has strips, this first prepares the last rung
 * without cuts, which may need less: a library has more code for strips. */
static VaeStatus
take_least(VaeMachine *m, bool *fits, VaeError *error)
{
    VaeRung rungs[VAE_RUNGS];
    VaeStatus status = VAE_OK;
    int cut;
    const int n = list_rungs(m, rungs, &cut);
    if (m->search.few_rungs || !m->search.least_is_prepared ||
        vae_may_tile(&m->params))
        return VAE_OK;
    if (m->search.least.strips)
        status =
            try_rung(m, rungs[cut - 1], m->search.least.peak - 1, fits, error);
    if (status == VAE_OK && *fits)
        keep_least(m);
    *fits = false;
    for (int i = 0; i < n && status == VAE_OK && !*fits; i++)
        if (m->search.least.peak <= m->search.limit.bytes &&
            !m->search.least.spilled &&
            rungs[i].slice == m->search.least.slice_size &&
            rungs[i].group == m->search.least.frames_at_once &&
            rungs[i].strips == m->search.least.strips)
            status = try_rung(m, rungs[i], m->search.limit.bytes, fits, error);
    return status;
}

VaeStatus
vae_machine_choose_rung(VaeMachine *m, const VaeTerms *terms, VaeError *error)
{
    const int unit = m->model->info.spatial;
    bool fits = false;
    VaeStatus status = find_limit(m, terms->make, error);
    m->plan.padded_width = round_up(m->params.width, unit);
    m->plan.padded_height = round_up(m->params.height, unit);
    m->search.lowers_slice = m->search.too_large = false;
    m->search.least.peak = 0;
    if (status == VAE_OK)
        status = search(m, terms, terms->all_rungs, &fits, error);
    if (status == VAE_OK && !fits)
        status = take_least(m, &fits, error);
    if (status != VAE_OK || fits)
        return status;
    m->search.too_large = true;
    return vae_fail(error, VAE_ERR_MEMORY, "does not fit");
}

void
vae_plan_setting(const VaePlan *p, char *out, size_t size)
{
    char group[40] = "", strips[40] = "", whole[48] = "", tiles[64] = "";
    if (p->frames_at_once)
        snprintf(group, sizeof group, ", %s at once",
                 VAE_COUNTED(p->frames_at_once, "frame"));
    if (p->strips)
        snprintf(strips, sizeof strips, ", %s",
                 VAE_COUNTED(p->strips, "strip"));
    if (p->whole)
        snprintf(whole, sizeof whole, ", %s not in strips",
                 VAE_COUNTED(p->whole, "large layer"));
    if (p->tiles)
        snprintf(tiles, sizeof tiles, ", %s of %dx%d (not exact)",
                 VAE_COUNTED(p->tiles, "tile"), p->tile_width, p->tile_height);
    const char *spilled =
        p->history_spilled        ? ", the carries and the history on the host"
        : !p->spilled             ? ""
        : p->spilled < p->carries ? ", a part of the carries on the host"
                                  : ", the carries on the host";
    snprintf(out, size, "slices of %d%s%s%s%s%s", p->slice_size, group, strips,
             whole, spilled, tiles);
}

/* The rung below m->rung. False: there is none. */
static bool
next_rung(const VaeMachine *m, VaeRung *out)
{
    VaeRung rungs[VAE_RUNGS];
    const VaeRung *now = &m->rung;
    int cut, i = 0;
    const int n = list_rungs(m, rungs, &cut);
    const bool spilled = can_spill(m) && now->spared;
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
    if (can_spill(m) && left_to_spill(m)) {
        out->spared = UINT64_MAX;
        return true;
    }
    return m->plan.spilled && now->windows;
}

/* The next rung with a smaller slice than the caller set. False: there is none.
 */
static bool
lower_slice(VaeMachine *m, VaeRung *out)
{
    VaeRung rungs[VAE_RUNGS];
    int cut;
    if (m->search.lowers_slice || !may_lower_slice(m))
        return false;
    m->search.lowers_slice = true;
    list_rungs(m, rungs, &cut);
    *out = rungs[1];
    return true;
}

/* The first rung with the next smaller tiles that fits in the free memory.
 * False: there is none. Tiles do not change within a sequence, because each
 * tile has its own carries. */
static bool
take_tiles(VaeMachine *m, bool begun, VaeRung *out)
{
    const VaeTileGrid grid = m->grid;
    const VaeRung rung = m->rung;
    const VaePlan plan = m->plan;
    bool fits = false;
    if (begun || find_limit(m, true, NULL) != VAE_OK)
        return false;
    vae_machine_free_tiles(m);
    if (next_ladder(m))
        search(m, &(VaeTerms){.make = true}, false, &fits, NULL);
    *out = m->rung;
    if (fits)
        return true;
    m->grid = grid;
    m->rung = rung;
    m->plan = plan;
    vae_machine_drop_programs(m);
    return false;
}

bool
vae_machine_step_down(VaeMachine *m, bool begun, const VaeError *why)
{
    const VaeLog log = {m->params.log, m->params.log_user};
    char before[160], after[160];
    const uint64_t refused = m->plan.peak;
    VaeRung rung;
    vae_plan_setting(&m->plan, before, sizeof before);
    if (!next_rung(m, &rung) && !lower_slice(m, &rung) &&
        !take_tiles(m, begun, &rung))
        return false;
    VaePlan next = m->plan;
    next.slice_size = rung.slice;
    next.frames_at_once = rung.group;
    next.strips = rung.strips;
    next.spilled = rung.spared ? next.carries : next.spilled;
    next.history_spilled = m->history.bytes && rung.spared == UINT64_MAX;
    vae_plan_setting(&next, after, sizeof after);
    if (strcmp(before, after) == 0)
        vae_log(&log, "fewer carries are fetched ahead: %s", why->message);
    else
        vae_log(&log, "%s instead of %s: %s", after, before, why->message);
    m->rung = rung;
    m->search.refused = refused;
    vae_machine_drop_programs(m);
    return true;
}

void
vae_machine_step_up(VaeMachine *m)
{
    const VaeLog log = {m->params.log, m->params.log_user};
    const VaeRung rung = m->rung;
    const VaeTileGrid grid = m->grid;
    const bool lowers_slice = m->search.lowers_slice;
    if (!m->search.refused || find_limit(m, true, NULL) != VAE_OK ||
        m->search.limit.preferred < m->search.refused)
        return;
    m->search.refused = 0;
    m->released = true;
    vae_machine_free_memory(m);
    vae_machine_free_tiles(m); /* the next rung may have other tiles */
    vae_machine_drop_programs(m);
    if (vae_may_tile(&m->params))
        m->grid = (VaeTileGrid){0};
    if (vae_machine_choose_rung(m, &(VaeTerms){.make = true}, NULL) == VAE_OK) {
        vae_log(&log, "there is memory again: slices of %d", m->rung.slice);
    } else {
        m->rung = rung;
        m->grid = grid;
        m->search.lowers_slice = lowers_slice;
    }
    vae_machine_drop_programs(m); /* the programs have no weights yet */
}
