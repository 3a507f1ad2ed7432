/*
 * autotune.c: makes the choice of each layer: the library's first suggestion
 * that the device runs, or the fastest choice, timed now or in an earlier
 * process.
 */
#include <stdio.h>
#include <string.h>

#include "gpu.h"

/* ------------------------------------------------------------------ */

static VaeCudaLayer *
find_layer(VaeBackend *cuda, const char *name)
{
    for (int i = 0; i < cuda->n_layers; i++)
        if (strcmp(cuda->layers[i].name, name) == 0)
            return &cuda->layers[i];
    if (cuda->n_layers == cuda->layers_room) {
        const int room = cuda->layers_room ? 2 * cuda->layers_room : 64;
        VaeCudaLayer *bigger = vae_mem_alloc((size_t) room * sizeof *bigger);
        if (!bigger)
            return NULL;
        if (cuda->n_layers)
            memcpy(bigger, cuda->layers,
                   (size_t) cuda->n_layers * sizeof *bigger);
        vae_mem_free(cuda->layers);
        cuda->layers = bigger;
        cuda->layers_room = room;
    }
    VaeCudaLayer *l = &cuda->layers[cuda->n_layers++];
    *l = (VaeCudaLayer){0};
    strcpy(l->name, name);
    return l;
}

/* Opens the store at its first use. NULL if the backend is deterministic, the
 * choice is forced, or there is no memory. */
static VaeCudaStore *
get_store(VaeBackend *cuda)
{
    char key[VAE_CUDA_KEY];
    const VaeRtDevice *d = &cuda->device;
    if (cuda->params.deterministic || vae_cuda_conv_is_forced() || cuda->store)
        return cuda->store;
    snprintf(key, sizeof key,
             "%s, compute capability %d.%d, %.0f MiB, driver %d, %s", d->name,
             d->capability / 10, d->capability % 10,
             (double) d->memory / 1048576, d->driver,
             vae_cuda_convs_name(cuda->convs));
    cuda->store = vae_cuda_store_open(key, &cuda->params.log);
    return cuda->store;
}

/* Uses the choice of another open stream of the same kind. */
static bool
use_shared(const VaeBackend *cuda, VaeCudaLayer *l)
{
    if (vae_cuda_conv_is_forced() ||
        !vae_cuda_get_chosen(cuda, l->name, &l->choice))
        return false;
    l->timed = true;
    return true;
}

/* Uses the stored choice of an earlier process, if its plan can still be made.
 */
static bool
use_stored(VaeBackend *cuda, const VaeCudaConvShape *shape, VaeCudaLayer *l)
{
    VaeError error;
    VaeCudaConv *conv = NULL;
    VaeCudaTimed timed;
    const VaeCudaStore *store = get_store(cuda);
    if (!store || !vae_cuda_store_find(store, l->name,
                                       vae_cuda_code_begin() >> 20, &timed))
        return false;
    bool good = vae_cuda_conv_new(cuda->convs, shape, &timed.choice, &conv,
                                  &error) == VAE_OK;
    vae_cuda_conv_free(&conv);
    for (int i = 0; i < VAE_CUDA_SOME_ROWS && good; i++) {
        const VaeCudaConvShape rows = vae_cuda_some_rows(shape, i);
        good = vae_cuda_conv_new(cuda->convs, &rows, &timed.choice, &conv,
                                 &error) == VAE_OK;
        vae_cuda_conv_free(&conv);
    }
    if (good) {
        l->choice = timed.choice;
        l->timed = true;
        vae_cuda_set_chosen(cuda, l->name, &l->choice);
        vae_cuda_code_need(cuda, l->name, timed.code_mib << 20);
    } else
        vae_log(&cuda->params.log, "%s: \"%s\" of %s cannot be made, %s",
                l->name, timed.choice.text, vae_cuda_store_path(store),
                error.message);
    return good;
}

/* Removes the choices that ended a process, but keeps at least one. Returns
 * their number. */
static int
leave_out_killed(VaeBackend *cuda, const VaeCudaLayer *l,
                 VaeCudaChoice *choices, int n)
{
    int kept = 0;
    const VaeCudaStore *store = get_store(cuda);
    for (int i = 0; i < n; i++)
        if (!store || !vae_cuda_store_killed(store, l->name, &choices[i]))
            choices[kept++] = choices[i];
    return kept ? kept : 1;
}

/* The index of the fastest choice; -1: none can be timed. */
static int
time_choices(VaeBackend *cuda, const char *layer, const VaeCudaConvShape *timed,
             const VaeCudaChoice *choices, int n, VaeCudaTiming *t)
{
    int i = vae_cuda_fastest(cuda, layer, timed, choices, n, t);
    if (i >= 0 && !t->steady) /* disturbed, perhaps only for a moment */
        i = vae_cuda_fastest(cuda, layer, timed, choices, n, t);
    return i;
}

