/*
 * test_random.c: random operations on a pipeline of an encoder and a decoder.
 *
 * VAE_TEST_SEED=N repeats the operations of a seed, but not their moments,
 * which depend on the threads. VAE_TEST_OPERATIONS=N sets their number. If
 * nothing moves any more, the test ends with the stacks of all threads.
 */
#include "vae_test.h"

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>

/* A hang is 600 seconds without a change. Time counts only while this process
 * runs, so a machine that suspends or starves the process causes no failure. */
#define TICKS 20
#define PATIENCE (600 * TICKS)

#define SEEDS 10
#define OPERATIONS 100
#define CLIP 21 /* frames */

static const char *const formats[] = {
    "video/x-raw,format=I420,width=48,height=32,framerate=16/1",
    "video/x-raw,format=RGB,width=32,height=32,framerate=16/1",
    "video/x-raw,format=NV12,width=64,height=48,framerate=24/1",
    "video/x-raw,format=I420,width=50,height=30,framerate=16/1"};

typedef struct Run {
    GRand *rand;
    GstElement *pipeline, *filter, *encode, *decode, *sink;
    GstBus *bus;
    GstState state;
    gboolean ended;   /* no frame arrives until a seek or READY */
    const char *wish; /* the name of the operation */
    guint done;

    GMutex lock;
    GCond cond;
    guint64 frames; /* under the lock */
    gboolean eos;   /* guarded by the lock: frames at the sink */
    GChecksum *sum; /* guarded by the lock: checksum of all frames, or NULL */
    gint
        format; /* guarded by the lock: from the next frame on; -1: unchanged */
} Run;

static gint beats;   /* atomic; counts what moves */
static gint longest; /* atomic; most ticks in a row without a move */
static guint32 seed;
static Run *now;

/* ------------------------------------------------------------------ */
/* The watchdog.                                                       */

static void
print_stack(int number)
{
    void *frames[64];
    const int n = backtrace(frames, 64);
    backtrace_symbols_fd(frames, n, STDERR_FILENO);
    if (write(STDERR_FILENO, "\n", 1) != 1)
        _exit(2);
}

/* Prints the states of the pipeline and of each element. Takes no locks,
 * because another thread may never release them. */
static void
print_states(const Run *r)
{
    GstElement *const elements[] = {r->pipeline, r->filter, r->encode,
                                    r->decode, r->sink};
    for (guint i = 0; i < G_N_ELEMENTS(elements); i++) {
        const GstElement *e = elements[i];
        g_printerr(
            "%s: %s, next %s, pending %s, target %s, %s\n", GST_OBJECT_NAME(e),
            gst_element_state_get_name(GST_STATE(e)),
            gst_element_state_get_name(GST_STATE_NEXT(e)),
            gst_element_state_get_name(GST_STATE_PENDING(e)),
            gst_element_state_get_name(GST_STATE_TARGET(e)),
            gst_element_state_change_return_get_name(GST_STATE_RETURN(e)));
    }
}

static void
print_all_stacks(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    while (tasks && (task = readdir(tasks)))
        if (task->d_name[0] != '.') {
            syscall(SYS_tgkill, getpid(), atoi(task->d_name), SIGUSR2);
            g_usleep(G_USEC_PER_SEC / 10); /* one at a time */
        }
    if (tasks)
        closedir(tasks);
}

static gpointer
watch(gpointer data)
{
    gint last = -1, idle = 0;
    for (;;) {
        const gint beat = g_atomic_int_get(&beats);
        g_usleep(G_USEC_PER_SEC / TICKS);
        idle = beat == last ? idle + 1 : 0;
        last = beat;
        if (idle > g_atomic_int_get(&longest))
            g_atomic_int_set(&longest, idle);
        if (idle < PATIENCE)
            continue;
        g_printerr("VAE_TEST_SEED=%u: nothing moves at operation %u, %s\n",
                   seed, now ? now->done : 0, now ? now->wish : "");
        if (now)
            print_states(now);
        print_all_stacks();
        abort();
    }
    return NULL;
}

