/*
 * test_sync.c: decoded latents together with audio, from two files and from
 * the container of both, also after seeks. The bytes identify each frame, and
 * the value each sample, so that the test knows what is shown and heard at a
 * running time.
 */
#include "vae_play.h"

#include <gst/base/gstbasesink.h>
#include <gst/base/gsttypefindhelper.h>

#define LATENTS 46
#define FRAMES (4 * LATENTS - 3)
#define FPS 24
#define RATE 8000 /* samples a second */

/* A clip, a sound of the same length, and the frames of the clip. */
typedef struct Bed {
    const gchar *latents, *sound;
    VaePlay *whole;
} Bed;

static GstClockTime
frame_time(guint64 n)
{
    return gst_util_uint64_scale(n, GST_SECOND, FPS);
}

static void
append(GByteArray *bytes, guint32 value, guint size)
{
    const guint32 little = GUINT32_TO_LE(value);
    g_byte_array_append(bytes, (const guint8 *) &little, size);
}

/* A WAV file of 32 bits and one channel. The value of each sample is its
 * index. */
static void
write_sound(const gchar *path)
{
    const guint n = RATE * FRAMES / FPS;
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_byte_array_append(bytes, (const guint8 *) "RIFF", 4);
    append(bytes, 36 + 4 * n, 4);
    g_byte_array_append(bytes, (const guint8 *) "WAVEfmt ", 8);
    append(bytes, 16, 4);
    append(bytes, 1, 2);
    append(bytes, 1, 2);
    append(bytes, RATE, 4);
    append(bytes, 4 * RATE, 4);
    append(bytes, 4, 2);
    append(bytes, 32, 2);
    g_byte_array_append(bytes, (const guint8 *) "data", 4);
    append(bytes, 4 * n, 4);
    for (guint i = 0; i < n; i++)
        append(bytes, i, 4);
    CHECK(g_file_set_contents(path, (const gchar *) bytes->data,
                              (gssize) bytes->len, NULL));
}

static void
bed_open(Bed *bed)
{
    g_autofree gchar *rate = g_strdup_printf("%d/1", FPS);
    bed->latents = vae_play_write(LATENTS, 6, 4, rate);
    bed->sound = vae_test_path("sound.wav");
    write_sound(bed->sound);
    bed->whole = vae_play_new(
        "filesrc location=%s ! latentdemux ! vaedecode model=\"%s\" "
        "threads=1 ! video/x-raw,format=I420 ! fakesink name=s sync=false "
        "signal-handoffs=true",
        bed->latents, vae_test_weights());
    vae_play_to_end(bed->whole);
    CHECK_INT(bed->whole->shown->len, FRAMES);
}

static void
bed_close(Bed *bed)
{
    vae_play_free(bed->whole);
}

/* ------------------------------------------------------------------ */

/* The played samples, by index and running time. */
typedef struct Heard {
    GstClockTime running;
    guint32 first, n;
} Heard;

typedef struct Both {
    VaePlay *play;
    GstElement *sink;
    GArray *heard; /* under the lock of play */
} Both;

static void
hear(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer data)
{
    Both *both = data;
    const GstSegment *segment = &GST_BASE_SINK(sink)->segment;
    const GstClockTime pts = GST_BUFFER_PTS(buffer);
    GstMapInfo map;
    /* Cuts the sound before the segment, as any audio sink does. */
    guint32 skip =
        pts >= segment->start
            ? 0
            : gst_util_uint64_scale(segment->start - pts, RATE, GST_SECOND);
    CHECK(gst_buffer_map(buffer, &map, GST_MAP_READ));
    Heard heard =
        (Heard){.running = gst_segment_to_running_time(
                    segment, GST_FORMAT_TIME, MAX(pts, segment->start)),
                .first = GST_READ_UINT32_LE(map.data) + skip,
                .n = (guint32) (map.size / 4) - skip};
    gst_buffer_unmap(buffer, &map);
    g_mutex_lock(&both->play->lock);
    g_array_append_val(both->heard, heard);
    g_mutex_unlock(&both->play->lock);
}

static void
both_open(Both *both, VaePlay *play)
{
    *both = (Both){.play = play,
                   .sink = gst_bin_get_by_name(GST_BIN(play->pipeline), "a"),
                   .heard = g_array_new(FALSE, FALSE, sizeof(Heard))};
    g_signal_connect(both->sink, "handoff", G_CALLBACK(hear), both);
}

static void
both_close(Both *both)
{
    VaePlay *play = both->play;
    vae_play_free(play);
    gst_object_unref(both->sink);
    g_array_unref(both->heard);
}

static void
both_forget(Both *both)
{
    vae_play_forget(both->play);
    g_mutex_lock(&both->play->lock);
    g_array_set_size(both->heard, 0);
    g_mutex_unlock(&both->play->lock);
}

/* Returns the position in the sound at a running time, or NONE if there is no
 * sound. Containers round times to milliseconds. */
static GstClockTime
heard_at(const Both *both, GstClockTime running)
{
    for (guint i = both->heard->len; i-- > 0;) {
        const Heard *h = &g_array_index(both->heard, Heard, i);
        const GstClockTime length =
            gst_util_uint64_scale(h->n, GST_SECOND, RATE);
        if (running + GST_MSECOND >= h->running)
            return running > h->running + length + GST_MSECOND
                       ? GST_CLOCK_TIME_NONE
                       : gst_util_uint64_scale(h->first, GST_SECOND, RATE) +
                             running - h->running;
    }
    return GST_CLOCK_TIME_NONE;
}

