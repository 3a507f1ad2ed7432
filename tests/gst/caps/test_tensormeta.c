/*
 * test_tensormeta.c: latents as GstTensorMeta, and the changes that other
 * elements may make to it. Skipped if the plugin was built without it.
 */
#include "vae_test.h"

#ifdef GST_VAE_HAVE_TENSOR_META

#include <glib/gstdio.h>
#include <gst/analytics/gsttensormeta.h>

#define LW 6
#define LH 4
#define ID "vae-latent-wan2.1"
#define LATENT_BYTES ((gsize) 4 * 16 * LH * LW)

/* ------------------------------------------------------------------ */
/* A clip through latentdemux, a queue and another element.            */

static gchar *clip;

/* Changes a writable latent. pad: where it happens. */
typedef void (*Edit)(GstPad *pad, GstBuffer *latent);

static void
finish(GstElement *pipeline)
{
    vae_test_play(pipeline);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

static GstPadProbeReturn
edit_one(GstPad *pad, GstPadProbeInfo *info, gpointer edit)
{
    GstBuffer *buffer = gst_buffer_make_writable(info->data);
    info->data = buffer;
    (*(Edit *) edit)(pad, buffer);
    return GST_PAD_PROBE_OK;
}

/* Sends the clip to an element, edited in front of it. */
static void
send_clip(Edit edit, const char *elements, GCallback handoff, gpointer data)
{
    g_autofree gchar *text =
        g_strdup_printf("filesrc location=%s ! latentdemux ! queue "
                        "name=queue ! %s name=sink",
                        clip, elements);
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    g_autoptr(GstElement) queue =
        gst_bin_get_by_name(GST_BIN(pipeline), "queue");
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(queue, "src");
    if (edit)
        gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, edit_one, &edit,
                          NULL);
    if (handoff)
        g_signal_connect(sink, "handoff", handoff, data);
    finish(pipeline);
}

static void
add_frame(GstElement *sink, GstBuffer *frame, GstPad *pad, gpointer sum)
{
    vae_test_sum(sum, frame);
}

/* Returns the MD5 of the clip's frames. (transfer full) */
static gchar *
decoded(Edit edit)
{
    g_autofree gchar *text =
        g_strdup_printf("vaedecode model=\"%s\" threads=1 ! fakesink "
                        "sync=false signal-handoffs=true",
                        vae_test_weights());
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_MD5);
    send_clip(edit, text, G_CALLBACK(add_frame), sum);
    return g_strdup(g_checksum_get_string(sum));
}

static void
check_same(Edit edit, Edit other, gboolean expected)
{
    g_autofree gchar *a = decoded(edit), *b = decoded(other);
    CHECK_INT(strcmp(a, b) == 0, expected);
}

static void
make_clip(const gchar *folder)
{
    clip = g_build_filename(folder, "clip.safetensors", NULL);
    g_autofree gchar *text = g_strdup_printf(
        "videotestsrc pattern=ball num-buffers=5 ! video/x-raw,format=RGB,"
        "width=48,height=32,framerate=16/1 ! vaeencode model=\"%s\" threads=1 "
        "! latentmux ! filesink location=%s",
        vae_test_weights(), clip);
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    finish(pipeline);
}

/* ------------------------------------------------------------------ */
/* Latents.                                                            */

/* A latent has one tensor, which is its memory. */
static void
check_tensor(GstBuffer *latent, GstTensorDataType type)
{
    const gsize expected[] = {16, LH, LW};
    GstTensorMeta *meta = gst_buffer_get_tensor_meta(latent);
    CHECK(meta != NULL);
    CHECK_INT(meta->num_tensors, 1);
    const GstTensor *tensor = gst_tensor_meta_get(meta, 0);
    g_print("%s\n", g_quark_to_string(tensor->id));
    CHECK(strcmp(g_quark_to_string(tensor->id), ID) == 0);
    CHECK_INT(tensor->data_type, type);
    CHECK_INT(tensor->layout, GST_TENSOR_LAYOUT_CONTIGUOUS);
    CHECK_INT(tensor->dims_order, GST_TENSOR_DIM_ORDER_ROW_MAJOR);
    CHECK_INT(tensor->num_dims, 3);
    CHECK(memcmp(tensor->dims, expected, sizeof expected) == 0);
    CHECK_INT(gst_buffer_n_memory(latent), 1);
    CHECK_INT(gst_buffer_n_memory(tensor->data), 1);
    CHECK(gst_buffer_peek_memory(latent, 0) ==
          gst_buffer_peek_memory(tensor->data, 0));
}

