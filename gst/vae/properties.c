/*
 * properties.c: defines the properties that both elements have.
 */
#include "properties.h"

#include "enums.h"
#include "fields.h"
#include "property_ids.h"

#define DEFAULT_MEMORY_LIMIT "auto"
#define DEFAULT_QUEUE_DEPTH 2
#define MAX_QUEUE_DEPTH 8
#define MAX_THREADS 1024

void
gst_vae_properties_init(GstVaeBase *base)
{
    base->settings.memory_limit = g_strdup(DEFAULT_MEMORY_LIMIT);
    base->settings.resume_timeout = DEFAULT_RESUME_TIMEOUT;
    base->queue.depth = DEFAULT_QUEUE_DEPTH;
    base->stats.interval = DEFAULT_STATS_INTERVAL;
}

static const GstVaeField fields[] = {
    GST_VAE_FIELD(PROP_MODEL, GstVaeBase, choice.property),
    GST_VAE_FIELD(PROP_VARIANT, GstVaeBase, worker.loader.variant),
    GST_VAE_FIELD(PROP_BACKEND, GstVaeBase, cuda.backend),
    GST_VAE_FIELD(PROP_CUDA_DEVICE_ID, GstVaeBase, cuda.device_id),
    GST_VAE_FIELD(PROP_PRECISION, GstVaeBase, settings.precision),
    GST_VAE_FIELD(PROP_SLICE_SIZE, GstVaeBase, settings.slice_size),
    GST_VAE_FIELD(PROP_QUEUE_DEPTH, GstVaeBase, queue.depth),
    GST_VAE_FIELD(PROP_THREADS, GstVaeBase, settings.threads),
    GST_VAE_FIELD(PROP_DETERMINISTIC, GstVaeBase, settings.deterministic),
    GST_VAE_FIELD(PROP_QOS, GstVaeBase, qos.enabled),
    GST_VAE_FIELD(PROP_POST_STATS, GstVaeBase, stats.post),
    GST_VAE_FIELD(PROP_STATS_INTERVAL, GstVaeBase, stats.interval),
    GST_VAE_FIELD(PROP_IDLE_RELEASE, GstVaeBase, worker.idle_release),
    GST_VAE_FIELD(PROP_NAN_POLICY, GstVaeBase, settings.nan_policy),
    GST_VAE_FIELD(PROP_SPILL, GstVaeBase, settings.spill),
    GST_VAE_FIELD(PROP_TILES, GstVaeBase, settings.tiles),
    GST_VAE_FIELD(PROP_TILE_WIDTH, GstVaeBase, settings.tile_width),
    GST_VAE_FIELD(PROP_TILE_HEIGHT, GstVaeBase, settings.tile_height),
    GST_VAE_FIELD(PROP_TILE_OVERLAP, GstVaeBase, settings.tile_overlap),
    GST_VAE_FIELD(PROP_MEMORY_LIMIT, GstVaeBase, settings.memory_limit),
    GST_VAE_FIELD(PROP_RESUME_TIMEOUT, GstVaeBase, settings.resume_timeout),
    {0}};

static void
set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
    GstVaeBase *base = GST_VAE_BASE(object);

    gst_vae_fields_set(fields, object, id, value, spec);
    if (id == PROP_MODEL) {
        GST_OBJECT_LOCK(base);
        base->choice.wanted = TRUE;
        GST_OBJECT_UNLOCK(base);
    }
    /* Threads that wait for room or for the time to release look again. */
    if (id == PROP_QUEUE_DEPTH || id == PROP_IDLE_RELEASE) {
        g_mutex_lock(&base->queue.lock);
        g_cond_broadcast(&base->queue.cond);
        g_mutex_unlock(&base->queue.lock);
    }
}

