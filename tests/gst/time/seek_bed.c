#include "seek_bed.h"

VaePlay *play;
static const gchar *path;
static gint rate_n, rate_d;
static VaePlay *whole;

void
bed_make_play(const char *demux)
{
    g_autofree gchar *text = g_strdup_printf(
        "filesrc location=%s ! latentdemux name=demux %s ! vaedecode "
        "model=\"%s\" threads=1 name=d ! fakesink name=s sync=false "
        "signal-handoffs=true",
        path, demux, vae_test_weights());
    g_clear_pointer(&play, vae_play_free);
    play = vae_play_make(text);
}

void
bed_play(const char *demux)
{
    bed_make_play(demux);
    vae_play_set(play, GST_STATE_PAUSED);
}

static void
bed_close(void)
{
    g_clear_pointer(&play, vae_play_free);
    g_clear_pointer(&whole, vae_play_free);
}

void
bed_open(gint fps_n, gint fps_d)
{
    g_autofree gchar *rate = g_strdup_printf("%d/%d", fps_n, fps_d);
    bed_close();
    vae_test_after = bed_close;
    rate_n = fps_n;
    rate_d = fps_d;
    path = vae_play_write(LATENTS, LW, LH, rate);
    bed_play("");
    whole = g_steal_pointer(&play);
    vae_play_to_end(whole);
    CHECK_INT(whole->shown->len, FRAMES);
    bed_play("");
}

GstClockTime
at(guint n)
{
    return gst_util_uint64_scale(n, GST_SECOND * rate_d, rate_n);
}

void
show(GstSeekFlags flags, GstClockTime start, GstClockTime stop)
{
    CHECK(vae_play_seek(play, flags, start, stop));
    vae_play_to_end(play);
}

void
preroll(GstSeekFlags flags, GstClockTime start, GstClockTime stop)
{
    CHECK(vae_play_seek(play, flags, start, stop));
    vae_play_set(play, GST_STATE_PAUSED);
}

const VaeShown *
frame(guint i)
{
    return vae_play_frame(play, i);
}

const VaeShown *
whole_frame(guint n)
{
    return vae_play_frame(whole, n);
}

void
check_frames_from(guint first, guint last, GstClockTime start,
                  GstClockTime stop)
{
    CHECK_INT(play->shown->len, last + 1 - first);
    for (guint n = first; n <= last; n++) {
        const VaeShown *expected = whole_frame(n), *found = frame(n - first);
        CHECK_INT(expected->pts, at(n));
        CHECK_INT(found->pts, MAX(expected->pts, start));
        CHECK_INT(found->end, MIN(expected->end, stop));
        CHECK_INT(GST_BUFFER_OFFSET(found->buffer), n);
        CHECK_INT(
            GST_BUFFER_FLAG_IS_SET(found->buffer, GST_BUFFER_FLAG_DISCONT),
            n == first);
        CHECK(vae_play_same_bytes(found->buffer, expected->buffer));
    }
}

void
check_frames(guint first, guint last)
{
    check_frames_from(first, last, 0, GST_CLOCK_TIME_NONE);
}

gint64
stat_of(const char *field)
{
    g_autoptr(GstElement) decode =
        gst_bin_get_by_name(GST_BIN(play->pipeline), "d");
    g_autoptr(GstStructure) stats = NULL;
    guint64 value = 0;
    g_object_get(decode, "stats", &stats, NULL);
    CHECK(gst_structure_get_uint64(stats, field, &value));
    return (gint64) value;
}