static gboolean
drop_meta(GstBuffer *buffer, GstMeta **meta, gpointer data)
{
    *meta = NULL;
    return TRUE;
}

static void
without_tensors(GstPad *pad, GstBuffer *latent)
{
    gst_buffer_foreach_meta(latent, drop_meta, NULL);
}

/* Copies data to a new buffer. */
static GstBuffer *
copy_bytes(GstBuffer *data)
{
    gpointer bytes;
    gsize size;
    gst_buffer_extract_dup(data, 0, gst_buffer_get_size(data), &bytes, &size);
    return gst_buffer_new_wrapped(bytes, size);
}

/* Adds a second meta. GStreamer 1.26 returns the existing meta instead, and
 * later frees another one. */
static void
add_tensor(GstBuffer *latent, const gchar *id, GstBuffer *data)
{
    gsize dims[] = {1, 16, LH, LW};
    GstTensorMeta *meta = gst_buffer_add_tensor_meta(latent);
    const guint n = (guint) meta->num_tensors;
    GstTensor **tensors = g_new(GstTensor *, n + 1);
    for (guint i = 0; i < n; i++)
        tensors[i] = gst_tensor_copy(meta->tensors[i]);
    tensors[n] = gst_tensor_new_simple(g_quark_from_string(id),
                                       GST_TENSOR_DATA_TYPE_FLOAT32, data,
                                       GST_TENSOR_DIM_ORDER_ROW_MAJOR, 4, dims);
    gst_tensor_meta_set(meta, n + 1, tensors);
}

static void
negate(GstBuffer *buffer)
{
    GstMapInfo map;
    CHECK(gst_buffer_map(buffer, &map, GST_MAP_READWRITE));
    for (gsize i = 0; i < map.size / sizeof(float); i++)
        ((float *) map.data)[i] *= -1;
    gst_buffer_unmap(buffer, &map);
}

/* ------------------------------------------------------------------ */

static void
expect_tensor(GstPad *pad, GstBuffer *latent)
{
    check_tensor(latent, GST_TENSOR_DATA_TYPE_FLOAT32);
}

/* The meta passes the demuxer and a queue, and changes nothing. */
TEST(demux)
{
    check_same(expect_tensor, without_tensors, TRUE);
}

static void
negate_bytes(GstPad *pad, GstBuffer *latent)
{
    negate(latent);
}

static void
negate_bare(GstPad *pad, GstBuffer *latent)
{
    without_tensors(pad, latent);
    negate(latent);
}

/* An element that knows no tensors changes the bytes in place. */
TEST(bytes)
{
    check_same(negate_bytes, negate_bare, TRUE);
    check_same(negate_bytes, NULL, FALSE);
}

static void
negate_tensor(GstPad *pad, GstBuffer *latent)
{
    GstTensor *tensor = gst_buffer_get_tensor_meta(latent)->tensors[0];
    tensor->data = gst_buffer_make_writable(tensor->data);
    negate(tensor->data);
}

/* An element that knows only tensors changes the tensor in place. */
TEST(tensor)
{
    check_same(negate_tensor, negate_bare, TRUE);
}

/* Does what inference elements do: the input stays, and results are added. */
static void
add_negated(GstPad *pad, GstBuffer *latent)
{
    GstBuffer *data = copy_bytes(latent);
    negate(data);
    add_tensor(latent, "vae-latent-another", copy_bytes(latent));
    add_tensor(latent, ID, copy_bytes(latent));
    add_tensor(latent, ID, data);
    add_tensor(latent, "boxes", copy_bytes(latent));
}

/* Only the tensor has the latent. */
static void
move_bytes(GstPad *pad, GstBuffer *latent)
{
    GstBuffer *data = copy_bytes(latent);
    negate(data);
    without_tensors(pad, latent);
    gst_buffer_remove_all_memory(latent);
    add_tensor(latent, "vae-latent", data);
}