static void
get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    GstVaeBase *base = GST_VAE_BASE(object);

    if (id == PROP_STATS)
        g_value_take_boxed(
            value, gst_vae_stats_structure(
                       &base->stats, gst_vae_queue_n_steps(&base->queue)));
    else
        gst_vae_fields_get(fields, object, id, value, spec);
}

static void
install_model(GObjectClass *klass)
{
    /**
     * GstVaeBase:model:
     *
     * Path of the weights. The file is opened, recognised and checked on
     * READY to PAUSED; a file that holds no known model is a
     * RESOURCE/OPEN_READ error that names what was found. Elements with the
     * same file share one copy.
     *
     * While the element runs, another file of the same latent space takes over
     * at the next start of a sequence (for vaedecode also at once, with
     * #GstVaeDecode::restart), and the element message `vae-switch` says so.
     * The element opens the new model before it frees the memory of the old
     * one. A model that it cannot take (a broken file, another latent space,
     * too little memory for both) is a WARNING; the property goes back to its
     * value before.
     *
     * Where it is not set, the latent space picks the file:
     * `gst-vae/models/SPACE.safetensors` in the XDG data folders, then, for
     * the space `gst-vae-demo` only, the bundled demo. An encoder that is
     * told nothing takes the only installed model, or the demo if there is
     * none.
     */
    g_object_class_install_property(
        klass, PROP_MODEL,
        g_param_spec_string("model", "Model",
                            "Location of the weights, a file or a folder of "
                            "diffusers (NULL = the file installed for the "
                            "latent space); a change while playing takes "
                            "effect at the next start of a sequence",
                            NULL, PLAYING));
    /**
     * GstVaeBase:variant:
     *
     * Which of several models a file holds, where its shapes cannot tell.
     */
    g_object_class_install_property(
        klass, PROP_VARIANT,
        g_param_spec_string(
            "variant", "Variant",
            "Name of the model for weights whose shapes fit several: taew2_1, "
            "taehv, taecvx, taeos1_3, lighttaew2_1; taew2_2, lighttaew2_2; "
            "taeltx_2, taeltx2_3; ltx2.3, ltx2.0 (NULL = as the file says, "
            "else the first)",
            NULL, READY));
}

static void
install_backend(GObjectClass *klass)
{
    /**
     * GstVaeBase:backend:
     *
     * Computes the network. `auto` takes the fastest one that works on this
     * machine. Another value asks for that one: where the build or the machine
     * lacks it, there is an error that says what is missing.
     */
    g_object_class_install_property(
        klass, PROP_BACKEND,
        g_param_spec_enum("backend", "Backend",
                          "Backend that computes the network",
                          GST_TYPE_VAE_BACKEND, VAE_BACKEND_AUTO, READY));
    /**
     * GstVaeBase:cuda-device-id:
     *
     * CUDA device index for the `cuda` backend; -1 selects device 0. The other
     * backends do not read it; where `auto` has to take one of them, there is a
     * WARNING.
     */
    g_object_class_install_property(
        klass, PROP_CUDA_DEVICE_ID,
        g_param_spec_int("cuda-device-id", "CUDA Device ID",
                         "CUDA device index for the cuda backend "
                         "(-1 = device 0)",
                         -1, G_MAXINT, -1, READY));
    /**
     * GstVaeBase:threads:
     *
     * Threads of the `cpu` and `ref` backends.
     */
    g_object_class_install_property(
        klass, PROP_THREADS,
        g_param_spec_uint("threads", "Threads",
                          "Number of threads that compute on the CPU "
                          "(0 = as many as the process may use)",
                          0, MAX_THREADS, 0, READY));
}

