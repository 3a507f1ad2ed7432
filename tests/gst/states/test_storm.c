/*
 * test_storm.c: one thread changes the state of a pipeline and another one
 * flushes it, both at random moments.
 *
 *   test_gst_storm STATES FLUSHES [NAME...]
 *
 * STATES and FLUSHES are the numbers for all three pipelines together. The test
 * prints the seed of the random numbers; VAE_TEST_SEED sets it. The test
 * compares every frame with that of an undisturbed run. No error may occur.
 */
#include "vae_test.h"

/* The number of frames that are compared: 1 + 4 x 8, so that every latent is
 * complete. The source has no end, because num-buffers would count on after a
 * flush and end a group early. */
#define FRAMES 33
#define SOURCE(more)                                                           \
    "videotestsrc pattern=ball " more " ! "                                    \
    "video/x-raw,format=RGB,width=48,height=32,framerate=16/1"
#define SINK "fakesink name=sink sync=false"

typedef struct Storm {
    GstElement *pipeline;
    GstElement *sink;
    GstBus *bus;
    gboolean ended;
    guint changes, expected_flushes, flushes;
    guint missed; /* for goes_on() */

    GMutex lock; /* protects the variables below, which the streaming thread
                    changes */
    GBytes *known[FRAMES];
    gint64 next;
    gint64 frames; /* number of frames since a change of state */
    guint64 total;
} Storm;

static guint n_states = 33, n_flushes = 7; /* numbers for each pipeline */
static guint32 seed;

static void
take(Storm *s, gint64 k, GstBuffer *buffer)
{
    GstMapInfo map;
    CHECK_INT(k, s->next);
    s->next++;
    s->frames++;
    s->total++;
    if (k >= FRAMES)
        return;
    CHECK(gst_buffer_map(buffer, &map, GST_MAP_READ));
    if (!s->known[k])
        s->known[k] = g_bytes_new(map.data, map.size);
    CHECK_INT(map.size, g_bytes_get_size(s->known[k]));
    CHECK(memcmp(map.data, g_bytes_get_data(s->known[k], NULL), map.size) == 0);
    gst_buffer_unmap(buffer, &map);
}

/* After a flush or in a new stream the frames begin again. */
static GstPadProbeReturn
on_data(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Storm *s = data;
    g_mutex_lock(&s->lock);
    if (info->type & GST_PAD_PROBE_TYPE_BUFFER) {
        GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
        take(s,
             (gint64) gst_util_uint64_scale_round(GST_BUFFER_PTS(buffer),
                                                  VAE_TEST_FPS, GST_SECOND),
             buffer);
    } else if (GST_EVENT_TYPE(info->data) == GST_EVENT_FLUSH_STOP ||
               GST_EVENT_TYPE(info->data) == GST_EVENT_STREAM_START) {
        s->next = 0;
    }
    g_mutex_unlock(&s->lock);
    return GST_PAD_PROBE_OK;
}

static void
storm_open(Storm *s, const gchar *text)
{
    GError *error = NULL;
    *s = (Storm){.pipeline = gst_parse_launch(text, &error)};
    CHECK(s->pipeline != NULL && !error);
    s->bus = gst_element_get_bus(s->pipeline);
    s->sink = gst_bin_get_by_name(GST_BIN(s->pipeline), "sink");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(s->sink, "sink");
    gst_pad_add_probe(pad,
                      GST_PAD_PROBE_TYPE_BUFFER |
                          GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM |
                          GST_PAD_PROBE_TYPE_EVENT_FLUSH,
                      on_data, s, NULL);
}

/* Fails if there is an error. Returns TRUE if the stream has ended. */
static gboolean
look_at_bus(Storm *s, GstClockTime patience)
{
    GstMessage *m = gst_bus_timed_pop_filtered(
        s->bus, patience, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
    const gboolean eos = m && GST_MESSAGE_TYPE(m) == GST_MESSAGE_EOS;
    GError *error = NULL;
    if (m && !eos) {
        gchar *more;
        gst_message_parse_error(m, &error, &more);
        g_printerr("%s\n%s\n", error->message, more);
        vae_test_fail("no error came", __FILE__, __LINE__);
    }
    if (m)
        gst_message_unref(m);
    s->ended |= eos;
    return eos;
}

static gboolean
has_come(Storm *s, gint64 n, const gint64 *frames)
{
    g_mutex_lock(&s->lock);
    gboolean come = *frames >= n;
    g_mutex_unlock(&s->lock);
    return come;
}

/* Plays from the first frame on, as many frames as are compared. */
static void
play_all(Storm *s)
{
    gst_element_set_state(s->pipeline, GST_STATE_NULL);
    g_mutex_lock(&s->lock);
    s->next = 0;
    g_mutex_unlock(&s->lock);
    CHECK(gst_element_set_state(s->pipeline, GST_STATE_PLAYING) !=
          GST_STATE_CHANGE_FAILURE);
    while (!has_come(s, FRAMES, &s->next))
        look_at_bus(s, GST_MSECOND);
}

static void
storm_close(Storm *s)
{
    gst_element_set_state(s->pipeline, GST_STATE_NULL);
    for (guint k = 0; k < FRAMES; k++)
        g_clear_pointer(&s->known[k], g_bytes_unref);
    gst_object_unref(s->bus);
    gst_clear_object(&s->sink);
    gst_object_unref(s->pipeline);
    g_mutex_clear(&s->lock);
}

/* ------------------------------------------------------------------ */

/* Flushes until the pipeline has accepted enough flushes: an element in READY
 * or NULL accepts none. */
static gpointer
flush_main(gpointer data)
{
    Storm *s = data;
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed + 1);
    while (s->flushes < s->expected_flushes) {
        g_usleep((gulong) g_rand_int_range(rand, 0, 40000));
        if (gst_element_seek_simple(s->pipeline, GST_FORMAT_TIME,
                                    GST_SEEK_FLAG_FLUSH, 0))
            s->flushes++;
    }
    return NULL;
}