static void
start_watchdog(void)
{
    const struct sigaction action = {.sa_handler = print_stack};
    void *frames[1];
    backtrace(frames,
              1); /* loads its libraries before the signal handler needs them */
    sigaction(SIGUSR2, &action, NULL);
    g_thread_unref(g_thread_new("watchdog", watch, NULL));
}

static void
beat(void)
{
    g_atomic_int_inc(&beats);
}

/* ------------------------------------------------------------------ */
/* The pipeline.                                                       */

static GstPadProbeReturn
on_data(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Run *r = data;
    GstMapInfo map;
    beat();
    g_mutex_lock(&r->lock);
    if (info->type & GST_PAD_PROBE_TYPE_BUFFER) {
        r->frames++;
        CHECK(gst_buffer_map(GST_PAD_PROBE_INFO_BUFFER(info), &map,
                             GST_MAP_READ));
        if (r->sum)
            g_checksum_update(r->sum, map.data, (gssize) map.size);
        gst_buffer_unmap(GST_PAD_PROBE_INFO_BUFFER(info), &map);
    } else if (GST_EVENT_TYPE(info->data) == GST_EVENT_EOS) {
        r->eos = TRUE;
    } else if (GST_EVENT_TYPE(info->data) == GST_EVENT_FLUSH_STOP ||
               GST_EVENT_TYPE(info->data) == GST_EVENT_SEGMENT ||
               GST_EVENT_TYPE(info->data) == GST_EVENT_STREAM_START) {
        r->eos = FALSE;
    }
    g_cond_broadcast(&r->cond);
    g_mutex_unlock(&r->lock);
    return GST_PAD_PROBE_OK;
}

/* An error ends the test. Other messages are dropped. */
static void
read_bus(Run *r)
{
    GstMessage *message;
    GError *error = NULL;
    gchar *debug = NULL;
    while ((message = gst_bus_pop(r->bus))) {
        if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
            gst_message_parse_error(message, &error, &debug);
            g_printerr("VAE_TEST_SEED=%u, operation %u, %s: %s\n%s\n", seed,
                       r->done, r->wish, error->message, debug);
            exit(1);
        }
        gst_message_unref(message);
    }
}

static void
set_format(Run *r, guint i)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string(formats[i]);
    g_object_set(r->filter, "caps", caps, NULL);
}

/* A probe of caps at the source. If a filter changes between its answer to the
 * query of the source and the caps of the source, the stream ends. */
static GstPadProbeReturn
on_source(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Run *r = data;
    g_mutex_lock(&r->lock);
    gint format = r->format;
    r->format = -1;
    g_mutex_unlock(&r->lock);
    if (format >= 0)
        set_format(r, (guint) format);
    return GST_PAD_PROBE_OK;
}

static void
wish_format(Run *r, gint i)
{
    g_mutex_lock(&r->lock);
    r->format = i;
    g_mutex_unlock(&r->lock);
}