static void
choose_fastest(VaeBackend *cuda, const VaeCudaConvShape *shape,
               VaeCudaChoice *choices, int n, VaeCudaLayer *l)
{
    VaeCudaTiming t = {.steady = true}; /* used if there is only one choice */
    VaeCudaStore *store = get_store(cuda);
    VaeCudaConvShape timed = *shape;
    const uint64_t free = vae_cuda_code_begin();
    n = leave_out_killed(cuda, l, choices, n);
    timed.t = vae_cuda_timed_frames(shape);
    const int i =
        n > 1 ? time_choices(cuda, l->name, &timed, choices, n, &t) : 0;
    const uint64_t code = vae_cuda_code_end(cuda, free);
    vae_cuda_code_need(cuda, l->name, code);
    l->choice = choices[i < 0 ? 0 : i];
    l->timed = true; /* even on failure: it would fail again */
    if (i < 0) {
        vae_log(&cuda->params.log, "%s: none of %d ways could be timed, by %s",
                l->name, n, l->choice.text);
        return;
    }
    if (n > 1)
        vae_cuda_set_loaded(cuda, l->name, &l->choice);
    if (!vae_cuda_conv_is_forced())
        vae_cuda_set_chosen(cuda, l->name, &l->choice);
    vae_log(&cuda->params.log, "%s: by %s, %.3f ms, fastest of %d%s", l->name,
            l->choice.text, (double) t.ms, n,
            t.steady ? ""
                     : "; the times vary, so the next start takes them again");
    if (store && t.steady)
        vae_cuda_store_put(store, l->name,
                           &(VaeCudaTimed){.choice = l->choice,
                                           .ms = t.ms,
                                           .free_mib = free >> 20,
                                           .code_mib = (code + 0xfffff) >> 20});
}

/* A search for the first choice of a layer that runs. */
typedef struct Search {
    VaeBackend *cuda;
    const VaeCudaConvShape *shape;
    const char *layer;
    VaeCudaChoice *choices; /* room for VAE_CUDA_MAX_CHOICES */
    int first;              /* the index found; -1: no choice runs */
} Search;

/* Searches among at most `most` choices. */
static VaeStatus
search_first(Search *s, int most, VaeError *error)
{
    int n = 0;
    const VaeCudaConvShape few = vae_cuda_few_rows(s->shape, s->shape->k);
    const VaeStatus status = vae_cuda_conv_choices(s->cuda->convs, s->shape,
                                                   s->choices, most, &n, error);
    s->first = 0;
    if (status != VAE_OK ||
        vae_cuda_is_loaded(s->cuda, s->layer, &s->choices[0]))
        return status; /* it ran for another stream */
    return vae_cuda_first_that_runs(s->cuda, &few, s->choices, n, &s->first,
                                    error);
}

/* The choice of a deterministic stream. The first suggestion nearly always
 * runs, so the others are only searched if it does not. */
static VaeStatus
choose_first(VaeBackend *cuda, const VaeCudaConvShape *shape,
             VaeCudaChoice *choices, VaeCudaLayer *l, VaeError *error)
{
    Search s = {
        .cuda = cuda, .shape = shape, .layer = l->name, .choices = choices};
    const uint64_t free = vae_cuda_code_begin();
    VaeStatus status = search_first(&s, 1, error);
    if (status == VAE_OK && s.first < 0)
        status = search_first(&s, VAE_CUDA_MAX_CHOICES, error);
    vae_cuda_code_need(cuda, l->name, vae_cuda_code_end(cuda, free));
    if (status != VAE_OK)
        return status;
    l->choice = choices[s.first < 0 ? 0 : s.first];
    l->timed = true;
    if (s.first >= 0)
        vae_cuda_set_loaded(cuda, l->name, &l->choice);
    if (s.first >= 0 && !vae_cuda_conv_is_forced())
        vae_cuda_set_chosen(cuda, l->name, &l->choice);
    return VAE_OK;
}

/* Searches the choices of the layer and selects one. run: it may run them. */
static VaeStatus
choose(VaeBackend *cuda, const VaeCudaConvShape *shape, bool run,
       VaeCudaLayer *l, VaeError *error)
{
    int n = 0;
    const int most = run ? VAE_CUDA_MAX_CHOICES : 1;
    VaeCudaChoice *choices =
        vae_mem_alloc((size_t) most * sizeof(VaeCudaChoice));
    if (!choices)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    VaeStatus status;
    if (run && cuda->params.deterministic)
        status = choose_first(cuda, shape, choices, l, error);
    else
        status =
            vae_cuda_conv_choices(cuda->convs, shape, choices, most, &n, error);
    if (n > 0 && run)
        choose_fastest(cuda, shape, choices, n, l);
    else if (n > 0)
        l->choice = choices[0];
    vae_mem_free(choices);
    return status;
}

