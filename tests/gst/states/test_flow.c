/*
 * test_flow.c: the order of buffers, back-pressure, flushes, ends of the
 * stream and states without data.
 */
#include "vae_test.h"

#define LW 6
#define LH 4

static GstHarness *
decoder_sized(int width, int height)
{
    GstHarness *h = vae_test_harness("vaedecode", "slice-size", 2, NULL);
    vae_test_set_latents(h, width, height, NULL);
    return h;
}

static GstHarness *
decoder(void)
{
    return decoder_sized(LW, LH);
}

/* The output in order: a digit is a number of frames, a letter is an event. */
typedef struct Trace {
    GMutex lock;
    GString *text;
} Trace;

static GstPadProbeReturn
trace_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Trace *trace = data;
    g_mutex_lock(&trace->lock);
    if (GST_IS_BUFFER(info->data))
        g_string_append_c(trace->text, 'f');
    else if (GST_EVENT_TYPE(info->data) == GST_EVENT_CAPS)
        g_string_append_c(trace->text, 'C');
    else if (GST_EVENT_TYPE(info->data) == GST_EVENT_SEGMENT)
        g_string_append_c(trace->text, 'S');
    else if (GST_EVENT_TYPE(info->data) == GST_EVENT_TAG)
        g_string_append_c(trace->text, 'T');
    else if (GST_EVENT_TYPE(info->data) == GST_EVENT_GAP)
        g_string_append_c(trace->text, 'G');
    else if (GST_EVENT_TYPE(info->data) == GST_EVENT_CUSTOM_DOWNSTREAM)
        g_string_append_c(trace->text, 'X');
    else if (GST_EVENT_TYPE(info->data) == GST_EVENT_EOS)
        g_string_append_c(trace->text, 'E');
    g_mutex_unlock(&trace->lock);
    return GST_PAD_PROBE_OK;
}

TEST(order)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "src");
    g_autofree gchar *other = vae_test_latent_caps(LW, LH + 1, NULL);
    Trace trace = {.text = g_string_new(NULL)};
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
        trace_probe, &trace, NULL);
    vae_test_set_latents(h, LW, LH, NULL);
    vae_test_push_latents(h, LW, LH, 0, 2);
    gst_harness_push_event(h,
                           gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM,
                                                gst_structure_new_empty("x")));
    vae_test_push_latents(h, LW, LH, 2, 3);
    gst_harness_push_event(
        h, gst_event_new_tag(gst_tag_list_new(GST_TAG_TITLE, "t", NULL)));
    gst_harness_push_event(h, gst_event_new_gap(vae_test_time(9), GST_SECOND));
    gst_harness_set_src_caps_str(h, other);
    vae_test_push_latents(h, LW, LH + 1, 0, 2);
    vae_test_push_eos(h);
    CHECK(strcmp(trace.text->str, "CSfffffXffffTGCSfffffE") == 0 ||
          strcmp(trace.text->str, "CSfffffXffffTGCfffffE") == 0);
    g_string_free(trace.text, TRUE);
}

/* Pushes from another thread until the element blocks. */
typedef struct Pusher {
    GstHarness *h;
    int size;
    guint n;
    gint pushed; /* atomic */
    GstFlowReturn result;
    GThread *thread;
} Pusher;

static gpointer
pusher_main(gpointer data)
{
    Pusher *p = data;
    for (guint k = 0; k < p->n && p->result == GST_FLOW_OK; k++) {
        p->result =
            gst_harness_push(p->h, vae_test_latent(p->size, p->size, k));
        if (p->result == GST_FLOW_OK)
            g_atomic_int_inc(&p->pushed);
    }
    return NULL;
}

static void
pusher_start(Pusher *p, GstHarness *h, int size, guint n)
{
    *p = (Pusher){.h = h, .size = size, .n = n, .result = GST_FLOW_OK};
    p->thread = g_thread_new("pusher", pusher_main, p);
}

static void
set_flushing(GstHarness *h, gboolean on)
{
    CHECK(gst_harness_push_event(h, on ? gst_event_new_flush_start()
                                       : gst_event_new_flush_stop(TRUE)));
}

/* Called after a flush: drops the output in the harness, and begins a new
 * segment. */
static void
after_flush(GstHarness *h)
{
    GstBuffer *buffer;
    while ((buffer = gst_harness_try_pull(h)))
        gst_buffer_unref(buffer);
    vae_test_push_segment(h);
}

static GstPadProbeReturn
block_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    return GST_PAD_PROBE_OK; /* stays blocked */
}

/* With downstream blocked, queue-depth slices wait, and the task has one more.
 * A flush ends the wait of the sender at once. */