static void
install_numbers(GObjectClass *klass)
{
    /**
     * GstVaeBase:precision:
     *
     * Type of the numbers inside the network.
     */
    g_object_class_install_property(
        klass, PROP_PRECISION,
        g_param_spec_enum("precision", "Precision",
                          "Type of the numbers inside the network (auto = to "
                          "decode bf16 where it is faster, else fp32; to "
                          "encode fp32, on cuda tf32)",
                          GST_TYPE_VAE_PRECISION, VAE_PRECISION_AUTO, READY));
    /**
     * GstVaeBase:nan-policy:
     *
     * Action where the network overflows and its results are NaN or infinite,
     * though the input was not. `fallback` takes a second stream in fp32 and a
     * copy of the carries (`bytes-fallback` of #GstVaeBase:stats), therefore it
     * is not the default; where the precision is not of 16 bits there is
     * nothing to fall back to. `error` computes one step at a time, so that the
     * frames before the first bad one leave; the error follows them.
     */
    g_object_class_install_property(
        klass, PROP_NAN_POLICY,
        g_param_spec_enum("nan-policy", "NaN Policy",
                          "Action to take when numbers overflow inside the "
                          "network and results are NaN or infinite",
                          GST_TYPE_VAE_NAN_POLICY, VAE_NAN_PASS, READY));
    /**
     * GstVaeBase:deterministic:
     *
     * Every run on one machine gives the same bytes, also where a faster way
     * is chosen by timing otherwise.
     */
    g_object_class_install_property(
        klass, PROP_DETERMINISTIC,
        g_param_spec_boolean("deterministic", "Deterministic",
                             "Do not choose algorithms by timing, so that "
                             "every run gives the same bytes",
                             FALSE, READY));
}

static void
install_memory(GObjectClass *klass)
{
    /**
     * GstVaeBase:slice-size:
     *
     * Steps (latents after the first) that one engine call may take. A call
     * takes what waits and never waits for more. The output does not depend
     * on it; speed and memory do. 0 takes the largest of 4, 2 and 1 that fits
     * into memory (#GstVaeBase:memory-limit), and 1 behind a live source and
     * for pictures of 1280x720 pixels and more.
     */
    g_object_class_install_property(
        klass, PROP_SLICE_SIZE,
        g_param_spec_uint("slice-size", "Slice Size",
                          "Maximum number of latents to compute at once: more "
                          "are faster and come later, the output is the same "
                          "(0 = automatic: the largest of 4, 2 and 1 that fits "
                          "into memory, 1 when live and from 1280x720 up)",
                          0, GST_VAE_MAX_SLICE, 0, READY));
    /**
     * GstVaeBase:memory-limit:
     *
     * The most memory that the network may take: `auto`, a number of bytes with
     * or without a unit of 1024 (`12G`, `800M`), or a part of what is free when
     * the stream starts (`75%`). It is memory of the GPU for the `cuda` backend
     * and of the host for the others. `auto` takes what is free, but at most 90
     * percent of it unless nothing smaller fits.
     *
     * The element takes the largest slices within the limit, unless
     * #GstVaeBase:slice-size is set, then computes strips of rows and fewer
     * frames at once, then spills carries (#GstVaeBase:spill). If nothing
     * fits, there is a
     * RESOURCE/NO_SPACE_LEFT error that names settings that would fit.
     */
    g_object_class_install_property(
        klass, PROP_MEMORY_LIMIT,
        g_param_spec_string("memory-limit", "Memory Limit",
                            "Maximum memory for the network: auto (what is "
                            "free), a size such as 12G, or a part of what is "
                            "free such as 75%; smaller slices take less and "
                            "give the same output",
                            DEFAULT_MEMORY_LIMIT, READY));
    /**
     * GstVaeBase:spill:
     *
     * Carries of the `cuda` backend that are in the host's memory. They free
     * memory of the GPU, which then waits for copies of them in every step. The
     * output is the same. `auto` first takes smaller slices, and spills what
     * then is too much, the largest carries first.
     */
    g_object_class_install_property(
        klass, PROP_SPILL,
        g_param_spec_enum("spill", "Spill",
                          "Carries to keep in the host's memory instead of the "
                          "GPU's; it makes room on the GPU and costs time",
                          GST_TYPE_VAE_SPILL, VAE_SPILL_AUTO, READY));
}