static void
run_open(Run *r, guint32 number)
{
    GstElement *src;
    *r = (Run){.rand = g_rand_new_with_seed(number), .wish = "", .format = -1};
    g_mutex_init(&r->lock);
    g_cond_init(&r->cond);
    r->pipeline = gst_parse_launch(
        "videotestsrc name=src pattern=ball ! capsfilter name=filter ! "
        "vaeencode "
        "name=encode threads=1 ! vaedecode name=decode threads=1 ! "
        "fakesink name=sink sync=false",
        NULL);
    CHECK(r->pipeline != NULL);
    r->filter = gst_bin_get_by_name(GST_BIN(r->pipeline), "filter");
    r->encode = gst_bin_get_by_name(GST_BIN(r->pipeline), "encode");
    r->decode = gst_bin_get_by_name(GST_BIN(r->pipeline), "decode");
    r->sink = gst_bin_get_by_name(GST_BIN(r->pipeline), "sink");
    r->bus = gst_element_get_bus(r->pipeline);
    g_object_set(r->encode, "model", vae_test_weights(), NULL);
    g_object_set(r->decode, "model", vae_test_weights(), NULL);
    set_format(r, 0);
    GstPad *pad = gst_element_get_static_pad(r->sink, "sink");
    gst_pad_add_probe(pad,
                      GST_PAD_PROBE_TYPE_BUFFER |
                          GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM |
                          GST_PAD_PROBE_TYPE_EVENT_FLUSH,
                      on_data, r, NULL);
    gst_object_unref(pad);
    src = gst_bin_get_by_name(GST_BIN(r->pipeline), "src");
    pad = gst_element_get_static_pad(src, "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, on_source, r, NULL);
    gst_object_unref(pad);
    gst_object_unref(src);
    r->state = GST_STATE_NULL;
}

static void
run_close(Run *r)
{
    gst_element_set_state(r->pipeline, GST_STATE_NULL);
    read_bus(r);
    gst_object_unref(r->bus);
    gst_object_unref(r->filter);
    gst_object_unref(r->encode);
    gst_object_unref(r->decode);
    gst_object_unref(r->sink);
    gst_object_unref(r->pipeline);
    g_rand_free(r->rand);
    g_mutex_clear(&r->lock);
    g_cond_clear(&r->cond);
}

/* Waits until the pipeline is in its state, for example after a flush. */
static void
settle(Run *r)
{
    CHECK(gst_element_get_state(r->pipeline, NULL, NULL, GST_CLOCK_TIME_NONE) !=
          GST_STATE_CHANGE_FAILURE);
    beat();
}

static void
set_state(Run *r, GstState state)
{
    CHECK(gst_element_set_state(r->pipeline, state) !=
          GST_STATE_CHANGE_FAILURE);
    beat();
    settle(r);
    r->state = state;
    if (state <= GST_STATE_READY)
        r->ended = FALSE;
}

/* Waits for frames or the end of the stream. */
static void
wait_frames(Run *r, guint n)
{
    if (r->state != GST_STATE_PLAYING || r->ended)
        return;
    g_mutex_lock(&r->lock);
    guint64 until = r->frames + n;
    while (r->frames < until && !r->eos)
        g_cond_wait(&r->cond, &r->lock);
    r->ended = r->eos;
    g_mutex_unlock(&r->lock);
}

/* ------------------------------------------------------------------ */
/* Operations.                                                         */

static guint
pick(Run *r, guint n)
{
    return (guint) g_rand_int_range(r->rand, 0, (gint32) n);
}

static GstElement *
either(Run *r)
{
    return pick(r, 2) ? r->encode : r->decode;
}

/* A refused model cannot be opened again. */
static void
restore_models(Run *r)
{
    g_object_set(r->encode, "model", vae_test_weights(), NULL);
    g_object_set(r->decode, "model", vae_test_weights(), NULL);
}

/* Returns TRUE if the sink does not block. A seek without a flush and an EOS
 * wait for the streaming thread of the source. A paused sink blocks this
 * thread. A flushed sink blocks it until the pipeline plays again, which waits
 * for the lock that a seek holds. */
static gboolean
flows(Run *r)
{
    if (r->state != GST_STATE_PLAYING || r->ended)
        return FALSE;
    settle(r);
    return TRUE;
}

static void
seek(Run *r)
{
    const GstClockTime start = pick(r, 5000) * GST_MSECOND;
    const gboolean stop = pick(r, 4) == 0;
    const GstClockTime length = pick(r, 2000) * GST_MSECOND + GST_MSECOND;
    GstSeekFlags flags = GST_SEEK_FLAG_FLUSH;
    flags |= pick(r, 2) ? GST_SEEK_FLAG_ACCURATE : GST_SEEK_FLAG_KEY_UNIT;
    if (pick(r, 3) == 0 && flows(r))
        flags &= ~GST_SEEK_FLAG_FLUSH;
    if (gst_element_seek(r->pipeline, 1, GST_FORMAT_TIME, flags,
                         GST_SEEK_TYPE_SET, (gint64) start, GST_SEEK_TYPE_SET,
                         stop ? (gint64) (start + length) : -1))
        r->ended = FALSE;
    beat();
    if (r->state == GST_STATE_PAUSED)
        set_state(r, r->state);
}

static void
change_caps(Run *r)
{
    const guint i = pick(r, G_N_ELEMENTS(formats));
    if (r->state <= GST_STATE_READY)
        set_format(r, i);
    else
        wish_format(r, (gint) i);
}

static void
change_state(Run *r)
{
    static const GstState states[] = {GST_STATE_NULL, GST_STATE_READY,
                                      GST_STATE_PAUSED, GST_STATE_PLAYING};
    set_state(r, states[pick(r, G_N_ELEMENTS(states))]);
}

/* Changes states without waiting. */
static void
race_states(Run *r)
{
    restore_models(r);
    for (guint i = 0; i < 4; i++) {
        gst_element_set_state(r->pipeline,
                              pick(r, 2) ? GST_STATE_READY : GST_STATE_PLAYING);
        g_usleep(pick(r, 3000));
        beat();
    }
    set_state(r, GST_STATE_READY);
    set_state(r, GST_STATE_PLAYING);
}

static void
change_property(Run *r)
{
    GstElement *element = either(r);
    switch (pick(r, 7)) {
    case 0:
        g_object_set(element, "queue-depth", 1 + pick(r, 4), NULL);
        break;
    case 1:
        g_object_set(element, "slice-size", pick(r, 5), NULL);
        break;
    case 2:
        g_object_set(element, "qos", pick(r, 2) > 0, NULL);
        break;
    case 3:
        g_object_set(element, "post-stats", pick(r, 2) > 0, NULL);
        break;
    case 4:
        g_object_set(element, "idle-release",
                     (guint64) pick(r, 3) * GST_MSECOND, NULL);
        break;
    case 5:
        gst_util_set_object_arg(G_OBJECT(r->encode), "tail",
                                pick(r, 2) ? "drop" : "repeat");
        break;
    default:
        gst_util_set_object_arg(G_OBJECT(element), "precision",
                                pick(r, 2) ? "fp32" : "auto");
        break;
    }
}

static void
end_stream(Run *r)
{
    g_autoptr(GstElement) src =
        gst_bin_get_by_name(GST_BIN(r->pipeline), "src");
    if (flows(r) && gst_element_send_event(src, gst_event_new_eos())) {
        beat();
        wait_frames(r, G_MAXUINT);
        r->ended = TRUE;
    }
}

static void
to_start(Run *r)
{
    CHECK(gst_element_seek_simple(r->pipeline, GST_FORMAT_TIME,
                                  GST_SEEK_FLAG_FLUSH, 0));
    r->ended = FALSE;
    wait_frames(r, 5);
}

/* Sets a model that is refused at the start of a sequence, with a WARNING. With
 * other caps, or in READY, it would be an error. */
static void
refuse_model(Run *r)
{
    static const char *const names[] = {"seedvr2", "no-such"};
    const gchar *path = vae_test_network(names[pick(r, G_N_ELEMENTS(names))]);
    to_start(r);
    g_object_set(either(r), "model", path, NULL);
    to_start(r);
}

/* Sets another model of the same latent space. */
static void
change_model(Run *r)
{
    static const char *const names[] = {"wan21", "taehv/taew2_1"};
    const gchar *path = vae_test_network(names[pick(r, G_N_ELEMENTS(names))]);
    if (r->state == GST_STATE_PLAYING && pick(r, 3) == 0)
        refuse_model(r);
    else
        g_object_set(either(r), "model", path, NULL);
}

static void
release(Run *r)
{
    g_signal_emit_by_name(either(r), "release");
}

static void
restart(Run *r)
{
    g_signal_emit_by_name(r->decode, "restart");
}

static void
ask(Run *r)
{
    GstQuery *query = gst_query_new_latency();
    GstStructure *stats;
    gst_element_query(r->pipeline, query);
    gst_query_unref(query);
    g_object_get(either(r), "stats", &stats, NULL);
    gst_structure_free(stats);
    gst_bin_recalculate_latency(GST_BIN(r->pipeline));
}

static void
send_upstream(Run *r)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(r->sink, "sink");
    if (pick(r, 2))
        gst_pad_push_event(
            pad,
            gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 2,
                              (GstClockTimeDiff) pick(r, 100) * GST_MSECOND,
                              pick(r, 5000) * GST_MSECOND));
    else
        gst_pad_push_event(pad, gst_video_event_new_upstream_force_key_unit(
                                    GST_CLOCK_TIME_NONE, TRUE, 1));
}