TEST(back_pressure)
{
    SCOPED GstHarness *h = decoder_sized(LW, LW);
    GstPad *pad = gst_element_get_static_pad(h->element, "src");
    gulong probe = gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER, block_probe,
        NULL, NULL);
    Pusher p;
    pusher_start(&p, h, LW, 100);
    while (g_atomic_int_get(&p.pushed) < 2)
        g_usleep(1000);
    g_usleep(500000); /* time in which later frames would leave if they could */
    CHECK(g_atomic_int_get(&p.pushed) <= 2 * 2 + 1);
    CHECK(vae_test_stat(h, "in-flight") <= 2 * 2);
    set_flushing(h, TRUE);
    g_thread_join(p.thread);
    CHECK_INT(p.result, GST_FLOW_FLUSHING);
    gst_pad_remove_probe(pad, probe);
    set_flushing(h, FALSE);
    after_flush(h);
    gst_object_unref(pad);
    vae_test_push_latents(h, LW, LW, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
}

/* A flush drops caps that were not pushed yet. They are sent again. */
TEST(flush_before_caps)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "src");
    gulong probe = gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
        block_probe, NULL, NULL);
    vae_test_set_latents(h, LW, LH, NULL);
    vae_test_push_latents(h, LW, LH, 0, 1);
    while (!gst_pad_is_blocking(pad))
        g_usleep(1000);
    set_flushing(h, TRUE);
    gst_pad_remove_probe(pad, probe);
    set_flushing(h, FALSE);
    after_flush(h);
    vae_test_push_latents(h, LW, LH, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
}

/* A flush begins during the first query for the caps of downstream. */
static GstPadProbeReturn
flush_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    GstHarness *h = data;
    if (GST_QUERY_TYPE(GST_PAD_PROBE_INFO_QUERY(info)) != GST_QUERY_CAPS)
        return GST_PAD_PROBE_OK;
    set_flushing(h, TRUE);
    return GST_PAD_PROBE_REMOVE;
}

/* The caps are not pushed, and are sent again before the next segment. After
 * the segment, GStreamer would warn of the order. */
TEST(flush_in_caps)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "src");
    g_autofree gchar *text = vae_test_latent_caps(LW, LH, NULL);
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);
    Trace trace = {.text = g_string_new(NULL)};
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, trace_probe,
                      &trace, NULL);
    gst_harness_push_event(h, gst_event_new_stream_start("caps"));
    gst_pad_add_probe(h->sinkpad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM,
                      flush_probe, h, NULL);
    gst_harness_push_event(h, gst_event_new_caps(caps));
    set_flushing(h, FALSE);
    after_flush(h);
    vae_test_push_latents(h, LW, LH, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
    CHECK(strcmp(trace.text->str, "CS") == 0);
    g_string_free(trace.text, TRUE);
}

TEST(drain)
{
    SCOPED GstHarness *h = decoder();
    g_autoptr(GstQuery) query = gst_query_new_drain();
    vae_test_push_latents(h, LW, LH, 0, 4);
    CHECK(gst_pad_peer_query(h->srcpad, query));
    CHECK_INT(gst_harness_buffers_in_queue(h), 13);
}

TEST(empty)
{
    GstHarness *h = vae_test_harness("vaedecode", NULL);
    gst_harness_push_event(h, gst_event_new_stream_start("empty"));
    vae_test_push_segment(h);
    vae_test_end(h);

    h = decoder(); /* with caps, without buffers */
    vae_test_end(h);
}

/* A new stream after EOS, without a flush. */
TEST(after_eos)
{
    SCOPED GstHarness *h = decoder();
    vae_test_push_latents(h, LW, LH, 0, 2);
    vae_test_push_eos(h);
    g_free(vae_test_pull_frames(h, 0, 5));
    gst_harness_push_event(h, gst_event_new_stream_start("again"));
    vae_test_push_segment(h);
    vae_test_push_latents(h, LW, LH, 0, 2);
    g_free(vae_test_pull_frames(h, 0, 5));
}

static GstPadProbeReturn
refuse_probe(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    gint *left = data;
    if (--*left >= 0)
        return GST_PAD_PROBE_OK;
    gst_buffer_unref(info->data);
    info->data = NULL;
    GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_EOS;
    return GST_PAD_PROBE_HANDLED;
}

static GstFlowReturn
push_until_refused(GstHarness *h)
{
    GstFlowReturn ret = GST_FLOW_OK;
    for (guint k = 0; k < 200 && ret == GST_FLOW_OK; k++)
        ret = gst_harness_push(h, vae_test_latent(LW, LH, k));
    return ret;
}

/* Downstream returns EOS after 7 frames. The element pushes EOS, upstream
 * receives it, and a new segment opens the queue again. */