TEST(added)
{
    check_same(add_negated, negate_bare, TRUE);
    check_same(move_bytes, negate_bare, TRUE);
}

/* latentmux writes the same bytes. */
TEST(mux)
{
    gchar *path = g_strconcat(clip, ".copy", NULL), *original = clip;
    g_autofree gchar *text =
        g_strdup_printf("latentmux ! filesink async=false location=%s", path);
    gchar *expected = decoded(negate_bare), *found;
    send_clip(add_negated, text, NULL, NULL);
    clip = path;
    found = decoded(NULL);
    vae_test_same(found, expected);
    CHECK(g_remove(path) == 0);
    clip = original;
    g_free(path);
}

/* ------------------------------------------------------------------ */

static GstHarness *
encoder(const char *downstream)
{
    GstHarness *h = vae_test_harness("vaeencode", NULL);
    GstVideoInfo info;
    gst_harness_set_sink_caps_str(h, downstream);
    vae_test_set_video(h, &info, 8 * LW, 8 * LH);
    vae_test_push_frames(h, &info, 0, 5);
    return h;
}

TEST(encode)
{
    static const struct {
        const char *name;
        GstTensorDataType type;
    } types[] = {{"float32", GST_TENSOR_DATA_TYPE_FLOAT32},
                 {"float16", GST_TENSOR_DATA_TYPE_FLOAT16},
                 {"bfloat16", GST_TENSOR_DATA_TYPE_BFLOAT16}};
    for (guint i = 0; i < G_N_ELEMENTS(types); i++) {
        g_autofree gchar *caps =
            g_strdup_printf("video/x-vae-latent,type=%s", types[i].name);
        SCOPED GstHarness *h = encoder(caps);
        for (guint k = 0; k < 2; k++) {
            g_autoptr(GstBuffer) latent = vae_test_pull(h);
            check_tensor(latent, types[i].type);
        }
    }
}

/* ------------------------------------------------------------------ */

typedef struct Bad {
    GstTensorDataType type;
    gint order, layout;
    gsize bytes, n_dims, dims[5];
    const char *found;
} Bad;

static void
check_refused(const Bad *bad)
{
    SCOPED GstHarness *h = vae_test_decoder(NULL, LW, LH, NULL);
    GstBuffer *latent = vae_test_latent(LW, LH, 0);
    GstTensor *tensor = gst_tensor_alloc(bad->n_dims);
    GstTensor **tensors = g_new(GstTensor *, 1);
    tensor->id = g_quark_from_string(ID);
    tensor->data_type = bad->type;
    tensor->dims_order = (GstTensorDimOrder) bad->order;
    tensor->layout = (GstTensorLayout) bad->layout;
    tensor->data = gst_buffer_new_allocate(NULL, bad->bytes, NULL);
    memcpy(tensor->dims, bad->dims, bad->n_dims * sizeof(gsize));
    tensors[0] = tensor;
    gst_tensor_meta_set(gst_buffer_add_tensor_meta(latent), 1, tensors);
    CHECK_INT(gst_harness_push(h, latent), GST_FLOW_ERROR);
    vae_test_expect_error(h, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                          bad->found,
                          "expected float32 [16, 4, 6], row-major, contiguous, "
                          "1536 bytes");
}

#define F32 GST_TENSOR_DATA_TYPE_FLOAT32
#define F16 GST_TENSOR_DATA_TYPE_FLOAT16
#define U8 GST_TENSOR_DATA_TYPE_UINT8
#define ROWS GST_TENSOR_DIM_ORDER_ROW_MAJOR
#define COLUMNS GST_TENSOR_DIM_ORDER_COL_MAJOR

TEST(refused)
{
    static const Bad bad[] = {
        {F32, ROWS, 0, LATENT_BYTES, 3, {16, LW, LH}, "[16, 6, 4]"},
        {F32, ROWS, 0, LATENT_BYTES, 2, {16, LH * LW}, "[16, 24]"},
        {F32,
         ROWS,
         0,
         LATENT_BYTES,
         5,
         {2, 1, 16, LH, LW},
         "[2, 1, 16, 4, ...]"},
        {F16, ROWS, 0, LATENT_BYTES / 2, 3, {16, LH, LW}, "float16 [16, 4, 6]"},
        {U8, ROWS, 0, LATENT_BYTES / 4, 3, {16, LH, LW}, "data type"},
        {F32, COLUMNS, 0, LATENT_BYTES, 3, {16, LH, LW}, "col-major"},
        {F32, ROWS, 7, LATENT_BYTES, 3, {16, LH, LW}, "not contiguous"},
        {F32, ROWS, 0, LATENT_BYTES - 4, 3, {16, LH, LW}, "1532 bytes"},
    };
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++)
        check_refused(&bad[i]);
}

