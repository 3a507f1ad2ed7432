/*
 * dnnl.c: see dnnl.h. dnnl_v2.h and dnnl_v3.h have the calls that differ
 * between oneDNN 2 and 3.
 */
#include <assert.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dnnl.h"

static_assert(VAE_DNNL_OK == (int) dnnl_success, "success");
static_assert(VAE_DNNL_NO_MEMORY == (int) dnnl_out_of_memory, "out of memory");

/* Arguments for the description of a convolution. */
typedef struct ConvArgs {
    const VaeDnnlLayout *x, *weights, *bias, *y;
    const dnnl_dim_t *stride, *begin, *end;
} ConvArgs;

/* Held while a convolution is described. oneDNN 2.6 uses static variables for
 * this, so two threads would mix their values. */
static pthread_mutex_t describing = PTHREAD_MUTEX_INITIALIZER;

static bool
begins_with(const_dnnl_primitive_desc_t pd, const char *prefix)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) ==
               dnnl_success &&
           name && strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Implementations to skip, and implementations to choose. */
typedef struct Impls {
    const char *avoid, *only; /* beginnings of names; NULL: none, all */
} Impls;

static bool
is_unwanted(const_dnnl_primitive_desc_t pd, Impls impls)
{
    return (impls.avoid && begins_with(pd, impls.avoid)) ||
           (impls.only && !begins_with(pd, impls.only));
}

#if DNNL_VERSION_MAJOR >= 3
#include "dnnl_v3.h"
#else
#include "dnnl_v2.h"
#endif

/* ------------------------------------------------------------------ */

VaeDnnlStatus
vae_dnnl_open(VaeDnnl *out)
{
    dnnl_engine_t engine = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t s = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (s == dnnl_success)
        s = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    *out = (VaeDnnl){.engine = engine, .stream = stream};
    return (VaeDnnlStatus) s;
}

VaeDnnlStatus
vae_dnnl_wait(const VaeDnnl *dnnl)
{
    return (VaeDnnlStatus) dnnl_stream_wait(dnnl->stream);
}

/* ------------------------------------------------------------------ */
/* Layouts.                                                            */

static dnnl_data_type_t
type_of(VaeType type)
{
    return type == VAE_TYPE_BF16  ? dnnl_bf16
           : type == VAE_TYPE_F16 ? dnnl_f16
           : type == VAE_TYPE_U8  ? dnnl_u8
                                  : dnnl_f32;
}

VaeDnnlStatus
vae_dnnl_key(const VaeDnnlLayout *layout, VaeDnnlKey *out)
{
    const_dnnl_memory_desc_t md = md_of(layout);
    assert(md);
    memset(out, 0, sizeof *out);
    if (!is_blocked(md))
        return (VaeDnnlStatus) dnnl_unimplemented;
    fill_key(md, out);
    return VAE_DNNL_OK;
}

size_t
vae_dnnl_bytes(const VaeDnnlLayout *layout)
{
    return dnnl_memory_desc_get_size(md_of(layout));
}

VaeDnnlStatus
vae_dnnl_matrix(const VaeDnnlMatrix *m, VaeDnnlLayout **out)
{
    const dnnl_dims_t dims = {m->rows, m->columns};
    const dnnl_dims_t strides = {m->row_stride, m->column_stride};
    return (VaeDnnlStatus) layout_strides(2, dims, type_of(m->type), strides,
                                          out);
}

VaeDnnlStatus
vae_dnnl_part(const VaeDnnlLayout *layout, int first, int n,
              VaeDnnlLayout **out)
{
    VaeDnnlKey key;
    const VaeDnnlStatus s = vae_dnnl_key(layout, &key);
    if (s != VAE_DNNL_OK)
        return s;
    dnnl_dims_t dims = {0}, at = {first};
    memcpy(dims, key.dims, sizeof key.dims);
    dims[0] = n;
    return (VaeDnnlStatus) layout_part(layout, dims, at, out);
}

/* ------------------------------------------------------------------ */
/* Primitives.                                                         */

/* Maps each slot to an argument and a layout of a primitive. */
static const struct {
    int arg;
    dnnl_query_t query;
    int index;
} slots[VAE_DNNL_SLOTS] = {
    [VAE_DNNL_SRC] = {DNNL_ARG_SRC, dnnl_query_src_md, 0},
    [VAE_DNNL_WEIGHTS] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
    [VAE_DNNL_DST] = {DNNL_ARG_DST, dnnl_query_dst_md, 0},
    [VAE_DNNL_BIAS] = {DNNL_ARG_BIAS, dnnl_query_weights_md, 1},
    [VAE_DNNL_ADD] = {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1,
                      dnnl_query_dst_md, 0},
    [VAE_DNNL_SCRATCH] = {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, 0},
};