TEST(downstream_eos)
{
    SCOPED GstHarness *h = decoder();
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "src");
    GstBuffer *buffer;
    gint left = 7;
    gulong probe = gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER,
                                     refuse_probe, &left, NULL);
    CHECK_INT(push_until_refused(h), GST_FLOW_EOS);
    vae_test_wait_eos(h);
    CHECK_INT(gst_harness_buffers_in_queue(h), 7);
    gst_pad_remove_probe(pad, probe);
    while ((buffer = gst_harness_try_pull(h)))
        gst_buffer_unref(buffer);

    gst_harness_push_event(h, gst_event_new_stream_start("again"));
    vae_test_push_segment(h);
    vae_test_push_latents(h, LW, LH, 0, 3);
    g_free(vae_test_pull_frames(h, 0, 9));
}

/* A pipeline in which an element after the decoder ends or fails. */
static void
check_pipeline_ends(const char *after, GstMessageType expected)
{
    g_autofree gchar *text = g_strdup_printf(
        "videotestsrc num-buffers=40 ! video/x-raw,width=48,height=32,"
        "framerate=16/1 ! vaeencode model=\"%s\" threads=1 ! vaedecode "
        "model=\"%s\" threads=1 ! %s ! fakesink sync=false",
        vae_test_weights(), vae_test_weights(), after);
    g_autoptr(GstElement) pipeline = gst_parse_launch(text, NULL);
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstMessage *message = gst_bus_timed_pop_filtered(
        bus, GST_CLOCK_TIME_NONE, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    CHECK(message != NULL);
    CHECK_INT(GST_MESSAGE_TYPE(message), expected);
    gst_message_unref(message);
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

TEST(pipeline_ends)
{
    check_pipeline_ends("identity", GST_MESSAGE_EOS);
    check_pipeline_ends("identity eos-after=7", GST_MESSAGE_EOS);
    check_pipeline_ends("identity error-after=7", GST_MESSAGE_ERROR);
}

/* All states without data, and properties in each state. */
TEST(state_cycle)
{
    static const char *const names[] = {"vaedecode", "vaeencode"};
    static const GstState states[] = {GST_STATE_READY,   GST_STATE_PAUSED,
                                      GST_STATE_PLAYING, GST_STATE_PAUSED,
                                      GST_STATE_READY,   GST_STATE_NULL};
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(GstElement) element =
            gst_element_factory_make(names[i], NULL);
        g_object_set(element, "model", vae_test_weights(), NULL);
        for (guint j = 0; j < 5 * G_N_ELEMENTS(states); j++) {
            GstState state = states[j % G_N_ELEMENTS(states)];
            gboolean qos;
            guint depth;
            CHECK(gst_element_set_state(element, state) !=
                  GST_STATE_CHANGE_FAILURE);
            g_object_set(element, "queue-depth", 3, "qos", FALSE, NULL);
            g_object_get(element, "queue-depth", &depth, "qos", &qos, NULL);
            CHECK_INT(depth, 3);
            CHECK(!qos);
        }
        CHECK_INT(GST_OBJECT_REFCOUNT_VALUE(element), 1);
    }
}

/* The source pad is deactivated first. Later input of the sink pad, such as the
 * first events of a stream, must not become an error. */
TEST(shut)
{
    SCOPED GstHarness *h = vae_test_harness("vaedecode", NULL);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(h->element, "src");
    g_autofree gchar *text = vae_test_latent_caps(LW, LH, NULL);
    gst_pad_set_active(pad, FALSE);
    vae_test_start(h, text);
    vae_test_push_segment(h);
    CHECK_INT(gst_harness_push(h, vae_test_latent(LW, LH, 0)),
              GST_FLOW_FLUSHING);
    gst_pad_set_active(pad, TRUE);
}

/* Seeks. Returns the rate of the seek that reaches upstream, or 0. */
static gdouble
rate_upstream(GstHarness *h, gdouble rate)
{
    const GstSeekType stop = rate < 0 ? GST_SEEK_TYPE_SET : GST_SEEK_TYPE_NONE;
    GstEvent *event;
    gdouble seen = 0;
    gst_harness_push_upstream_event(
        h, gst_event_new_seek(rate, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH,
                              GST_SEEK_TYPE_SET, 0, stop, GST_SECOND));
    while ((event = gst_harness_try_pull_upstream_event(h))) {
        if (GST_EVENT_TYPE(event) == GST_EVENT_SEEK)
            gst_event_parse_seek(event, &seen, NULL, NULL, NULL, NULL, NULL,
                                 NULL);
        gst_event_unref(event);
    }
    return seen;
}

/* A decoder plays backwards, and an encoder refuses it. */
TEST(seek)
{
    SCOPED GstHarness *h = decoder();
    CHECK(rate_upstream(h, 1) == 1);
    CHECK(rate_upstream(h, -1) == -1);
    vae_test_teardown(h);
    h = vae_test_harness("vaeencode", NULL);
    CHECK(rate_upstream(h, 1) == 1);
    CHECK(rate_upstream(h, -1) == 0);
}