/* ------------------------------------------------------------------ */

#if GST_CHECK_VERSION(1, 28, 0)

#define TENSORS(type)                                                          \
    "video/x-vae-latent,tensors=(structure)[tensorgroups," ID                  \
    "=(/uniquelist){(GstCaps)[tensor/strided,tensor-id=(string)" ID            \
    ",dims=<(int)16,(int)[1,max],(int)[1,max]>,"                               \
    "dims-order=(string)row-major,type=(string)" type "]}]"

/* The caps and their tensors have this type. Converted to text and back, the
 * caps are equal. */
static void
check_caps(GstPad *pad, const char *type)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad), expected = NULL,
                       again = NULL;
    g_autofree gchar *text = g_strdup_printf(
        "tensorgroups," ID "=(/uniquelist){(GstCaps)[tensor/strided,"
        "tensor-id=(string)" ID ",dims=<(int)16,(int)4,(int)6>,"
        "dims-order=(string)row-major,type=(string)%s]}",
        type);
    g_autoptr(GstStructure) tensors = gst_structure_new_from_string(text);
    CHECK(caps && tensors);
    CHECK(gst_caps_is_fixed(caps));
    expected = gst_caps_copy(caps);
    gst_caps_set_simple(expected, "type", G_TYPE_STRING, type, "tensors",
                        GST_TYPE_STRUCTURE, tensors, NULL);
    text = gst_caps_to_string(caps);
    g_print("%s\n", text);
    CHECK(gst_caps_is_equal(caps, expected));
    again = gst_caps_from_string(text);
    CHECK(again && gst_caps_is_equal(again, caps));
}

static void
expect_caps(GstPad *pad, GstBuffer *latent)
{
    check_caps(pad, "float32");
}

/* GStreamer 1.28.8 leaks the empty caps of an intersection of tensors, which
 * the tracer would report. */
static gboolean
is_traced(void)
{
    return g_getenv("GST_TRACERS") != NULL;
}

TEST(caps)
{
    static const char *const cases[][2] = {
        {"video/x-vae-latent", "float32"},
        {"video/x-vae-latent,type=bfloat16", "bfloat16"},
        {TENSORS("float32"), "float32"},
        {TENSORS("float16"), "float16"},
        {TENSORS("{float64,bfloat16}"), "bfloat16"}};
    const guint n = is_traced() ? 2 : G_N_ELEMENTS(cases);
    g_free(decoded(expect_caps));
    for (guint i = 0; i < n; i++) {
        SCOPED GstHarness *h = encoder(cases[i][0]);
        gst_buffer_unref(vae_test_pull(h));
        check_caps(h->sinkpad, cases[i][1]);
    }
}

TEST(caps_refused)
{
    if (is_traced())
        return;
    SCOPED GstHarness *h = vae_test_harness("vaeencode", NULL);
    g_autoptr(GstCaps) caps = gst_caps_from_string(
        "video/x-raw,format=RGB,width=48,height=32,framerate=16/1");
    gst_harness_set_sink_caps_str(h, TENSORS("float64"));
    gst_harness_push_event(h, gst_event_new_stream_start("s"));
    gst_harness_push_event(h, gst_event_new_caps(caps));
    vae_test_expect_error(h, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION,
                          "it takes", "float64");
}

#endif

int
main(int argc, char **argv)
{
    g_autofree gchar *folder = g_dir_make_tmp("vae-test-XXXXXX", NULL);
    gst_init(&argc, &argv);
    make_clip(folder);
    int status = vae_test_main(argc, argv);
    CHECK(g_remove(clip) == 0);
    CHECK(g_rmdir(folder) == 0);
    g_free(clip);
    return status;
}

#else

int
main(void)
{
    g_printerr("the plugin was built without gstreamer-analytics >= 1.26\n");
    return 77;
}

#endif
