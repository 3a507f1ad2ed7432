/*
 * latent.h: the caps of a latent stream, read and made.
 *
 * video/x-vae-latent: one buffer holds `frames` latents (1 where unsaid) of
 * channels x latent-height x latent-width elements of `type`, little endian
 * and packed. framerate, width and height are those of the decoded video.
 */
#ifndef GST_VAE_LATENT_H
#define GST_VAE_LATENT_H

#include <gst/gst.h>

#include "vae-private/types.h"

G_BEGIN_DECLS

/* A custom query downstream: `latents` (gint) is how many latents behind its
 * own a frame of the decoder depends on. */
#define GST_VAE_LOOK_AHEAD_QUERY "vae-look-ahead"

#define GST_VAE_LATENT_NAME "video/x-vae-latent"
#define GST_VAE_LATENT_CODEC "VAE latents" /* of the tag video-codec */

/* For pad templates. The optional fields stay out, so that caps without them
 * are a subset as well. */
#define GST_VAE_LATENT_CAPS                                                    \
    GST_VAE_LATENT_NAME ", "                                                   \
                        "type = (string) { float32, float16, bfloat16 }, "     \
                        "channels = (int) [ 1, 1024 ], "                       \
                        "latent-width = (int) [ 1, 16384 ], "                  \
                        "latent-height = (int) [ 1, 16384 ]"

#define GST_VAE_LATENT_MAX_FRAMES 65535
#define GST_VAE_LATENT_MAX_GRID 16384 /* as above */
#define GST_VAE_MAX_PIXELS 65535      /* of video, each way */
/* Frames per second. Shorter frames would not be far apart among times that
 * are rounded to a microsecond; longer ones would end beyond all times. */
#define GST_VAE_RATES "1/3600 to 100000/1"

typedef enum {
    GST_VAE_LATENT_CHW, /* one latent a buffer */
    GST_VAE_LATENT_TCHW,
    GST_VAE_LATENT_CTHW
} GstVaeLatentLayout;

/* Fields of raw video that the network knows nothing of, as GStreamer writes
 * them. Latents keep them for the video that they become. */
typedef enum {
    GST_VAE_COLORIMETRY,   /* that YUV would have: "bt709" */
    GST_VAE_CHROMA_SITE,   /* that 4:2:0 and 4:2:2 would have: "mpeg2" */
    GST_VAE_MASTERING,     /* of the display that HDR was made on */
    GST_VAE_CONTENT_LIGHT, /* the brightest pixel and picture of HDR */
    GST_VAE_N_WORDS
} GstVaeWords;

/* Type, channels, latent_width and latent_height are always set; the rest is
 * 0 or empty where the caps do not say. */
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
    gint frames; /* latents a buffer, 1 or more */
} GstVaeLatentInfo;

/* Nothing stated: zeros, float32, normalized, chw, one latent a buffer. */
void gst_vae_latent_info_init(GstVaeLatentInfo *info);

/*
 * Reads fixed caps. On failure error (may be NULL) is a
 * gst_vae_set_mismatch() whose message names the field, what it holds and
 * what is allowed; info is then not to be used.
 */
gboolean gst_vae_latent_info_from_caps(const GstCaps *caps,
                                       GstVaeLatentInfo *info, GError **error);

/* The reverse; fields that are not stated are left out. (transfer full) */
GstCaps *gst_vae_latent_info_to_caps(const GstVaeLatentInfo *info);

/* TRUE: the rate is one of GST_VAE_RATES. */
gboolean gst_vae_rate_is_possible(gint n, gint d);

/* Bytes of one latent, and of one buffer. */
gsize gst_vae_latent_info_step_size(const GstVaeLatentInfo *info);
gsize gst_vae_latent_info_size(const GstVaeLatentInfo *info);

/* The field of the caps, and the key in the metadata of a file. */
const gchar *gst_vae_words_field(GstVaeWords which);
const gchar *gst_vae_words_key(GstVaeWords which);
/* Takes words that GStreamer understands; FALSE: it does not, or NULL. */
gboolean gst_vae_latent_info_set_words(GstVaeLatentInfo *info,
                                       GstVaeWords which, const gchar *words);

/* Bits per second of the latents, as GST_TAG_BITRATE has them; 0: not known. */
guint gst_vae_latent_info_bitrate(const GstVaeLatentInfo *info);

/* "float16" and so on to the type; FALSE for other words and for types that
 * no latent has. */
gboolean gst_vae_latent_type_from_string(const gchar *word, VaeType *type);

G_END_DECLS
#endif