static void
install_flow(GObjectClass *klass)
{
    /**
     * GstVaeBase:queue-depth:
     *
     * Slices that may wait in the element before upstream has to.
     */
    g_object_class_install_property(
        klass, PROP_QUEUE_DEPTH,
        g_param_spec_uint("queue-depth", "Queue Depth",
                          "Maximum number of slices in the element before "
                          "upstream has to wait",
                          1, MAX_QUEUE_DEPTH, DEFAULT_QUEUE_DEPTH, PLAYING));
    /**
     * GstVaeBase:qos:
     *
     * Handles quality-of-service events. The decoder computes every frame,
     * because the next ones need it, but does not convert those that come too
     * late, and posts a QOS message for each. It always sends one frame a
     * second and the last one of the segment. The encoder passes the events
     * upstream; without `qos` it keeps them to itself.
     */
    g_object_class_install_property(
        klass, PROP_QOS,
        g_param_spec_boolean("qos", "QoS",
                             "Handle Quality-of-Service events from "
                             "downstream: a decoder drops frames that come "
                             "too late, an encoder passes the events upstream",
                             TRUE, PLAYING));
}

static void
install_tiles(GObjectClass *klass)
{
    /**
     * GstVaeBase:tiles:
     *
     * `blend` computes a picture in tiles if it fits into memory in no other
     * way (#GstVaeBase:memory-limit), not even in slices smaller than
     * #GstVaeBase:slice-size. Each tile is computed as if it were the
     * whole picture, and tiles are blended where they overlap. The result is
     * not exact, which a WARNING says: normalizations and attention see only
     * their tile. Not with `fallback` of #GstVaeBase:nan-policy, nor for
     * decoding with a model that looks ahead (LTX-2).
     */
    g_object_class_install_property(
        klass, PROP_TILES,
        g_param_spec_enum("tiles", "Tiles",
                          "Tiles for pictures that fit into memory in no "
                          "other way; their output is not exact",
                          GST_TYPE_VAE_TILES, VAE_TILES_OFF, READY));
    /**
     * GstVaeBase:tile-width:
     *
     * With #GstVaeBase:tiles, the width of a tile in pixels, a multiple of
     * those of a latent pixel. Where it or #GstVaeBase:tile-height is set,
     * larger pictures are always in tiles.
     */
    g_object_class_install_property(
        klass, PROP_TILE_WIDTH,
        g_param_spec_int("tile-width", "Tile Width",
                         "Width of tiles in pixels (0 = tile-height; if both "
                         "are 0, as large as fits, and only if nothing else "
                         "fits)",
                         0, G_MAXUINT16, 0, READY));
    /**
     * GstVaeBase:tile-height:
     *
     * The height, as #GstVaeBase:tile-width.
     */
    g_object_class_install_property(
        klass, PROP_TILE_HEIGHT,
        g_param_spec_int("tile-height", "Tile Height",
                         "Height of tiles in pixels (0 = tile-width)", 0,
                         G_MAXUINT16, 0, READY));
    /**
     * GstVaeBase:tile-overlap:
     *
     * Pixels that two neighbouring tiles share, at most half of a tile.
     */
    g_object_class_install_property(
        klass, PROP_TILE_OVERLAP,
        g_param_spec_int("tile-overlap", "Tile Overlap",
                         "Overlap of tiles in pixels (0 = as in the network's "
                         "own pipeline, 1/4 or 1/8 of a tile; -1 = none)",
                         -1, G_MAXUINT16, 0, READY));
}

void
gst_vae_properties_install(GObjectClass *klass)
{
    klass->set_property = set_property;
    klass->get_property = get_property;
    install_model(klass);
    install_backend(klass);
    install_numbers(klass);
    install_memory(klass);
    install_flow(klass);
    install_tiles(klass);
    gst_vae_properties_install_report(klass);
}
