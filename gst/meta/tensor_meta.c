/*
 * tensor_meta.c: the only file here that includes gst/analytics.
 */
#include "tensor_meta.h"

#ifdef GST_VAE_HAVE_TENSOR_META

#include <string.h>

#include <gst/analytics/gsttensormeta.h>

#include "details.h"

#define TENSOR_ID "vae-latent"
#define MAX_DIMS 4

/* Type and shape of a tensor: as caps state it, or as found. */
typedef struct Shape {
    GstTensorDataType type;
    gboolean row_major, contiguous;
    gsize n_dims, dims[MAX_DIMS];
    gsize size; /* bytes */
} Shape;

/* Names in caps have no other characters. (transfer full) */
static gchar *
make_id(const GstVaeLatentInfo *info, const gchar *space)
{
    const gchar *name = info->space[0] ? info->space : space;
    gchar *id =
        name ? g_strconcat(TENSOR_ID "-", name, NULL) : g_strdup(TENSOR_ID);

    return g_strcanon(id, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-._+", '-');
}

static GstTensorDataType
data_type(VaeType type)
{
    switch (type) {
    case VAE_TYPE_F16:
        return GST_TENSOR_DATA_TYPE_FLOAT16;
    case VAE_TYPE_BF16:
        return GST_TENSOR_DATA_TYPE_BFLOAT16;
    default:
        return GST_TENSOR_DATA_TYPE_FLOAT32;
    }
}

static Shape
expected_shape(const GstVaeLatentInfo *info)
{
    Shape shape = {.type = data_type(info->type),
                   .row_major = TRUE,
                   .contiguous = TRUE,
                   .size = gst_vae_latent_info_size(info)};

    if (info->layout == GST_VAE_LATENT_TCHW)
        shape.dims[shape.n_dims++] = info->frames;
    shape.dims[shape.n_dims++] = info->channels;
    if (info->layout == GST_VAE_LATENT_CTHW)
        shape.dims[shape.n_dims++] = info->frames;
    shape.dims[shape.n_dims++] = info->latent_height;
    shape.dims[shape.n_dims++] = info->latent_width;
    return shape;
}

/* ------------------------------------------------------------------ */
/* Adding.                                                             */

/* The memory that a tensor of ours had from the start. */
static GQuark
own_quark(void)
{
    return g_quark_from_static_string("vae-tensor-memory");
}

void
gst_vae_tensor_meta_add(GstBuffer *buffer, const GstVaeLatentInfo *info,
                        const gchar *space)
{
    Shape shape = expected_shape(info);
    gchar *id = make_id(info, space);
    GstBuffer *data = gst_buffer_new();
    GstTensor **tensors = g_new(GstTensor *, 1);

    gst_buffer_append_memory(data, gst_buffer_get_all_memory(buffer));
    gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(data), own_quark(),
                              gst_buffer_get_memory(data, 0),
                              (GDestroyNotify) gst_memory_unref);
    tensors[0] = gst_tensor_new_simple(g_quark_from_string(id), shape.type,
                                       data, GST_TENSOR_DIM_ORDER_ROW_MAJOR,
                                       shape.n_dims, shape.dims);
    gst_tensor_meta_set(gst_buffer_add_tensor_meta(buffer), 1, tensors);
    g_free(id);
}

/* ------------------------------------------------------------------ */
/* Finding.                                                            */

/* Returns TRUE if the tensor has the data of its buffer. */
static gboolean
is_own(const GstTensor *tensor)
{
    gpointer memory;

    if (!tensor->data || gst_buffer_n_memory(tensor->data) != 1)
        return FALSE;
    memory = gst_mini_object_get_qdata(GST_MINI_OBJECT_CAST(tensor->data),
                                       own_quark());
    return memory && memory == gst_buffer_peek_memory(tensor->data, 0);
}

static const GstTensor *
find(GstBuffer *buffer, const gchar *id)
{
    const GstTensor *found = NULL;
    gpointer state = NULL;
    GstMeta *meta;

    while ((meta = gst_buffer_iterate_meta_filtered(buffer, &state,
                                                    GST_TENSOR_META_API_TYPE)))
        for (gsize i = 0; i < ((GstTensorMeta *) meta)->num_tensors; i++) {
            const GstTensor *tensor = ((GstTensorMeta *) meta)->tensors[i];
            const gchar *name = g_quark_to_string(tensor->id);

            if ((g_strcmp0(name, id) == 0 || g_strcmp0(name, TENSOR_ID) == 0) &&
                !is_own(tensor))
                found = tensor;
        }
    return found;
}

/* Models have a first dimension of 1 for the batch. */
static Shape
found_shape(const GstTensor *tensor, gsize expected_dims)
{
    Shape shape = {
        .type = tensor->data_type,
        .row_major = tensor->dims_order == GST_TENSOR_DIM_ORDER_ROW_MAJOR,
        .contiguous = tensor->layout == GST_TENSOR_LAYOUT_CONTIGUOUS,
        .size = tensor->data ? gst_buffer_get_size(tensor->data) : 0};
    gsize first = 0;

    while (tensor->num_dims - first > expected_dims && tensor->dims[first] == 1)
        first++;
    shape.n_dims = tensor->num_dims - first;
    memcpy(shape.dims, tensor->dims + first,
           MIN(shape.n_dims, MAX_DIMS) * sizeof shape.dims[0]);
    return shape;
}

static gboolean
is_same(const Shape *a, const Shape *b)
{
    return a->type == b->type && a->row_major == b->row_major &&
           a->contiguous == b->contiguous && a->size == b->size &&
           a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, a->n_dims * sizeof a->dims[0]) == 0;
}