static const struct {
    const char *name;
    void (*run)(Run *r);
    guint weight;
} operations[] = {{"seek", seek, 5},
                  {"caps", change_caps, 3},
                  {"state", change_state, 3},
                  {"states at once", race_states, 1},
                  {"property", change_property, 4},
                  {"end", end_stream, 1},
                  {"model", change_model, 3},
                  {"release", release, 2},
                  {"restart", restart, 2},
                  {"queries", ask, 2},
                  {"upstream event", send_upstream, 2}};

static void
operate(Run *r)
{
    guint sum = 0, at, i = 0;
    for (guint j = 0; j < G_N_ELEMENTS(operations); j++)
        sum += operations[j].weight;
    for (at = pick(r, sum); at >= operations[i].weight; i++)
        at -= operations[i].weight;
    r->wish = operations[i].name;
    if (g_getenv("VAE_TEST_VERBOSE"))
        g_print("%u: %s\n", r->done, r->wish);
    /* Most operations need a running pipeline. */
    if (r->state < GST_STATE_PLAYING && pick(r, 2)) {
        restore_models(r);
        set_state(r, GST_STATE_PLAYING);
    }
    if (r->ended && pick(r, 2))
        seek(r);
    if (r->state <= GST_STATE_READY)
        restore_models(r);
    operations[i].run(r);
    beat();
    wait_frames(r, pick(r, 20));
    read_bus(r);
    r->done++;
}