static_assert(DNNL_ARG_FROM == DNNL_ARG_SRC && DNNL_ARG_TO == DNNL_ARG_DST,
              "a reorder has the slots of other primitives");

#define SLOT(name) (1u << VAE_DNNL_##name)

static dnnl_status_t
make_memory(const VaeDnnl *dnnl, const VaeDnnlLayout *layout, void **out)
{
    return dnnl_memory_create((dnnl_memory_t *) out, md_of(layout),
                              dnnl->engine, DNNL_MEMORY_NONE);
}

/* Reads layouts of the arguments `has`, bits SLOT(), from a described
 * primitive. */
static dnnl_status_t
take_arguments(const VaeDnnl *dnnl, const_dnnl_primitive_desc_t pd,
               unsigned has, bool plan, VaeDnnlPrimitive *out)
{
    dnnl_status_t s = dnnl_success;
    for (int i = 0; i < VAE_DNNL_SLOTS && s == dnnl_success; i++) {
        if (!(has & 1u << i))
            continue;
        const_dnnl_memory_desc_t md =
            dnnl_primitive_desc_query_md(pd, slots[i].query, slots[i].index);
        s = md ? layout_copy(md, &out->layout[i]) : dnnl_invalid_arguments;
        if (s == dnnl_success && !plan)
            s = make_memory(dnnl, out->layout[i], &out->memory[i]);
    }
    return s;
}

/* Makes the primitive that pd describes, and destroys pd. s: status of the
 * description. */
static VaeDnnlStatus
finish(const VaeDnnl *dnnl, dnnl_status_t s, dnnl_primitive_desc_t pd,
       unsigned has, bool plan, VaeDnnlPrimitive *out)
{
    const char *impl = "?";
    if (s == dnnl_success) {
        dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl);
        snprintf(out->impl, sizeof out->impl, "%s", impl);
        s = take_arguments(dnnl, pd, has | SLOT(SCRATCH), plan, out);
    }
    if (s == dnnl_success) {
        out->scratch = vae_dnnl_bytes(out->layout[VAE_DNNL_SCRATCH]);
        if (!plan)
            s = dnnl_primitive_create((dnnl_primitive_t *) &out->primitive, pd);
    }
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return (VaeDnnlStatus) s;
}

static dnnl_status_t
make_attr(dnnl_primitive_attr_t *attr)
{
    const dnnl_status_t s = dnnl_primitive_attr_create(attr);
    return s == dnnl_success ? dnnl_primitive_attr_set_scratchpad_mode(
                                   *attr, dnnl_scratchpad_mode_user)
                             : s;
}

/* ------------------------------------------------------------------ */
/* Convolutions.                                                       */

typedef struct Conv {
    VaeDnnlLayout *x, *weights, *bias, *y, *add;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
} Conv;

/* The channels-last layout of one picture, or of a stack of pictures. */
static dnnl_status_t
channels_last(const VaeDnnlConv *c, VaeType type, int channels,
              const int size[3], VaeDnnlLayout **out)
{
    const dnnl_dims_t flat = {1, channels, size[1], size[2]};
    const dnnl_dims_t deep = {1, channels, size[0], size[1], size[2]};
    return c->flat ? layout_tag(4, flat, type_of(type), dnnl_nhwc, out)
                   : layout_tag(5, deep, type_of(type), dnnl_ndhwc, out);
}

static dnnl_status_t
conv_layouts(const VaeDnnlConv *c, Conv *out)
{
    const dnnl_dims_t flat = {c->y_c, c->x_c, c->k[1], c->k[2]};
    const dnnl_dims_t deep = {c->y_c, c->x_c, c->k[0], c->k[1], c->k[2]};
    const dnnl_dims_t vector = {c->y_c};
    dnnl_status_t s = channels_last(c, c->x_type, c->x_c, c->x, &out->x);
    if (s == dnnl_success)
        s = channels_last(c, c->y_type, c->y_c, c->y, &out->y);
    if (s == dnnl_success && c->add_slot)
        s = channels_last(c, c->add_type, c->y_c, c->y, &out->add);
    if (s == dnnl_success && !c->weights)
        s = layout_tag(c->flat ? 4 : 5, c->flat ? flat : deep,
                       type_of(c->x_type), dnnl_format_tag_any, &out->weights);
    if (s == dnnl_success && c->bias)
        s = layout_tag(1, vector, dnnl_f32, dnnl_a, &out->bias);
    return s;
}

