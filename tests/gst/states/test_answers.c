/*
 * test_answers.c: both elements handle every flow return of downstream: what
 * upstream receives, what is posted and sent downstream, and that a flush ends
 * the state.
 */
#include "vae_test.h"

#define LW 6
#define LH 4
#define VIDEO "video/x-raw,format=I420,width=48,height=32,framerate=16/1"

typedef struct Bed {
    GstHarness *h;
    GstBus *bus;
    gboolean encodes;
    GstFlowReturn answer; /* for the second buffer and all later ones */
    gint buffers;         /* atomic; number of buffers so far */
} Bed;

static GstFlowReturn
push_step(Bed *b, guint k)
{
    return vae_test_push_step(b->h, b->encodes, LW, LH, k);
}

static GstPadProbeReturn
answer(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Bed *b = data;
    if (g_atomic_int_add(&b->buffers, 1) == 0 || b->answer == GST_FLOW_OK)
        return GST_PAD_PROBE_OK;
    gst_buffer_unref(info->data);
    info->data = NULL;
    GST_PAD_PROBE_INFO_FLOW_RETURN(info) = b->answer;
    return GST_PAD_PROBE_HANDLED;
}

static void
bed_open(Bed *b, const char *element, GstFlowReturn ret)
{
    g_autofree gchar *caps = vae_test_latent_caps(LW, LH, NULL);
    *b = (Bed){.encodes = g_str_equal(element, "vaeencode"), .answer = ret};
    b->h = vae_test_harness(element, NULL);
    b->bus = vae_test_bus(b->h);
    GstPad *pad = gst_element_get_static_pad(b->h->element, "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, answer, b, NULL);
    gst_object_unref(pad);
    gst_harness_set_src_caps_str(b->h, b->encodes ? VIDEO : caps);
}

static void
bed_close(Bed *b)
{
    vae_test_teardown(b->h);
}

static guint
count_errors(Bed *b)
{
    GstMessage *message;
    GError *error = NULL;
    guint n = 0;
    while ((message = gst_bus_pop_filtered(b->bus, GST_MESSAGE_ERROR))) {
        gst_message_parse_error(message, &error, NULL);
        CHECK(
            g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED));
        g_clear_error(&error);
        gst_message_unref(message);
        n++;
    }
    return n;
}

static void
flush_and_go_on(Bed *b)
{
    GstBuffer *buffer;
    CHECK(gst_harness_push_event(b->h, gst_event_new_flush_start()));
    CHECK(gst_harness_push_event(b->h, gst_event_new_flush_stop(TRUE)));
    while ((buffer = gst_harness_try_pull(b->h)))
        gst_buffer_unref(buffer);
    vae_test_push_segment(b->h);
    b->answer = GST_FLOW_OK;
    for (guint k = 0; k < 3; k++)
        CHECK_INT(push_step(b, k), GST_FLOW_OK);
    for (guint i = 0; i < (b->encodes ? 3u : 9u); i++) {
        buffer = vae_test_pull(b->h);
        CHECK(buffer != NULL);
        CHECK_INT(GST_BUFFER_OFFSET(buffer), i);
        gst_buffer_unref(buffer);
    }
}

static void
check_answer(const char *element, GstFlowReturn ret)
{
    const gboolean error = ret != GST_FLOW_EOS && ret != GST_FLOW_FLUSHING;
    GstQuery *query = gst_query_new_drain();
    GstFlowReturn found = GST_FLOW_OK;
    Bed b;
    g_print("%s: %s\n", element, gst_flow_get_name(ret));
    bed_open(&b, element, ret);
    for (guint k = 0; found == GST_FLOW_OK; k++)
        found = push_step(&b, k);
    CHECK_INT(found, ret);
    CHECK(!gst_pad_peer_query(b.h->srcpad, query));
    gst_query_unref(query);
    CHECK_INT(push_step(&b, 1), ret);
    if (ret != GST_FLOW_FLUSHING)
        vae_test_wait_eos(b.h);
    CHECK_INT(count_errors(&b), error);
    CHECK_INT(g_atomic_int_get(&b.buffers), 2);
    flush_and_go_on(&b);
    CHECK_INT(count_errors(&b), 0);
    bed_close(&b);
}

TEST(answers)
{
    static const GstFlowReturn answers[] = {
        GST_FLOW_EOS,         GST_FLOW_FLUSHING,
        GST_FLOW_NOT_LINKED,  GST_FLOW_NOT_NEGOTIATED,
        GST_FLOW_ERROR,       GST_FLOW_NOT_SUPPORTED,
        GST_FLOW_CUSTOM_ERROR};
    for (guint i = 0; i < G_N_ELEMENTS(answers); i++) {
        check_answer("vaedecode", answers[i]);
        check_answer("vaeencode", answers[i]);
    }
}
