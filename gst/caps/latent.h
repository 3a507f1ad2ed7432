/*
 * latent.h: reads and writes the caps of a latent stream.
 *
 * video/x-vae-latent: one buffer holds `frames` latents (1 by default) of
 * channels x latent-height x latent-width elements of `type`, little endian
 * and packed. framerate, width and height are those of the decoded video.
 */
#ifndef GST_VAE_LATENT_H
#define GST_VAE_LATENT_H

#include <gst/gst.h>

#include "vae-private/counts.h"
#include "vae-private/types.h"

G_BEGIN_DECLS

/* A custom query downstream, about the decoder. `latents` (gint) is the number
 * of later latents on which one of its frames depends. The members of
 * GstVaeDecoderFacts are fields of the same names. */
#define GST_VAE_LOOK_AHEAD_QUERY "vae-look-ahead"
/* A custom query upstream, about the file of the latents. `channels` (gint):
 * those that the model expects. The answer has `advice` (gchararray):
 * vae_axes_advice(). `normalization` (gboolean): the file states that of the
 * caps; FALSE: nobody does; without it, a property does. */
#define GST_VAE_STATED_QUERY "vae-stated"
/* Facts of the decoder's model, see VaeModelInfo; all 0: no model is open.
 * After a seek, frames are exact if decoding begins look_back latents earlier
 * or more. If window is not 0, it has to begin at a multiple of window, too.
 * own_normalization: a property of the decoder overrides that of the caps. */
typedef struct GstVaeDecoderFacts {
    gint latent_channels, temporal, chunk, fps_n, fps_d, look_back, window;
    gboolean own_normalization;
} GstVaeDecoderFacts;
/* Field of a DRAIN query that asks for the frames of the decoder alone, and not
 * for those that wait downstream of it. */
#define GST_VAE_DRAIN_DECODER "vae-decoder"

#define GST_VAE_LATENT_NAME "video/x-vae-latent"
#define GST_VAE_LATENT_CODEC "VAE latents" /* of the tag video-codec */

#define GST_VAE_LATENT_MAX_FRAMES 65535
#define GST_VAE_LATENT_MAX_GRID 16384 /* of latents, each way */
#define GST_VAE_MAX_PIXELS 65535      /* of video, each way */
#define GST_VAE_MAX_TEXT "at most " G_STRINGIFY(GST_VAE_MAX_PIXELS) " each way"
/* The range of frame rates. With higher rates, times in microseconds could not
 * distinguish frames. With lower rates, times could overflow. */
#define GST_VAE_RATES "1/3600 to 100000/1"

typedef enum {
    GST_VAE_LATENT_CHW, /* one latent a buffer */
    GST_VAE_LATENT_TCHW,
    GST_VAE_LATENT_CTHW
} GstVaeLatentLayout;

/* Returns the template of a pad for latents. Its first structure has only the
 * required fields, so that caps without the optional ones are a subset. The
 * second tells people the ranges of the optional fields. more: further caps, or
 * NULL. */
GstPadTemplate *gst_vae_latent_template(const gchar *name,
                                        GstPadDirection direction,
                                        const gchar *more);

/* Fields of raw video that the network does not use, as GStreamer writes them.
 * Latents keep them for the decoded video. */
typedef enum {
    GST_VAE_COLORIMETRY,   /* for YUV: "bt709" */
    GST_VAE_CHROMA_SITE,   /* for 4:2:0 and 4:2:2: "mpeg2" */
    GST_VAE_MASTERING,     /* the mastering display of HDR video */
    GST_VAE_CONTENT_LIGHT, /* the content light level of HDR video */
    GST_VAE_N_WORDS
} GstVaeWords;

/* type, channels, latent_width and latent_height are always set. The other
 * members are 0 or empty if the caps do not state them. */
typedef struct GstVaeLatentInfo {
    VaeType type;
    gint channels, latent_width, latent_height;
    gint width, height; /* visible pixels of the decoded video */
    gchar space[64];    /* "wan2.1" */
    VaeNormalization normalization;
    gboolean normalization_stated;
    gint fps_n, fps_d; /* of the decoded video; fps_d 0: not stated */
    gint par_n, par_d; /* par_d 0: not stated */
    gchar words[GST_VAE_N_WORDS][112]; /* "": not stated */
    gint temporal_factor, first_frames;
    GstVaeLatentLayout layout;
    gint frames;             /* latents in a buffer, at least 1 */
    gboolean layout_guessed; /* of the file, and so also channels */
    gboolean rate_assumed;   /* nobody stated fps_n, fps_d */
} GstVaeLatentInfo;

/* Sets the defaults: zeros, float32, normalized, chw, one latent in a buffer.
 */
void gst_vae_latent_info_init(GstVaeLatentInfo *info);

/*
 * Reads fixed caps. On failure, error (which may be NULL) is a
 * gst_vae_set_mismatch() whose message names the field, its value and the
 * allowed values; info is then undefined.
 */
gboolean gst_vae_latent_info_from_caps(const GstCaps *caps,
                                       GstVaeLatentInfo *info, GError **error);

/* Makes caps from info, without unstated fields. (transfer full) */
GstCaps *gst_vae_latent_info_to_caps(const GstVaeLatentInfo *info);

/* Returns TRUE if the rate is in GST_VAE_RATES. */
gboolean gst_vae_rate_is_possible(gint n, gint d);

/* Return the bytes of a latent, and of a buffer. */
gsize gst_vae_latent_info_step_size(const GstVaeLatentInfo *info);
gsize gst_vae_latent_info_size(const GstVaeLatentInfo *info);

/* Return the name of the caps field, and the key in a file's metadata. */
const gchar *gst_vae_words_field(GstVaeWords which);
const gchar *gst_vae_words_key(GstVaeWords which);
/* Sets words that GStreamer understands. Returns FALSE for other words and
 * NULL.
 */
gboolean gst_vae_latent_info_set_words(GstVaeLatentInfo *info,
                                       GstVaeWords which, const gchar *words);

/* Asks upstream of a sink pad about the file of the latents. Returns the answer
 * to GST_VAE_STATED_QUERY, or NULL if no file is upstream. (transfer full) */
GstStructure *gst_vae_latent_ask_file(GstPad *pad, gint channels);

/* Returns the bits per second of the latents for GST_TAG_BITRATE, or 0 if
 * unknown. */
guint gst_vae_latent_info_bitrate(const GstVaeLatentInfo *info);

/* Converts a word such as "float16" to a type. Returns FALSE for unknown words
 * and for types that latents cannot have. */
gboolean gst_vae_latent_type_from_string(const gchar *word, VaeType *type);

G_END_DECLS
#endif
