/*
 * engines.c: the engines of cuDNN. A choice names one with its settings, as
 * text: "ENGINE KNOB=VALUE KNOB=VALUE ...".
 */
#include <stdio.h>
#include <string.h>

#include "cudnn_conv.h"

enum { MAX_KNOBS = 32 };

bool
vae_cudnn_read_choice(Desc config, Desc engine, VaeCudaChoice *out)
{
    VaeCudnnBag b = {0};
    Desc knobs[MAX_KNOBS];
    int64_t index = -1, n = 0, one;
    for (int i = 0; i < MAX_KNOBS; i++)
        knobs[i] = vae_cudnn_bag_new(&b, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    bool good =
        b.status == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                 CUDNN_TYPE_INT64, 1, &one,
                                 &index) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_KNOBS, &n,
                                 knobs) == CUDNN_STATUS_SUCCESS &&
        n <= MAX_KNOBS;
    size_t at = (size_t) snprintf(out->text, sizeof out->text, "%lld",
                                  (long long) index);
    for (int i = 0; good && i < n; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        int64_t value = 0;
        good = cudnnBackendGetAttribute(
                   knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                   CUDNN_TYPE_KNOB_TYPE, 1, &one, &type) == 0 &&
               cudnnBackendGetAttribute(knobs[i],
                                        CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                        CUDNN_TYPE_INT64, 1, &one, &value) == 0;
        at += (size_t) snprintf(out->text + at, sizeof out->text - at,
                                " %d=%lld", (int) type, (long long) value);
        good = good && at < sizeof out->text;
    }
    vae_cudnn_bag_free(&b);
    return good;
}

Desc
vae_cudnn_add_plan(VaeCudnnBag *b, const VaeCudaLibrary *c, Desc graph,
                   const char *text, Desc *engine)
{
    int used = 0;
    long long index = -1;
    sscanf(text, "%lld%n", &index, &used);
    const int64_t index64 = index;
    Desc e = vae_cudnn_bag_new(b, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    vae_cudnn_bag_set_desc(b, e, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    vae_cudnn_bag_set_ints(b, e, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1, &index64);
    if (c->device)
        vae_cudnn_bag_set_desc(b, e, CUDNN_ATTR_ENGINE_DEVICEPROP, c->device);
    vae_cudnn_bag_finalize(b, e, "use that engine");
    Desc knobs[MAX_KNOBS];
    int64_t n = 0;
    int type;
    long long value;
    text += used;
    while (n < MAX_KNOBS &&
           sscanf(text, " %d=%lld%n", &type, &value, &used) == 2) {
        const cudnnBackendKnobType_t knob = (cudnnBackendKnobType_t) type;
        const int64_t value64 = value;
        Desc k = vae_cudnn_bag_new(b, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        vae_cudnn_bag_set(b, k, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                          CUDNN_TYPE_KNOB_TYPE, 1, &knob);
        vae_cudnn_bag_set_ints(b, k, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1,
                               &value64);
        vae_cudnn_bag_finalize(b, k, "set the engine");
        knobs[n++] = k;
        text += used;
    }
    Desc config = vae_cudnn_bag_new(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    vae_cudnn_bag_set_desc(b, config, CUDNN_ATTR_ENGINECFG_ENGINE, e);
    if (n)
        vae_cudnn_bag_set(b, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, n, knobs);
    vae_cudnn_bag_finalize(b, config, "configure the engine");
    Desc plan = vae_cudnn_bag_new(b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    vae_cudnn_bag_set_desc(b, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                           config);
    if (c->handle)
        vae_cudnn_bag_set(b, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                          CUDNN_TYPE_HANDLE, 1, &c->handle);
    else
        vae_cudnn_bag_set_desc(b, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                               c->device);
    vae_cudnn_bag_finalize(b, plan, "make a plan of the convolution");
    *engine = e;
    return plan;
}

/* ------------------------------------------------------------------ */

bool
vae_cudnn_is_compiled(Desc engine)
{
    cudnnBackendBehaviorNote_t notes[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t n = 0;
    if (cudnnBackendGetAttribute(
            engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
            CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n, notes) != CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < n && i < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; i++)
        if (notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)
            return true;
    return false;
}

typedef struct Notes {
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n;
} Notes;

/* Gets the numerical notes of the engine; false if they cannot be read. */
static bool
get_notes(Desc engine, Notes *out)
{
    out->n = 0;
    const cudnnStatus_t s = cudnnBackendGetAttribute(
        engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &out->n, out->note);
    if (out->n > CUDNN_NUMERICAL_NOTE_TYPE_COUNT)
        out->n = CUDNN_NUMERICAL_NOTE_TYPE_COUNT;
    return s == CUDNN_STATUS_SUCCESS;
}

bool
vae_cudnn_has_note(Desc engine, cudnnBackendNumericalNote_t note)
{
    Notes notes;
    bool has = false;
    if (get_notes(engine, &notes))
        for (int64_t i = 0; i < notes.n; i++)
            has = has || notes.note[i] == note;
    return has;
}

bool
vae_cudnn_is_exact(Desc engine, const VaeCudaConvShape *s)
{
    Notes notes;
    if (!get_notes(engine, &notes))
        return false;
    const bool full = s->x_type == VAE_TYPE_F32 && !s->tf32;
    for (int64_t i = 0; i < notes.n; i++)
        switch (notes.note[i]) {
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
            if (full)
                return false;
            break;
        case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
            break;
        default: /* not deterministic, transforms, or fewer bits */
            return false;
        }
    return true;
}

/*
 * cuDNN does not always report that an engine splits sums. Then the settings
 * show it:
 *
 * On sm_90 the engines with CUDNN_KNOB_TYPE_WORKSPACE 0 split the sums of the
 * last, incomplete round of tiles among all multiprocessors. The size of this
 * round depends on the number of frames, and so does their workspace (3x3x3,
 * 384 channels of 104x60, bf16: 131 bytes for two frames, 2.1 MB for three, 131
 * for four).
 *
 * On an H200 (cuDNN 9.19) the engine of 1x1 convolutions, 39, chose its kernel
 * by the number of pixels: frames had other bytes among three frames than among
 * four, with workspace (2) and without (1). It is an engine with a limit of its
 * workspace and without a tile.
 *
 * On sm_100 a choice states into how many parts it splits a sum
 * (CUDNN_KNOB_TYPE_SPLIT_K_SLC). One part is the whole sum.
 */
bool
vae_cudnn_splits_sums(const VaeCudaChoice *choice)
{
    static const struct {
        int type;
        long long most;
    } knobs[] = {{CUDNN_KNOB_TYPE_SPLIT_K_BUF, 0},
                 {CUDNN_KNOB_TYPE_SPLIT_K_SLC, 1},
                 {CUDNN_KNOB_TYPE_SPLIT_P_SLC, 1},
                 {CUDNN_KNOB_TYPE_STREAM_K, 0}};
    const char *text = strchr(choice->text, ' ');
    int type, used;
    long long value;
    bool limit = false, tile = false;
    while (text && sscanf(text, " %d=%lld%n", &type, &value, &used) == 2) {
        if (type == CUDNN_KNOB_TYPE_WORKSPACE && value != 1)
            return true;
        limit = limit || type == CUDNN_KNOB_TYPE_WORKSPACE;
        tile = tile || type == CUDNN_KNOB_TYPE_TILE_SIZE;
        for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
            if (type == knobs[i].type && value > knobs[i].most)
                return true;
        text += used;
    }
    return limit && !tile;
}
