/*
 * properties_report.c: the properties for statistics and messages, and those
 * for the freeing of memory, with the signal `release`.
 */
#include "property_ids.h"

#define MAX_RESUME_TIMEOUT (G_MAXINT * GST_MSECOND)

static void
install_stats(GObjectClass *klass)
{
    /**
     * GstVaeBase:stats:
     *
     * Fields, guint64 unless said otherwise, counted since the element left
     * READY; a slice is what one call of the engine took:
     *
     * - `slices`, `steps`: that the engine ran
     * - `frames`: of video, in or out; `dropped`: came too late and were not
     *   converted
     * - `in-flight` (guint): steps in the element
     * - `look-ahead` (guint): later latents that a frame waits for, 0 for most
     *   models; `waiting` (guint): frames that wait for them now
     * - `fps` (gdouble): frames per second from the first slice to the last
     * - `avg-KIND-ns`, `p95-KIND-ns`, `last-KIND-ns`, `total-KIND-ns`: the time
     *   per slice, where KIND is `upload` (what came in is put where the
     *   network reads it, converted or copied to the device), `compute` (the
     *   network), `download` (the way out), `slice` (the whole call) or
     *   `queue-wait` (from when its first step came in until it began). `p95`,
     *   which 95 of 100 do not exceed, is of the last 128 slices
     * - `nonfinite`: NaN and infinite values among the latents
     * - `nan-steps`, `mended-steps`: results that were not finite, and those
     *   of them that are in fp32 (#GstVaeBase:nan-policy)
     * - `bytes-weights`, `bytes-carries`, `bytes-arena`, `bytes-scratch`,
     *   `bytes-staging`, `bytes-library`, `bytes-fallback`, `bytes-total`:
     *   memory, as `vaetool plan` tells it; `bytes-spilled`: of the carries, in
     *   the host's memory and not in `bytes-total` (#GstVaeBase:spill)
     * - `rung` (string): the setting that these bytes are of, such as `slices
     *   of 1, 2 frames at once, the carries on the host`
     * - `backend`, `precision`, `device` (strings, the last the name of the GPU
     *   or the processor), `slice-size`, `frames-at-once` (guint; 0: all of a
     *   slice), `strips` (guint; 0: whole pictures) and `tiles` (guint; 0:
     *   none, else the output is not exact): what was chosen; `bytes-tiled`:
     *   of all tiles, in the host's memory
     */
    g_object_class_install_property(
        klass, PROP_STATS,
        g_param_spec_boxed("stats", "Statistics",
                           "Statistics since the element left READY: "
                           "counters, times of slices in nanoseconds, memory "
                           "by purpose in bytes, and the backend",
                           GST_TYPE_STRUCTURE,
                           G_PARAM_READABLE | G_PARAM_STATIC_STRINGS));
}

static void
install_messages(GObjectClass *klass)
{
    /**
     * GstVaeBase:post-stats:
     *
     * Posts an element message `vae-stats` with the fields of
     * #GstVaeBase:stats, as often as #GstVaeBase:stats-interval says and at the
     * end of the stream.
     */
    g_object_class_install_property(
        klass, PROP_POST_STATS,
        g_param_spec_boolean("post-stats", "Post Statistics",
                             "Post the statistics as an element message every "
                             "stats-interval and at the end of the stream",
                             FALSE, PLAYING));
    /**
     * GstVaeBase:stats-interval:
     *
     * Minimum time between two messages with statistics, and between two that
     * tell the progress through a file of known length.
     */
    g_object_class_install_property(
        klass, PROP_STATS_INTERVAL,
        g_param_spec_uint64("stats-interval", "Statistics Interval",
                            "Minimum time between two messages of statistics "
                            "or of progress, in nanoseconds (0 = a message for "
                            "every slice and every percent)",
                            0, G_MAXINT64, DEFAULT_STATS_INTERVAL, PLAYING));
}

static void
release_action(GstVaeBase *base)
{
    gst_vae_worker_release(&base->worker);
}

static void
install_release(GObjectClass *klass)
{
    /**
     * GstVaeBase:idle-release:
     *
     * After this time without a slice to compute, in any state, the memory of
     * the device is freed as with #GstVaeBase::release. 0: never.
     */
    g_object_class_install_property(
        klass, PROP_IDLE_RELEASE,
        g_param_spec_uint64("idle-release", "Idle Release",
                            "Time without work, in nanoseconds, after which "
                            "the memory of the device is freed until the next "
                            "slice (0 = never)",
                            0, G_MAXINT64 / 4, 0, PLAYING));
    /**
     * GstVaeBase:resume-timeout:
     *
     * If others hold the memory of the device when a slice wants it back, the
     * element first takes smaller slices, strips of rows, fewer frames at once
     * and spilled state, as the other properties allow. If that does not do,
     * it waits for
     * at most this time. A flush ends the wait.
     */
    g_object_class_install_property(
        klass, PROP_RESUME_TIMEOUT,
        g_param_spec_uint64("resume-timeout", "Resume Timeout",
                            "Maximum time, in nanoseconds, to wait for device "
                            "memory that was freed while there was no work",
                            0, MAX_RESUME_TIMEOUT, DEFAULT_RESUME_TIMEOUT,
                            PLAYING));
    /**
     * GstVaeBase::release:
     * @object: the element
     *
     * Frees the memory that the element holds on a device (weights,
     * activations, state), once it has computed what came in so far; the state
     * is kept in the memory of the host. The next slice reloads it and gives
     * the same bytes as without. Weights that another element of the process
     * computes with stay.
     *
     * May be emitted at any time and from any thread; it does not wait. The
     * element message `vae-release` tells when it was done: `released` (FALSE
     * on a backend without a device, which keeps its memory), and `idle` (TRUE
     * for #GstVaeBase:idle-release). If the device has no room for the
     * next slice within #GstVaeBase:resume-timeout, there is a
     * RESOURCE/NO_SPACE_LEFT error; after a flush the element tries again.
     */
    g_signal_new_class_handler("release", G_TYPE_FROM_CLASS(klass),
                               G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION,
                               G_CALLBACK(release_action), NULL, NULL, NULL,
                               G_TYPE_NONE, 0);
}

void
gst_vae_properties_install_report(GObjectClass *klass)
{
    install_stats(klass);
    install_messages(klass);
    install_release(klass);
}