static dnnl_status_t
conv_attr(const VaeDnnlConv *c, Conv *out)
{
    dnnl_status_t s = make_attr(&out->attr);
    if (s == dnnl_success)
        s = dnnl_post_ops_create(&out->ops);
    if (s == dnnl_success && c->add_dst)
        s = append_sum(out->ops);
    if (s == dnnl_success && c->add_slot)
        s = dnnl_post_ops_append_binary(out->ops, dnnl_binary_add,
                                        md_of(out->add));
    if (s == dnnl_success && c->relu)
        s = append_eltwise(out->ops, dnnl_eltwise_relu, 0);
    return s == dnnl_success
               ? dnnl_primitive_attr_set_post_ops(out->attr, out->ops)
               : s;
}

static void
conv_free(Conv *c)
{
    vae_dnnl_layout_free(&c->x);
    vae_dnnl_layout_free(&c->weights);
    vae_dnnl_layout_free(&c->bias);
    vae_dnnl_layout_free(&c->y);
    vae_dnnl_layout_free(&c->add);
    dnnl_post_ops_destroy(c->ops);
    dnnl_primitive_attr_destroy(c->attr);
}

static VaeDnnlStatus
make_conv(const VaeDnnl *dnnl, const VaeDnnlConv *c, bool plan,
          VaeDnnlPrimitive *out)
{
    const int skip = c->flat ? 1 : 0;
    dnnl_dims_t stride = {0}, begin = {0}, end = {0};
    for (int i = skip; i < 3; i++) {
        stride[i - skip] = c->stride[i];
        begin[i - skip] = c->begin[i];
        end[i - skip] = c->end[i];
    }
    Conv own = {0};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t s = conv_layouts(c, &own);
    if (s == dnnl_success)
        s = conv_attr(c, &own);
    if (s == dnnl_success) {
        const ConvArgs args = {own.x,    c->weights ? c->weights : own.weights,
                               own.bias, own.y,
                               stride,   begin,
                               end};
        pthread_mutex_lock(&describing);
        s = describe_conv(dnnl->engine, &args, own.attr,
                          (Impls){c->avoid, c->only}, &pd);
        pthread_mutex_unlock(&describing);
    }
    conv_free(&own);
    return finish(dnnl, s, pd,
                  SLOT(SRC) | SLOT(WEIGHTS) | SLOT(DST) |
                      (c->bias ? SLOT(BIAS) : 0) |
                      (c->add_slot ? SLOT(ADD) : 0),
                  plan, out);
}

/* Two plans are equal if their keys are equal byte for byte. */
typedef struct ConvKey {
    int32_t threads, flat, x_type, y_type, add_type, x_c, y_c;
    int32_t bias, add_slot, add_dst, relu, sizes[6][3], zero;
    char avoid[40], only[40];
    VaeDnnlKey weights;
} ConvKey;

typedef struct VaeDnnlPlanned {
    ConvKey key;
    VaeDnnlStatus status;
    VaeDnnlPrimitive plan;
    struct VaeDnnlPlanned *next;
} VaeDnnlPlanned;

static VaeDnnlStatus
conv_key(const VaeDnnlConv *c, ConvKey *out)
{
    const int *sizes[6] = {c->x, c->y, c->k, c->stride, c->begin, c->end};
    memset(out, 0, sizeof *out);
    out->threads = omp_get_max_threads();
    out->flat = c->flat;
    out->x_type = (int32_t) c->x_type;
    out->y_type = (int32_t) c->y_type;
    out->add_type = (int32_t) c->add_type;
    out->x_c = c->x_c;
    out->y_c = c->y_c;
    out->bias = c->bias;
    out->add_slot = c->add_slot;
    out->add_dst = c->add_dst;
    out->relu = c->relu;
    for (int i = 0; i < 6; i++)
        memcpy(out->sizes[i], sizes[i], sizeof out->sizes[i]);
    snprintf(out->avoid, sizeof out->avoid, "%s", c->avoid ? c->avoid : "");
    snprintf(out->only, sizeof out->only, "%s", c->only ? c->only : "");
    return c->weights ? vae_dnnl_key(c->weights, &out->weights) : VAE_DNNL_OK;
}