/* Returns the index of a frame in the clip. */
static guint
frame_number(const Bed *bed, GstBuffer *buffer)
{
    for (guint n = 0; n < FRAMES; n++)
        if (vae_play_same_bytes(buffer, vae_play_frame(bed->whole, n)->buffer))
            return n;
    vae_test_fail("a frame that is in the clip", __FILE__, __LINE__);
}

/* Checks that all frames from `first` on are shown, and that the sound at the
 * running time of each frame belongs to it, within the length of a frame. An
 * earlier frame may be shown that ends within the rounding of the container. */
static void
check_sync(const Bed *bed, const Both *both, guint first)
{
    const guint n_shown = both->play->shown->len;
    GstClockTimeDiff worst = 0;
    CHECK(n_shown == FRAMES - first || n_shown == FRAMES - first + 1);
    for (guint i = 0; i < n_shown; i++) {
        const VaeShown *shown = vae_play_frame(both->play, i);
        const guint n = frame_number(bed, shown->buffer);
        const GstClockTime heard = heard_at(both, shown->running);
        CHECK_INT(n, FRAMES - n_shown + i);
        CHECK(GST_CLOCK_TIME_IS_VALID(heard));
        GstClockTimeDiff skew =
            GST_CLOCK_DIFF(frame_time(n) + shown->cut, heard);
        worst = MAX(worst, ABS(skew));
    }
    g_print("from frame %u: %u frames, skew %.3f ms at most\n", first, n_shown,
            (gdouble) worst / 1e6);
    CHECK(worst <= (GstClockTimeDiff) frame_time(1));
}

static void
check_seeks(const Bed *bed, Both *both)
{
    /* A demuxer that begins with a picture drops the block of sound that began
     * before it. If this is the last block, there is no sound. */
    static const guint targets[] = {1, 163, 2, 150, 90};
    vae_play_to_end(both->play);
    check_sync(bed, both, 0);
    for (guint i = 0; i < G_N_ELEMENTS(targets); i++) {
        /* Every second seek is in PAUSED. */
        if (i % 2)
            vae_play_set(both->play, GST_STATE_PAUSED);
        both_forget(both);
        CHECK(vae_play_seek(both->play,
                            GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE,
                            frame_time(targets[i]), GST_CLOCK_TIME_NONE));
        vae_play_to_end(both->play);
        check_sync(bed, both, targets[i]);
    }
}

/* ------------------------------------------------------------------ */

/* Latents and sound in separate files, in one pipeline. */
TEST(two_files)
{
    Bed bed;
    Both both;
    bed_open(&bed);
    both_open(&both,
              vae_play_new(
                  "filesrc location=%s ! latentdemux ! vaedecode model=\"%s\" "
                  "threads=1 ! video/x-raw,format=I420 ! queue ! fakesink "
                  "name=s sync=false signal-handoffs=true "
                  "filesrc location=%s ! wavparse ! queue ! fakesink name=a "
                  "sync=false signal-handoffs=true",
                  bed.latents, vae_test_weights(), bed.sound));
    check_seeks(&bed, &both);
    both_close(&both);
    bed_close(&bed);
}

/* The decoded video and the sound in one container, played from this file. */
static void
check_container(const char *mux, const char *demux)
{
    Bed bed;
    Both both;
    bed_open(&bed);
    const gchar *path = vae_test_path("muxed");
    vae_test_run(
        "%s name=m ! filesink location=%s filesrc location=%s ! latentdemux ! "
        "vaedecode model=\"%s\" threads=1 ! video/x-raw,format=I420 ! queue ! "
        "m. filesrc location=%s ! wavparse ! queue ! m.",
        mux, path, bed.latents, vae_test_weights(), bed.sound);
    both_open(&both,
              vae_play_new("filesrc location=%s ! %s name=m m.video_0 ! queue "
                           "! fakesink name=s sync=false signal-handoffs=true "
                           "m.audio_0 ! queue ! fakesink name=a sync=false "
                           "signal-handoffs=true",
                           path, demux));
    check_seeks(&bed, &both);
    both_close(&both);
    bed_close(&bed);
}

TEST(matroska)
{
    check_container("matroskamux", "matroskademux");
}

int
main(int argc, char **argv)
{
    static const char *const needed[] = {"wavparse", "matroskamux",
                                         "matroskademux"};
    static const guint8 noise[64];

    gst_init(&argc, &argv);
    /* Runs the typefinders as wavparse does, because some of their objects stay
     * alive. */
    GstCaps *caps =
        gst_type_find_helper_for_data(NULL, noise, sizeof noise, NULL);
    gst_clear_caps(&caps);
    for (guint i = 0; i < G_N_ELEMENTS(needed); i++)
        if (!gst_registry_check_feature_version(gst_registry_get(), needed[i],
                                                1, 0, 0)) {
            g_printerr("skipped: no element %s\n", needed[i]);
            return 77;
        }
    return vae_test_main(argc, argv);
}