/* "float32 [16, 60, 104], row-major, contiguous, 399360 bytes". (transfer full)
 */
static gchar *
shape_text(const Shape *shape)
{
    GString *text = g_string_new(NULL);

    if (shape->type == GST_TENSOR_DATA_TYPE_FLOAT32)
        g_string_append(text, "float32");
    else if (shape->type == GST_TENSOR_DATA_TYPE_FLOAT16)
        g_string_append(text, "float16");
    else if (shape->type == GST_TENSOR_DATA_TYPE_BFLOAT16)
        g_string_append(text, "bfloat16");
    else
        g_string_append_printf(text, "data type %d", (gint) shape->type);
    g_string_append(text, " [");
    for (gsize i = 0; i < MIN(shape->n_dims, MAX_DIMS); i++)
        g_string_append_printf(text, "%s%" G_GSIZE_FORMAT, i ? ", " : "",
                               shape->dims[i]);
    g_string_append_printf(text, "%s], %s, %s, %" G_GSIZE_FORMAT " bytes",
                           shape->n_dims > MAX_DIMS ? ", ..." : "",
                           shape->row_major ? "row-major" : "col-major",
                           shape->contiguous ? "contiguous" : "not contiguous",
                           shape->size);
    return g_string_free(text, FALSE);
}

static gboolean
fits(const GstTensor *tensor, const GstVaeLatentInfo *info, GError **error)
{
    const Shape expected = expected_shape(info);
    const Shape found = found_shape(tensor, expected.n_dims);
    gchar *a, *b;

    if (is_same(&found, &expected))
        return TRUE;
    a = shape_text(&found);
    b = shape_text(&expected);
    gst_vae_set_mismatch(
        error, (GstVaeMismatch){"tensor", a, b},
        "The tensor %s of a buffer is %s; expected %s by the caps",
        g_quark_to_string(tensor->id), a, b);
    g_free(b);
    g_free(a);
    return FALSE;
}

gboolean
gst_vae_tensor_meta_is_latent(const GstMeta *meta)
{
    const GstTensorMeta *tensors = (const GstTensorMeta *) meta;

    if (meta->info->api != GST_TENSOR_META_API_TYPE)
        return FALSE;
    for (gsize i = 0; i < tensors->num_tensors; i++)
        if (g_str_has_prefix(g_quark_to_string(tensors->tensors[i]->id),
                             TENSOR_ID))
            return TRUE;
    return FALSE;
}

gboolean
gst_vae_tensor_meta_read(GstBuffer *buffer, const GstVaeLatentInfo *info,
                         const gchar *space, GstBuffer **data, GError **error)
{
    gchar *id = make_id(info, space);
    const GstTensor *tensor = find(buffer, id);
    const gboolean ok = !tensor || fits(tensor, info, error);

    *data = tensor && ok ? tensor->data : NULL;
    g_free(id);
    return ok;
}

/* ------------------------------------------------------------------ */
/* Caps.                                                               */

#if GST_CHECK_VERSION(1, 28, 0)

/* The caps of the one tensor of the group. (transfer full) */
static GstCaps *
tensor_caps(const GstVaeLatentInfo *info, const gchar *id)
{
    const Shape shape = expected_shape(info);
    GstCaps *caps =
        gst_caps_new_simple("tensor/strided", "tensor-id", G_TYPE_STRING, id,
                            "dims-order", G_TYPE_STRING, "row-major", "type",
                            G_TYPE_STRING, vae_type_name(info->type), NULL);
    GValue dims = G_VALUE_INIT, dim = G_VALUE_INIT;

    g_value_init(&dims, GST_TYPE_ARRAY);
    g_value_init(&dim, G_TYPE_INT);
    for (gsize i = 0; i < shape.n_dims; i++) {
        g_value_set_int(&dim, (gint) shape.dims[i]);
        gst_value_array_append_value(&dims, &dim);
    }
    gst_caps_set_value(caps, "dims", &dims);
    g_value_unset(&dim);
    g_value_unset(&dims);
    return caps;
}

void
gst_vae_tensor_meta_describe(GstCaps *caps, const GstVaeLatentInfo *info)
{
    gchar *id = make_id(info, NULL);
    GstStructure *groups = gst_structure_new_empty("tensorgroups");
    GstCaps *tensor = tensor_caps(info, id);
    GValue group = G_VALUE_INIT, value = G_VALUE_INIT;

    g_value_init(&group, GST_TYPE_UNIQUE_LIST);
    g_value_init(&value, GST_TYPE_CAPS);
    gst_value_set_caps(&value, tensor);
    gst_value_unique_list_append_and_take_value(&group, &value);
    gst_structure_take_value(groups, id, &group);
    gst_structure_set(gst_caps_get_structure(caps, 0), "tensors",
                      GST_TYPE_STRUCTURE, groups, NULL);
    gst_structure_free(groups);
    gst_caps_unref(tensor);
    g_free(id);
}

#endif

#else

gboolean
gst_vae_tensor_meta_is_latent(const GstMeta *meta)
{
    return FALSE;
}

void
gst_vae_tensor_meta_add(GstBuffer *buffer, const GstVaeLatentInfo *info,
                        const gchar *space)
{
}

gboolean
gst_vae_tensor_meta_read(GstBuffer *buffer, const GstVaeLatentInfo *info,
                         const gchar *space, GstBuffer **data, GError **error)
{
    *data = NULL;
    return TRUE;
}

#endif

#if !defined GST_VAE_HAVE_TENSOR_META || !GST_CHECK_VERSION(1, 28, 0)

void
gst_vae_tensor_meta_describe(GstCaps *caps, const GstVaeLatentInfo *info)
{
}

#endif
