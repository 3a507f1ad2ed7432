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
     * A structure with these fields. A field without a type is a guint64. All
     * counts start when the element leaves READY. A slice is one call of the
     * engine.
     *
     * - `slices`, `steps`: number of slices and of steps computed
     * - `frames`: number of frames of video, in or out
     * - `dropped`: number of frames that were too late and were not converted
     * - `in-flight` (guint): number of steps in the element
     * - `look-ahead` (guint): number of later latents that a frame of a decoder
     *   waits for, or of later groups of frames for a latent of an encoder; 0
     *   for causal networks
     * - `waiting` (guint): number of frames, or latents, that wait for them now
     * - `fps` (gdouble): frames per second, from the first slice to the last
     * - `avg-KIND-ns`, `p95-KIND-ns`, `last-KIND-ns`, `total-KIND-ns`: times of
     *   a slice. `p95` is the 95th percentile of the last 128 slices. KIND is
     *   `upload` (converting the input, or copying it to the device), `compute`
     *   (the network), `download` (the way of the results out), `slice` (the
     *   whole call), or `queue-wait` (the wait of the slice's first step for
     *   this call)
     * - `nonfinite`: number of NaN and infinite values among the latents
     * - `nan-steps`: number of steps whose results were not finite
     *   (#GstVaeBase:nan-policy)
     * - `recovered-steps`: number of such steps that were recovered in fp32
     * - `bytes-weights`, `bytes-carries`, `bytes-activations`, `bytes-scratch`,
     *   `bytes-staging`, `bytes-library`, `bytes-ops`, `bytes-fallback`,
     *   `bytes-total`: memory by purpose, as `vaetool plan` prints it
     * - `bytes-spilled`: carries in host memory (#GstVaeBase:spill), which are
     *   not in `bytes-total`
     * - `memory-setting` (string): the setting that these bytes are of, such as
     * `slices of 1, 2 frames at once, the carries on the host`
     * - `backend`, `precision` (string): backend and precision in use
     * - `device` (string): name of the GPU or the processor
     * - `model` (string): the file of the model in use
     * - `slice-size` (guint): maximum number of steps in a slice
     * - `frames-at-once` (guint): number of frames that the layers at the full
     *   frame rate compute at once; 0: all of a slice
     * - `strips` (guint): number of strips of rows; 0: whole pictures
     * - `tiles` (guint): number of tiles, whose output is not exact; 0: none
     * - `bytes-tiled`: memory of the host for all tiles
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
     * #GstVaeBase:stats, every #GstVaeBase:stats-interval and at the end of the
     * stream.
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
     * Minimum time between two messages with statistics, and between two
     * PROGRESS messages of a file of known length.
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
     * Time without a slice, after which the element frees the memory of the
     * device, as with #GstVaeBase::release. It does so in every state. 0:
     * never.
     */
    g_object_class_install_property(
        klass, PROP_IDLE_RELEASE,
        g_param_spec_uint64("idle-release", "Idle Release",
                            "Time without work, in nanoseconds, after which "
                            "the memory of the device is freed until more data "
                            "arrives (0 = never)",
                            0, G_MAXINT64 / 4, 0, PLAYING));
    /**
     * GstVaeBase:resume-timeout:
     *
     * Maximum time to wait for the memory of the device after it was freed by
     * #GstVaeBase::release or #GstVaeBase:idle-release. If too little memory is
     * free for the next slice, the element first tries smaller settings:
     * smaller slices, strips of rows, fewer frames at once and spilled carries,
     * as the other properties allow. If none fits, it waits until one fits. A
     * flush ends the wait.
     */
    g_object_class_install_property(
        klass, PROP_RESUME_TIMEOUT,
        g_param_spec_uint64("resume-timeout", "Resume Timeout",
                            "Maximum time, in nanoseconds, to wait for device "
                            "memory when data arrives after the signal release "
                            "or idle-release freed it",
                            0, MAX_RESUME_TIMEOUT, DEFAULT_RESUME_TIMEOUT,
                            PLAYING));
    /**
     * GstVaeBase::release:
     * @object: the element
     *
     * Frees the memory of the element on the device. The element first computes
     * everything that has arrived. Then it frees the weights, the activations
     * and the state on the device, and keeps the weights and the state in host
     * memory. The next slice allocates the memory again and gives the same
     * bytes as without a release. Weights that another element of the process
     * uses stay allocated.
     *
     * May be emitted at any time and from any thread; the signal does not wait.
     * The element message `vae-release` says when the memory is free. Its field
     * `released` is FALSE if the backend has no device, because nothing is
     * freed then. Its field `idle` is TRUE for #GstVaeBase:idle-release. If the
     * device has too little memory for the next slice during all of
     * #GstVaeBase:resume-timeout, the element posts a RESOURCE/NO_SPACE_LEFT
     * error. After a flush the element tries again.
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
