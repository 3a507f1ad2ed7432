/*
 * dnnl_v3.h: the calls of oneDNN 3.x that differ in 2.x. Only dnnl.c includes
 * it. A layout is a memory descriptor of the library.
 */
static const_dnnl_memory_desc_t
md_of(const VaeDnnlLayout *layout)
{
    return (const_dnnl_memory_desc_t) layout;
}

static dnnl_status_t
layout_tag(int n, const dnnl_dims_t dims, dnnl_data_type_t type,
           dnnl_format_tag_t tag, VaeDnnlLayout **out)
{
    return dnnl_memory_desc_create_with_tag((dnnl_memory_desc_t *) out, n, dims,
                                            type, tag);
}

static dnnl_status_t
layout_strides(int n, const dnnl_dims_t dims, dnnl_data_type_t type,
               const dnnl_dims_t strides, VaeDnnlLayout **out)
{
    return dnnl_memory_desc_create_with_strides((dnnl_memory_desc_t *) out, n,
                                                dims, type, strides);
}

static dnnl_status_t
layout_part(const VaeDnnlLayout *from, const dnnl_dims_t dims,
            const dnnl_dims_t at, VaeDnnlLayout **out)
{
    return dnnl_memory_desc_create_submemory((dnnl_memory_desc_t *) out,
                                             md_of(from), dims, at);
}

static dnnl_status_t
layout_copy(const_dnnl_memory_desc_t md, VaeDnnlLayout **out)
{
    return dnnl_memory_desc_clone((dnnl_memory_desc_t *) out, md);
}

void
vae_dnnl_layout_free(VaeDnnlLayout **layout)
{
    if (*layout)
        dnnl_memory_desc_destroy((dnnl_memory_desc_t) *layout);
    *layout = NULL;
}

static void
copy_dims(const_dnnl_memory_desc_t md, dnnl_query_t what, int n, int64_t *out)
{
    const dnnl_dims_t *dims = NULL;
    if (dnnl_memory_desc_query(md, what, &dims) == dnnl_success && dims)
        memcpy(out, *dims, (size_t) n * sizeof *out);
}

static bool
is_blocked(const_dnnl_memory_desc_t md)
{
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind);
    return kind == dnnl_blocked;
}

static void
fill_key(const_dnnl_memory_desc_t md, VaeDnnlKey *key)
{
    dnnl_data_type_t type = dnnl_data_type_undef;
    dnnl_memory_desc_query(md, dnnl_query_data_type, &type);
    dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &key->n);
    dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &key->n_blocks);
    key->type = (int32_t) type;
    assert(key->n <= VAE_DNNL_DIMS && key->n_blocks <= 12);
    copy_dims(md, dnnl_query_dims, key->n, key->dims);
    copy_dims(md, dnnl_query_padded_dims, key->n, key->padded);
    copy_dims(md, dnnl_query_strides, key->n, key->strides);
    copy_dims(md, dnnl_query_inner_blks, key->n_blocks, key->block);
    copy_dims(md, dnnl_query_inner_idxs, key->n_blocks, key->index);
}

static dnnl_status_t
describe_conv(dnnl_engine_t engine, const ConvArgs *a,
              const_dnnl_primitive_attr_t attr, Impls impls,
              dnnl_primitive_desc_t *out)
{
    static const dnnl_dims_t dense = {0};
    dnnl_status_t s = dnnl_convolution_forward_primitive_desc_create(
        out, engine, dnnl_forward_inference, dnnl_convolution_direct,
        md_of(a->x), md_of(a->weights), md_of(a->bias), md_of(a->y), a->stride,
        dense, a->begin, a->end, attr);
    while (s == dnnl_success && is_unwanted(*out, impls))
        s = dnnl_primitive_desc_next_impl(*out);
    return s == dnnl_last_impl_reached ? dnnl_unimplemented : s;
}

static dnnl_status_t
describe_product(dnnl_engine_t engine, const VaeDnnlLayout *a,
                 const VaeDnnlLayout *b, const VaeDnnlLayout *y,
                 const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    return dnnl_matmul_primitive_desc_create(out, engine, md_of(a), md_of(b),
                                             NULL, md_of(y), attr);
}

static dnnl_status_t
describe_softmax(dnnl_engine_t engine, const VaeDnnlLayout *x,
                 const VaeDnnlLayout *y, const_dnnl_primitive_attr_t attr,
                 dnnl_primitive_desc_t *out)
{
    return dnnl_softmax_forward_primitive_desc_create(
        out, engine, dnnl_forward_inference, dnnl_softmax_accurate, md_of(x),
        md_of(y), 1, attr);
}

static dnnl_status_t
append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}

static dnnl_status_t
append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha)
{
    return dnnl_post_ops_append_eltwise(ops, kind, alpha, 0);
}