static VaeDnnlStatus
copy_plan(const VaeDnnlPlanned *from, VaeDnnlPrimitive *out)
{
    dnnl_status_t s = (dnnl_status_t) from->status;
    out->scratch = from->plan.scratch;
    memcpy(out->impl, from->plan.impl, sizeof out->impl);
    for (int i = 0; i < VAE_DNNL_SLOTS && s == dnnl_success; i++)
        if (from->plan.layout[i])
            s = layout_copy(md_of(from->plan.layout[i]), &out->layout[i]);
    return (VaeDnnlStatus) s;
}

static void
planned_free(VaeDnnlPlanned *planned)
{
    vae_dnnl_free(&planned->plan);
    free(planned);
}

static VaeDnnlStatus
plan_conv(VaeDnnl *dnnl, const VaeDnnlConv *c, VaeDnnlPrimitive *out)
{
    ConvKey key;
    if (conv_key(c, &key) != VAE_DNNL_OK)
        return make_conv(dnnl, c, true, out);
    VaeDnnlPlanned *p = dnnl->planned;
    while (p && memcmp(&p->key, &key, sizeof key) != 0)
        p = p->next;
    if (p)
        return copy_plan(p, out);
    p = calloc(1, sizeof *p);
    if (!p)
        return VAE_DNNL_NO_MEMORY;
    memcpy(&p->key, &key, sizeof key);
    p->status = make_conv(dnnl, c, true, &p->plan);
    if (p->status == VAE_DNNL_NO_MEMORY) {
        planned_free(p);
        return VAE_DNNL_NO_MEMORY;
    }
    p->next = dnnl->planned;
    dnnl->planned = p;
    dnnl->n_planned++;
    return copy_plan(p, out);
}

VaeDnnlStatus
vae_dnnl_conv(VaeDnnl *dnnl, const VaeDnnlConv *c, bool plan,
              VaeDnnlPrimitive *out)
{
    return plan ? plan_conv(dnnl, c, out) : make_conv(dnnl, c, false, out);
}

/* ------------------------------------------------------------------ */
/* The other primitives.                                               */

static dnnl_status_t
dense(int rows, int columns, VaeType type, VaeDnnlLayout **out)
{
    return (dnnl_status_t) vae_dnnl_matrix(
        &(VaeDnnlMatrix){type, rows, columns, columns, 1}, out);
}

static dnnl_status_t
product_attr(float scale, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t s = make_attr(out);
    if (s != dnnl_success || scale == 1)
        return s;
    s = dnnl_post_ops_create(&ops);
    if (s == dnnl_success)
        s = append_eltwise(ops, dnnl_eltwise_linear, scale);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_post_ops(*out, ops);
    dnnl_post_ops_destroy(ops);
    return s;
}

VaeDnnlStatus
vae_dnnl_product(VaeDnnl *dnnl, const VaeDnnlProduct *p, bool plan,
                 VaeDnnlPrimitive *out)
{
    const dnnl_dims_t dims = {p->k, p->n};
    VaeDnnlLayout *a = NULL, *b = NULL, *y = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t s = dense(p->m, p->k, p->type, &a);
    if (s == dnnl_success)
        s = layout_tag(2, dims, type_of(p->type), dnnl_format_tag_any, &b);
    if (s == dnnl_success)
        s = dense(p->m, p->n, p->dst_type, &y);
    if (s == dnnl_success)
        s = product_attr(p->scale, &attr);
    if (s == dnnl_success)
        s = describe_product(dnnl->engine, a, b, y, attr, &pd);
    vae_dnnl_layout_free(&a);
    vae_dnnl_layout_free(&b);
    vae_dnnl_layout_free(&y);
    dnnl_primitive_attr_destroy(attr);
    return finish(dnnl, s, pd, SLOT(SRC) | SLOT(WEIGHTS) | SLOT(DST), plan,
                  out);
}