/* Plays a clip from start to end, with all settings as at first. */
static gchar *
clean_clip(Run *r)
{
    g_autoptr(GstElement) src =
        gst_bin_get_by_name(GST_BIN(r->pipeline), "src");
    r->wish = "a clip at the end";
    set_state(r, GST_STATE_READY);
    restore_models(r);
    wish_format(r, -1);
    set_format(r, 0);
    g_object_set(src, "num-buffers", CLIP, NULL);
    g_object_set(r->decode, "qos", FALSE, NULL);
    gst_util_set_object_arg(G_OBJECT(r->encode), "tail", "repeat");
    gst_util_set_object_arg(G_OBJECT(r->encode), "precision", "auto");
    gst_util_set_object_arg(G_OBJECT(r->decode), "precision", "auto");
    r->sum = g_checksum_new(G_CHECKSUM_MD5);
    r->frames = 0;
    r->eos = FALSE;
    set_state(r, GST_STATE_PLAYING);
    wait_frames(r, G_MAXUINT);
    CHECK_INT(r->frames, CLIP);
    gchar *text = g_strdup(g_checksum_get_string(r->sum));
    set_state(r, GST_STATE_READY);
    read_bus(r);
    g_object_set(src, "num-buffers", -1, NULL);
    g_clear_pointer(&r->sum, g_checksum_free);
    return text;
}

static void
run_seed(guint32 number, guint n)
{
    Run r;
    seed = number;
    g_print("VAE_TEST_SEED=%u\n", number);
    run_open(&r, number);
    now = &r;
    gchar *expected = clean_clip(&r);
    set_state(&r, GST_STATE_PLAYING);
    while (r.done < n)
        operate(&r);
    gchar *found = clean_clip(&r);
    vae_test_same(found, expected);
    now = NULL;
    run_close(&r);
}

static guint64
number_of(const char *name, guint64 otherwise)
{
    const char *text = g_getenv(name);
    return text ? g_ascii_strtoull(text, NULL, 10) : otherwise;
}

TEST(random)
{
    const guint n = (guint) number_of("VAE_TEST_OPERATIONS", OPERATIONS);
    const char *given = g_getenv("VAE_TEST_SEED");
    start_watchdog();
    if (given && strcmp(given, "random") != 0)
        run_seed((guint32) number_of("VAE_TEST_SEED", 0), n);
    else if (given)
        run_seed(g_random_int(), n);
    for (guint32 i = 1; !given && i <= SEEDS; i++)
        run_seed(i, n);
    g_print("at most %.2f s without anything happening\n",
            (gdouble) g_atomic_int_get(&longest) / TICKS);
}