static gboolean
is_busy(GstElement *element)
{
    return gst_element_get_state(element, NULL, NULL, 0) ==
           GST_STATE_CHANGE_ASYNC;
}

/* Returns TRUE while a change of state is going on. If the sink is flushed
 * during a change, GstBin sometimes misses that the sink has finished, and
 * remains busy until the next change downwards. The test notices this if the
 * pipeline is busy and its sink is not, in 1000 calls, which are a millisecond
 * apart. */
static gboolean
goes_on(Storm *s)
{
    s->missed = is_busy(s->pipeline) && !is_busy(s->sink) ? s->missed + 1 : 0;
    return is_busy(s->pipeline) && s->missed < 1000;
}

/* Waits for a random time. If the pipeline plays, may wait for some frames
 * instead. */
static void
let_go_on(Storm *s, GRand *rand, gboolean plays)
{
    const gint64 n = g_rand_int_range(rand, 1, FRAMES);
    g_mutex_lock(&s->lock);
    s->frames = 0;
    g_mutex_unlock(&s->lock);
    s->ended = FALSE;
    s->missed = 0;
    if (!plays || g_rand_boolean(rand))
        g_usleep((gulong) g_rand_int_range(rand, 0, 30000));
    else
        while (!has_come(s, n, &s->frames) && !s->ended &&
               (goes_on(s) || s->missed == 0))
            look_at_bus(s, GST_MSECOND);
    look_at_bus(s, 0);
}

static void
change_states(Storm *s, guint n)
{
    static const GstState states[] = {GST_STATE_NULL, GST_STATE_READY,
                                      GST_STATE_PAUSED, GST_STATE_PLAYING};
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    gint at = 3;
    for (; s->changes < n; s->changes++) {
        at = (at + g_rand_int_range(rand, 1, 4)) % 4;
        CHECK(gst_element_set_state(s->pipeline, states[at]) !=
              GST_STATE_CHANGE_FAILURE);
        s->missed = 0;
        if (g_rand_int_range(rand, 0, 4) == 0) /* waits for its end */
            while (goes_on(s))
                g_usleep(1000);
        let_go_on(s, rand, states[at] == GST_STATE_PLAYING);
    }
    gst_element_set_state(s->pipeline, GST_STATE_PLAYING);
}

static void
check_pipeline(const gchar *text)
{
    GThread *flusher;
    Storm s;
    storm_open(&s, text);
    s.expected_flushes = n_flushes;
    play_all(&s);
    flusher = g_thread_new("flusher", flush_main, &s);
    change_states(&s, n_states);
    g_thread_join(flusher);
    look_at_bus(&s, 0);
    play_all(&s);
    g_mutex_lock(&s.lock); /* frames still arrive */
    g_print("%u changes of state, %u flushes, %" G_GUINT64_FORMAT " frames\n",
            s.changes, s.flushes, s.total);
    g_mutex_unlock(&s.lock);
    storm_close(&s);
}

/* An encoder and a decoder of the same network. */
static void
check_both(const gchar *model, const gchar *between)
{
    const gchar *file = vae_test_network(model);
    g_autofree gchar *text = g_strdup_printf(
        SOURCE(
            "") " ! vaeencode threads=1 model=\"%s\" ! %s "
                "vaedecode threads=1 deterministic=true model=\"%s\" ! " SINK,
        file, between, file);
    check_pipeline(text);
}

TEST(wan21)
{
    vae_test_weights();
    check_both("wan21", "");
}

TEST(taew2_1)
{
    vae_test_weights();
    check_both("taehv/taew2_1", "queue max-size-buffers=2 !");
}

/* Latents come later than frames, and frames later than latents. */
TEST(hunyuan10)
{
    check_both("hunyuan10", "");
}

/* The demuxer reads a file in its own task. */
TEST(file)
{
    const gchar *file = vae_test_path("clip.safetensors");
    g_autofree gchar *read =
        g_strdup_printf("filesrc location=\"%s\" ! latentdemux ! "
                        "vaedecode threads=1 deterministic=true model=\"%s\" ! "
                        "video/x-raw,format=RGB ! " SINK,
                        file, vae_test_weights());
    vae_test_run(SOURCE("num-buffers=33") " ! vaeencode threads=1 "
                                          "model=\"%s\" ! latentmux ! "
                                          "filesink location=\"%s\"",
                 vae_test_weights(), file);
    check_pipeline(read);
}

int
main(int argc, char **argv)
{
    const char *given = g_getenv("VAE_TEST_SEED");
    seed = given ? (guint32) g_ascii_strtoull(given, NULL, 10) : g_random_int();
    if (argc >= 3) {
        n_states = ((guint) atoi(argv[1]) + 2) / 3;
        n_flushes = ((guint) atoi(argv[2]) + 2) / 3;
    }
    g_print("VAE_TEST_SEED=%u\n", seed);
    return vae_test_main(MAX(argc - 2, 1), argv + MIN(argc - 1, 2));
}
