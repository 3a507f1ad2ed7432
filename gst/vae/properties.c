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
        base->choice.requested = TRUE;
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
     * Path of the weights. The element opens, recognises and checks the file
     * when it changes from READY to PAUSED. If the file contains no known
     * model, the element posts a RESOURCE/OPEN_READ error that names the
     * content of the file. Elements with the same file share one copy of the
     * weights.
     *
     * While the element runs, the property may be set to another file of the
     * same latent space. The new model takes over at the next start of a
     * sequence. In vaedecode, #GstVaeDecode::restart makes it take over at the
     * next latent. The element then posts the element message `vae-switch`. It
     * opens the new model before it frees the memory of the old one. If the
     * file is broken or has another latent space, or if there is too little
     * memory for both models, the element posts a WARNING and keeps the old
     * model. The property then has its previous value again.
     *
     * If the property is not set, the latent space selects the file
     * `gst-vae/models/SPACE.safetensors` in the XDG data folders. For the space
     * `gst-vae-demo`, the bundled demo model is used if no file is installed.
     * An encoder takes the latent space from the caps behind it. If they name
     * none, the encoder uses the only installed model. If no model is
     * installed, it uses the demo model.
     */
    g_object_class_install_property(
        klass, PROP_MODEL,
        g_param_spec_string("model", "Model",
                            "Location of the weights: a file, or a folder that "
                            "diffusers wrote (NULL = the file that is "
                            "installed for the latent space). A change while "
                            "playing takes effect at the next start of a "
                            "sequence",
                            NULL, PLAYING));
    /**
     * GstVaeBase:variant:
     *
     * Selects the model if the shapes of the weights fit several models.
     */
    g_object_class_install_property(
        klass, PROP_VARIANT,
        g_param_spec_string(
            "variant", "Variant",
            "Name of the model, if the shapes of the weights fit all models "
            "of one of these groups: taew2_1, taehv, taecvx, taeos1_3, "
            "lighttaew2_1; taew2_2, lighttaew2_2; taeltx_2, taeltx2_3; "
            "ltx2.3, ltx2.0; sd, sdxl; flux1, sd3; taesd, taesdxl; taef1, "
            "taesd3 (NULL = the one that the file or its name states, "
            "else the first of the group)",
            NULL, READY));
}

static void
install_backend(GObjectClass *klass)
{
    /**
     * GstVaeBase:backend:
     *
     * Backend that computes the network. `auto` selects the first of `cuda`,
     * `cpu` and `ref` that works on this machine. If another value is set and
     * this backend does not work, the element posts an error that names the
     * missing part.
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
     * backends ignore the index. If it is above 0 and `auto` cannot use the
     * `cuda` backend, the element posts a WARNING.
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
     * Number of threads of the `cpu` backend; `ref` always has one.
     */
    g_object_class_install_property(
        klass, PROP_THREADS,
        g_param_spec_uint(
            "threads", "Threads",
            "Number of threads of the cpu backend (0 = one for each "
            "logical processor that the process may use)",
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
                          "Type of the numbers inside the network",
                          GST_TYPE_VAE_PRECISION, VAE_PRECISION_AUTO, READY));
    /**
     * GstVaeBase:nan-policy:
     *
     * Action if the results of the network are NaN or infinite, but its input
     * was finite. `pass`, the default, does not check the results. `fallback`
     * computes such a step again in fp32. This needs a second stream in fp32
     * and a copy of the carries (`bytes-fallback` of #GstVaeBase:stats). In a
     * precision of 32 bits, `fallback` only counts such steps. `error` posts an
     * error after the frames before the first such step have left. It computes
     * one step at a time.
     */
    g_object_class_install_property(
        klass, PROP_NAN_POLICY,
        g_param_spec_enum("nan-policy", "NaN Policy",
                          "Action to take if numbers overflow inside the "
                          "network, so that its results are NaN or infinite",
                          GST_TYPE_VAE_NAN_POLICY, VAE_NAN_PASS, READY));
    /**
     * GstVaeBase:deterministic:
     *
     * If set, every run on one machine gives the same bytes. If not set, the
     * engine may choose the fastest algorithms by timing.
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
     * Maximum number of steps that one call of the engine computes. A step is
     * one latent, or the frames of one latent. A call takes the steps that wait
     * in the element and does not wait for more. The slice size changes speed
     * and memory, but not the output. 0 selects the largest of 4, 2 and 1 that
     * fits into memory (#GstVaeBase:memory-limit). In a live pipeline, and for
     * pictures of 1280x720 pixels and more, 0 selects 1.
     */
    g_object_class_install_property(
        klass, PROP_SLICE_SIZE,
        g_param_spec_uint("slice-size", "Slice Size",
                          "Maximum number of latents to compute at once. A "
                          "larger number is faster, but frames leave later; "
                          "the output is the same (0 = the largest of 4, 2, 1 "
                          "that fits into memory; 1 in a live pipeline and for "
                          "pictures of 1280x720 pixels and more)",
                          0, GST_VAE_MAX_SLICE, 0, READY));
    /**
     * GstVaeBase:memory-limit:
     *
     * Maximum memory of the network, on the GPU for the `cuda` backend and on
     * the host for the others. The value is `auto`, a number of bytes (`12G`
     * and `800M` count in powers of 1024), or a part of the memory that is free
     * when the stream starts (`75%`). `auto` takes at most 90 percent of the
     * free memory. The smallest settings may take all of it.
     *
     * The element selects the first of these settings that fits: smaller slices
     * (unless #GstVaeBase:slice-size is set), strips of rows, fewer frames at
     * once, carries in host memory (#GstVaeBase:spill). If none fits, it posts
     * a RESOURCE/NO_SPACE_LEFT error that names settings that would fit.
     */
    g_object_class_install_property(
        klass, PROP_MEMORY_LIMIT,
        g_param_spec_string(
            "memory-limit", "Memory Limit",
            "Maximum memory for the network: auto (at most 90% "
            "of the free memory), a size such as 12G, or a part of "
            "the free memory such as 75%. The output is the "
            "same with less memory",
            DEFAULT_MEMORY_LIMIT, READY));
    /**
     * GstVaeBase:spill:
     *
     * Carries that the `cuda` backend keeps in host memory. A carry is the
     * state of one layer between two steps. Spilling frees memory of the GPU,
     * but the GPU then waits for copies of the carries in every step. The
     * output is the same. `auto` first selects smaller slices. If these do not
     * fit either, it spills as many carries as necessary, the largest first.
     */
    g_object_class_install_property(
        klass, PROP_SPILL,
        g_param_spec_enum("spill", "Spill",
                          "Which carries (the state of the network between "
                          "two latents) are kept in host memory. This frees "
                          "memory of the GPU and takes time",
                          GST_TYPE_VAE_SPILL, VAE_SPILL_AUTO, READY));
}