VaeDnnlStatus
vae_dnnl_softmax(VaeDnnl *dnnl, int rows, int columns, VaeType type, bool plan,
                 VaeDnnlPrimitive *out)
{
    VaeDnnlLayout *x = NULL, *y = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t s = dense(rows, columns, VAE_TYPE_F32, &x);
    if (s == dnnl_success)
        s = dense(rows, columns, type, &y);
    if (s == dnnl_success)
        s = make_attr(&attr);
    if (s == dnnl_success)
        s = describe_softmax(dnnl->engine, x, y, attr, &pd);
    vae_dnnl_layout_free(&x);
    vae_dnnl_layout_free(&y);
    dnnl_primitive_attr_destroy(attr);
    return finish(dnnl, s, pd, SLOT(SRC) | SLOT(DST), plan, out);
}

VaeDnnlStatus
vae_dnnl_reorder(VaeDnnl *dnnl, const VaeDnnlLayout *src,
                 const VaeDnnlLayout *dst, bool plan, VaeDnnlPrimitive *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t s = make_attr(&attr);
    if (s == dnnl_success)
        s = dnnl_reorder_primitive_desc_create(&pd, md_of(src), dnnl->engine,
                                               md_of(dst), dnnl->engine, attr);
    dnnl_primitive_attr_destroy(attr);
    return finish(dnnl, s, pd, SLOT(SRC) | SLOT(DST), plan, out);
}

VaeDnnlStatus
vae_dnnl_reorder_plain(VaeDnnl *dnnl, VaeType type, const VaeDnnlLayout *dst,
                       bool plan, VaeDnnlPrimitive *out)
{
    VaeDnnlKey key;
    VaeDnnlLayout *src = NULL;
    dnnl_dims_t dims = {0}, strides = {0};
    VaeDnnlStatus s = vae_dnnl_key(dst, &key);
    if (s != VAE_DNNL_OK)
        return s;
    for (int i = key.n - 1; i >= 0; i--) {
        dims[i] = key.dims[i];
        strides[i] = i == key.n - 1 ? 1 : strides[i + 1] * dims[i + 1];
    }
    s = (VaeDnnlStatus) layout_strides(key.n, dims, type_of(type), strides,
                                       &src);
    if (s == VAE_DNNL_OK)
        s = vae_dnnl_reorder(dnnl, src, dst, plan, out);
    vae_dnnl_layout_free(&src);
    return s;
}

/* ------------------------------------------------------------------ */

VaeDnnlStatus
vae_dnnl_share(VaeDnnl *dnnl, const VaeDnnlPrimitive *p, VaeDnnlPrimitive *out)
{
    dnnl_status_t s = dnnl_success;
    *out = (VaeDnnlPrimitive){.primitive = p->primitive, .borrowed = true};
    for (int i = 0; i < VAE_DNNL_SLOTS && s == dnnl_success; i++)
        if (p->layout[i])
            s = make_memory(dnnl, p->layout[i], &out->memory[i]);
    return (VaeDnnlStatus) s;
}

void
vae_dnnl_free(VaeDnnlPrimitive *p)
{
    for (int i = 0; i < VAE_DNNL_SLOTS; i++) {
        dnnl_memory_destroy(p->memory[i]);
        vae_dnnl_layout_free(&p->layout[i]);
    }
    if (!p->borrowed)
        dnnl_primitive_destroy(p->primitive);
    *p = (VaeDnnlPrimitive){0};
}

VaeDnnlStatus
vae_dnnl_set(VaeDnnlPrimitive *p, VaeDnnlSlot slot, const void *address)
{
    return p->memory[slot] ? (VaeDnnlStatus) dnnl_memory_set_data_handle(
                                 p->memory[slot], (void *) address)
                           : VAE_DNNL_OK;
}

VaeDnnlStatus
vae_dnnl_execute(const VaeDnnl *dnnl, const VaeDnnlPrimitive *p)
{
    dnnl_exec_arg_t args[VAE_DNNL_SLOTS];
    int n = 0;
    for (int i = 0; i < VAE_DNNL_SLOTS; i++)
        if (p->memory[i])
            args[n++] = (dnnl_exec_arg_t){slots[i].arg, p->memory[i]};
    return (VaeDnnlStatus) dnnl_primitive_execute(p->primitive, dnnl->stream, n,
                                                  args);
}

void
vae_dnnl_close(VaeDnnl *dnnl)
{
    while (dnnl->planned) {
        VaeDnnlPlanned *next = dnnl->planned->next;
        planned_free(dnnl->planned);
        dnnl->planned = next;
    }
    dnnl_stream_destroy(dnnl->stream);
    dnnl_engine_destroy(dnnl->engine);
    *dnnl = (VaeDnnl){0};
}
