/*
 * required_tensors.c: the tensors that a network wants, and which of a file
 * they are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Where in by_name a demand is, or would be. */
static size_t
demand_place(const VaeModel *model, const char *name, bool *found)
{
    size_t low = 0, high = model->n_demands;
    *found = false;
    while (low < high && !*found) {
        const size_t mid = low + (high - low) / 2;
        const int order =
            strcmp(model->demands[model->by_name[mid]].name, name);
        *found = order == 0;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return high;
}

static bool
is_at(const VaeModel *m, long i, const char *name)
{
    return (size_t) i < m->n_demands && strcmp(m->demands[i].name, name) == 0;
}

long
vae_model_demand(const VaeModel *m, const char *name, long likely)
{
    if (is_at(m, likely, name))
        return likely;
    bool found;
    const size_t i = demand_place(m, name, &found);
    return found ? (long) m->by_name[i] : -1;
}

/* Room for one more. */
static bool
demand_room(VaeModel *m)
{
    if (m->n_demands < m->demands_room)
        return true;
    const size_t room = m->demands_room ? 2 * m->demands_room : 256;
    VaeDemand *demands = realloc(m->demands, room * sizeof *demands);
    if (demands)
        m->demands = demands;
    size_t *by_name = realloc(m->by_name, room * sizeof *by_name);
    if (by_name)
        m->by_name = by_name;
    if (!demands || !by_name)
        return false;
    m->demands_room = room;
    return true;
}

long
vae_model_want(VaeModel *m, const char *name, const int64_t *dims, int n_dims,
               long likely)
{
    if (is_at(m, likely, name))
        return likely;
    bool found;
    const size_t place = demand_place(m, name, &found);
    if (found)
        return (long) m->by_name[place];
    if (!demand_room(m))
        return -1;
    VaeDemand *d = &m->demands[m->n_demands];
    *d = (VaeDemand){.name = strdup(name), .n_dims = n_dims};
    if (!d->name)
        return -1;
    memcpy(d->dims, dims, (size_t) n_dims * sizeof *dims);
    memmove(m->by_name + place + 1, m->by_name + place,
            (m->n_demands - place) * sizeof *m->by_name);
    m->by_name[place] = m->n_demands;
    return (long) m->n_demands++;
}

static VaeStatus
learn_program(VaeModel *model, VaeDirection direction, bool first,
              VaeError *error)
{
    VaeCarrySet carries = {0};
    const int side = direction == VAE_DECODE ? 2 : 2 * model->info.spatial;
    VaeProgram *program;
    const VaeStatus status =
        vae_program_build(&(VaeBuildParams){.model = model,
                                            .direction = direction,
                                            .first = first,
                                            .steps = 1,
                                            .height = side,
                                            .width = side,
                                            .act = VAE_TYPE_F32,
                                            .label = "learn",
                                            .carries = &carries,
                                            .learn = true},
                          &program, error);
    vae_program_free(&program);
    vae_carry_set_free(&carries);
    return status;
}

VaeStatus
vae_model_learn(VaeModel *model, VaeError *error)
{
    const bool has[2] = {model->info.has_decoder, model->info.has_encoder};
    for (int d = 0; d < 2; d++)
        for (int first = 0; has[d] && first < 2; first++) {
            const VaeStatus status =
                learn_program(model, d ? VAE_ENCODE : VAE_DECODE, first, error);
            if (status != VAE_OK)
                return status;
            if (d == 0)
                model->n_decoder = model->n_demands;
        }
    return VAE_OK;
}

static bool
same_dims(const VaeTensorInfo *t, const VaeDemand *d)
{
    return t->n_dims == d->n_dims &&
           memcmp(t->dims, d->dims, (size_t) d->n_dims * sizeof *d->dims) == 0;
}

/* taken: of every tensor of the file whether a demand has found it. */
static void
match_one(VaeModel *m, VaeDemand *d, bool *taken, VaeListing *missing,
          VaeListing *wrong)
{
    const VaeTensorInfo *t = vae_model_find(m, d->name);
    char renamed[256], is[96], should[96];
    if (!t) {
        const bool known = m->arch->rename(m, d->name, renamed);
        vae_listing_add(missing, "%s", known ? renamed : d->name);
        return;
    }
    taken[t - vae_tensor_file_at(m->file, 0)] = true;
    d->found = *t;
    d->found.name = d->name;
    if (!same_dims(t, d))
        vae_listing_add(
            wrong, "%s is %s, expected %s", t->name,
            vae_dims_text(t->dims, t->n_dims, is, sizeof is),
            vae_dims_text(d->dims, d->n_dims, should, sizeof should));
    else if (!t->supported || t->type == VAE_TYPE_U8)
        vae_listing_add(wrong, "%s has type %s, expected F32, F16 or BF16",
                        t->name, t->type_name);
}

/* A second name for numbers that a demand has found, as PyTorch's files have
 * where two tensors share a storage. */
static bool
is_alias(const VaeModel *m, const VaeTensorInfo *t)
{
    for (size_t i = 0; i < m->n_demands; i++) {
        const VaeTensorInfo *found = &m->demands[i].found;
        if (found->offset == t->offset && found->bytes == t->bytes &&
            found->data == t->data && found->name != NULL)
            return true;
    }
    return false;
}

static void
list_extra(const VaeModel *m, const bool *taken, VaeListing *extra)
{
    for (size_t i = 0; i < vae_tensor_file_count(m->file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(m->file, i);
        if (!taken[i] && !is_alias(m, t))
            vae_listing_add(extra, "%s", t->name);
    }
}

VaeStatus
vae_model_match(VaeModel *m, VaeError *error)
{
    VaeListing missing = {0}, wrong = {0}, extra = {0};
    bool *taken = calloc(vae_tensor_file_count(m->file) + 1, sizeof *taken);
    if (!taken)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", m->path);
    for (size_t i = 0; i < m->n_demands; i++)
        match_one(m, &m->demands[i], taken, &missing, &wrong);
    list_extra(m, taken, &extra);
    free(taken);
    if (!missing.count && !wrong.count && !extra.count)
        return VAE_OK;
    char text[900];
    int used = snprintf(text, sizeof text,
                        "%s: the names are those of the %s VAE, but the "
                        "tensors are not:",
                        m->path, m->info.arch);
    const struct {
        const VaeListing *list;
        const char *what;
    } kinds[] = {{&missing, "missing"},
                 {&wrong, "of the wrong shape or type"},
                 {&extra, "not part of it"}};
    int listed = 0;
    for (int k = 0; k < 3; k++)
        if (kinds[k].list->count && used < (int) sizeof text)
            used += snprintf(text + used, sizeof text - (size_t) used,
                             "%s %d %s (%s%s)", listed++ ? ";" : "",
                             kinds[k].list->count, kinds[k].what,
                             kinds[k].list->text,
                             kinds[k].list->count > VAE_LISTED ? ", ..." : "");
    return vae_fail(error, VAE_ERR_MODEL, "%s", text);
}
