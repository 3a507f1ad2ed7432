/*
 * dnnl_v2.h: the calls of oneDNN 2.6 to 2.x that differ in 3.x. Only dnnl.c
 * includes it. A layout is an own struct, which the library fills in. It is
 * allocated by malloc(), as in 3.x, and no memory plan counts it.
 */
typedef const dnnl_memory_desc_t *const_dnnl_memory_desc_t;

struct VaeDnnlLayout {
    dnnl_memory_desc_t md;
};

static const_dnnl_memory_desc_t
md_of(const VaeDnnlLayout *layout)
{
    return layout ? &layout->md : NULL;
}

static dnnl_status_t
layout_new(VaeDnnlLayout **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? dnnl_success : dnnl_out_of_memory;
}

void
vae_dnnl_layout_free(VaeDnnlLayout **layout)
{
    free(*layout);
    *layout = NULL;
}

/* Frees the layout if the library failed to fill it. */
static dnnl_status_t
filled(dnnl_status_t s, VaeDnnlLayout **layout)
{
    if (s != dnnl_success)
        vae_dnnl_layout_free(layout);
    return s;
}

static dnnl_status_t
layout_tag(int n, const dnnl_dims_t dims, dnnl_data_type_t type,
           dnnl_format_tag_t tag, VaeDnnlLayout **out)
{
    const dnnl_status_t s = layout_new(out);
    return s != dnnl_success ? s
                             : filled(dnnl_memory_desc_init_by_tag(
                                          &(*out)->md, n, dims, type, tag),
                                      out);
}

static dnnl_status_t
layout_strides(int n, const dnnl_dims_t dims, dnnl_data_type_t type,
               const dnnl_dims_t strides, VaeDnnlLayout **out)
{
    const dnnl_status_t s = layout_new(out);
    return s != dnnl_success ? s
                             : filled(dnnl_memory_desc_init_by_strides(
                                          &(*out)->md, n, dims, type, strides),
                                      out);
}

static dnnl_status_t
layout_part(const VaeDnnlLayout *from, const dnnl_dims_t dims,
            const dnnl_dims_t at, VaeDnnlLayout **out)
{
    const dnnl_status_t s = layout_new(out);
    return s != dnnl_success ? s
                             : filled(dnnl_memory_desc_init_submemory(
                                          &(*out)->md, &from->md, dims, at),
                                      out);
}

static dnnl_status_t
layout_copy(const_dnnl_memory_desc_t md, VaeDnnlLayout **out)
{
    const dnnl_status_t s = layout_new(out);
    if (s == dnnl_success)
        (*out)->md = *md;
    return s;
}

static bool
is_blocked(const_dnnl_memory_desc_t md)
{
    return md->format_kind == dnnl_blocked;
}

static void
fill_key(const_dnnl_memory_desc_t md, VaeDnnlKey *key)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    key->type = (int32_t) md->data_type;
    key->n = md->ndims;
    key->n_blocks = b->inner_nblks;
    assert(key->n <= VAE_DNNL_DIMS && key->n_blocks <= 12);
    for (int i = 0; i < key->n; i++) {
        key->dims[i] = md->dims[i];
        key->padded[i] = md->padded_dims[i];
        key->strides[i] = b->strides[i];
    }
    for (int i = 0; i < key->n_blocks; i++) {
        key->block[i] = b->inner_blks[i];
        key->index[i] = b->inner_idxs[i];
    }
}

/* Describes the first implementation that `impls` allows. */
static dnnl_status_t
describe(dnnl_engine_t engine, const void *op_desc,
         const_dnnl_primitive_attr_t attr, Impls impls,
         dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_iterator_t it = NULL;
    dnnl_status_t s =
        dnnl_primitive_desc_iterator_create(&it, op_desc, attr, engine, NULL);
    if (s != dnnl_success)
        return s;
    do {
        dnnl_primitive_desc_destroy(*out);
        *out = dnnl_primitive_desc_iterator_fetch(it);
        if (!*out || !is_unwanted(*out, impls))
            break;
        s = dnnl_primitive_desc_iterator_next(it);
    } while (s == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(it);
    if (s == dnnl_success && *out)
        return s;
    return s == dnnl_success || s == dnnl_iterator_ends ? dnnl_unimplemented
                                                        : s;
}

static dnnl_status_t
describe_conv(dnnl_engine_t engine, const ConvArgs *a,
              const_dnnl_primitive_attr_t attr, Impls impls,
              dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t desc;
    const dnnl_status_t s = dnnl_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, md_of(a->x),
        md_of(a->weights), md_of(a->bias), md_of(a->y), a->stride, a->begin,
        a->end);
    return s == dnnl_success ? describe(engine, &desc, attr, impls, out) : s;
}

static dnnl_status_t
describe_product(dnnl_engine_t engine, const VaeDnnlLayout *a,
                 const VaeDnnlLayout *b, const VaeDnnlLayout *y,
                 const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    dnnl_matmul_desc_t desc;
    const dnnl_status_t s =
        dnnl_matmul_desc_init(&desc, md_of(a), md_of(b), NULL, md_of(y));
    return s == dnnl_success ? describe(engine, &desc, attr, (Impls){0}, out)
                             : s;
}

static dnnl_status_t
describe_softmax(dnnl_engine_t engine, const VaeDnnlLayout *x,
                 const VaeDnnlLayout *y, const_dnnl_primitive_attr_t attr,
                 dnnl_primitive_desc_t *out)
{
    dnnl_softmax_v2_desc_t desc;
    const dnnl_status_t s = dnnl_softmax_v2_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_softmax_accurate, md_of(x),
        md_of(y), 1);
    return s == dnnl_success ? describe(engine, &desc, attr, (Impls){0}, out)
                             : s;
}

static dnnl_status_t
append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1);
}

static dnnl_status_t
append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha)
{
    return dnnl_post_ops_append_eltwise(ops, 1, kind, alpha, 0);
}