/* A line for the log, which is written after the timing lock is released: the
 * log function may wait for another stream, which may wait for that lock. */
typedef struct Line {
    struct Line *next;
    char text[];
} Line;

static void
keep_line(void *user, const char *text)
{
    Line **at = user, *l = vae_mem_alloc(sizeof *l + strlen(text) + 1);
    if (!l) /* the log lacks the line */
        return;
    l->next = NULL;
    strcpy(l->text, text);
    while (*at)
        at = &(*at)->next;
    *at = l;
}

/* Chooses under the timing lock, and logs afterwards. */
static VaeStatus
choose_alone(VaeBackend *cuda, const VaeCudaConvShape *shape, bool run,
             VaeCudaLayer *l, VaeError *error)
{
    Line *lines = NULL;
    VaeStatus status = VAE_OK;
    const VaeOpeningMark begin = vae_opening_begin(cuda->params.opening);
    const VaeLog log = cuda->params.log;
    if (log.func)
        cuda->params.log = (VaeLog){keep_line, &lines};
    vae_cuda_timing_begin(cuda);
    /* Another stream may have chosen while this one waited. */
    if (!use_shared(cuda, l) && !use_stored(cuda, shape, l))
        status = choose(cuda, shape, run, l, error);
    vae_cuda_timing_end(cuda);
    vae_opening_end(cuda->params.opening, VAE_OPENING_CHOICES, begin);
    cuda->params.log = log;
    while (lines) {
        Line *next = lines->next;
        vae_log(&log, "%s", lines->text);
        vae_mem_free(lines);
        lines = next;
    }
    return status;
}

VaeStatus
vae_cuda_layer_choice(VaeBackend *cuda, const VaeCudaConvShape *shape, bool run,
                      VaeCudaChoice *out, VaeError *error)
{
    char name[VAE_CUDA_LAYER_NAME];
    const VaeCudaConvShape s = vae_cuda_layer_shape(shape);
    VaeStatus status = VAE_OK;
    vae_cuda_layer_name(&s, name);
    VaeCudaLayer *l = find_layer(cuda, name);
    if (!l)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    const bool needed = !l->choice.text[0] || (run && !l->timed);
    if (needed && !use_shared(cuda, l))
        status = choose_alone(cuda, &s, run, l, error);
    *out = l->choice;
    return status;
}

/* Does not search, because the program may be too large for the device. NULL:
 * there is no choice yet. */
static const VaeCudaChoice *
known_choice(const VaeBackend *cuda, const VaeOp *conv)
{
    char name[VAE_CUDA_LAYER_NAME];
    const VaeCudaConvShape shape =
        vae_cuda_shape(conv, cuda->params.precision == VAE_PRECISION_TF32);
    const VaeCudaConvShape layer = vae_cuda_layer_shape(&shape);
    vae_cuda_layer_name(&layer, name);
    for (int i = 0; i < cuda->n_layers; i++)
        if (strcmp(cuda->layers[i].name, name) == 0)
            return &cuda->layers[i].choice;
    return NULL;
}

bool
vae_cuda_reads_carry(void *backend, const VaeOp *conv)
{
    const VaeCudaChoice *choice = known_choice(backend, conv);
    return choice && vae_cuda_choice_is_own(choice);
}

bool
vae_cuda_norms(void *backend, const VaeOp *conv)
{
    const VaeCudaChoice *choice = known_choice(backend, conv);
    return choice && vae_cuda_choice_norms(choice, conv->y->shape.c);
}

bool
vae_cuda_heads(void *backend, const VaeOp *conv)
{
    const VaeCudaChoice *choice = known_choice(backend, conv);
    return choice && vae_cuda_choice_is_own(choice) &&
           vae_conv_matrix_is_head(conv->x->shape.c, conv->y->shape.c,
                                   conv->conv.k);
}

void
vae_cuda_tune(VaeBackend *cuda, const VaeProgram *program)
{
    VaeError ignored; /* prepare() fails, too */
    VaeCudaChoice choice;
    for (int i = 0; i < program->n_ops; i++) {
        const VaeOp *op = &program->ops[i];
        if (op->kind != VAE_OP_CONV)
            continue;
        if (vae_backend_goes_on(&cuda->params, &ignored) != VAE_OK)
            break;
        const VaeCudaConvShape shape =
            vae_cuda_shape(op, cuda->params.precision == VAE_PRECISION_TF32);
        vae_cuda_layer_choice(cuda, &shape, !cuda->params.deterministic,
                              &choice, &ignored);
    }
    vae_cuda_layers_keep(cuda);
}

void
vae_cuda_layers_keep(VaeBackend *cuda)
{
    if (cuda->store)
        vae_cuda_store_save(cuda->store);
}