static void
install_flow(GObjectClass *klass)
{
    /**
     * GstVaeBase:queue-depth:
     *
     * Maximum number of slices in the element before upstream has to wait.
     */
    g_object_class_install_property(
        klass, PROP_QUEUE_DEPTH,
        g_param_spec_uint("queue-depth", "Queue Depth",
                          "Maximum number of slices (up to slice-size latents "
                          "each) in the element before upstream has to wait",
                          1, MAX_QUEUE_DEPTH, DEFAULT_QUEUE_DEPTH, PLAYING));
    /**
     * GstVaeBase:qos:
     *
     * Handles quality-of-service events. The decoder computes every latent,
     * because the next one needs the state. It drops frames that are too late
     * before the conversion to video, and posts a QOS message for each. It
     * always sends at least one frame a second, and the last frame of the
     * segment. The encoder passes the events upstream. If `qos` is not set, it
     * drops them.
     */
    g_object_class_install_property(
        klass, PROP_QOS,
        g_param_spec_boolean("qos", "QoS",
                             "Handle Quality-of-Service events from "
                             "downstream. A decoder drops frames that come "
                             "too late. An encoder passes the events upstream",
                             TRUE, PLAYING));
}

static void
install_tiles(GObjectClass *klass)
{
    /**
     * GstVaeBase:tiles:
     *
     * `blend` computes a picture in tiles if it does not fit into memory
     * (#GstVaeBase:memory-limit) in any other setting. Slices smaller than
     * #GstVaeBase:slice-size come before tiles. Each tile is computed as if it
     * were the whole picture, and tiles are blended where they overlap. The
     * result is not exact, because normalizations and attention see only their
     * tile; the element posts a WARNING. Tiles do not work with
     * #GstVaeBase:nan-policy `fallback`, or with a decoder that looks ahead
     * (LTX-2).
     */
    g_object_class_install_property(
        klass, PROP_TILES,
        g_param_spec_enum("tiles", "Tiles",
                          "Tiles for pictures that do not fit into memory "
                          "otherwise; the output is then not exact",
                          GST_TYPE_VAE_TILES, VAE_TILES_OFF, READY));
    /**
     * GstVaeBase:tile-width:
     *
     * Width of a tile in pixels with #GstVaeBase:tiles. It is a multiple of the
     * width of a latent pixel. If this property or #GstVaeBase:tile-height is
     * set, every picture that is larger than a tile is computed in tiles.
     */
    g_object_class_install_property(
        klass, PROP_TILE_WIDTH,
        g_param_spec_int("tile-width", "Tile Width",
                         "Width of tiles in pixels (0 = tile-height). If both "
                         "are 0, tiles are used only if nothing else fits, and "
                         "are as large as the memory allows",
                         0, G_MAXUINT16, 0, READY));
    /**
     * GstVaeBase:tile-height:
     *
     * Height of a tile in pixels; see #GstVaeBase:tile-width.
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
                         "Overlap of tiles in pixels (0 = 1/4 of the shorter "
                         "side of a tile, for SeedVR2 1/8; -1 = no overlap)",
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
