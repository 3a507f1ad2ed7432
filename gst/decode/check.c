/*
 * check.c: warns if the latents do not look like their stated normalization.
 */
#include <math.h>

#include "decode.h"

GST_DEBUG_CATEGORY_EXTERN(gst_vae_decode_debug);
#define GST_CAT_DEFAULT gst_vae_decode_debug

/* The first and the last latent of a sequence to check. Latent 0 is left out,
 * because it has one frame and half the spread of the others. */
#define FIRST_JUDGED 1
#define LAST_JUDGED 3

/*
 * The model: how one latent differs from the statistics of its space, in
 * standard deviations of the channel. The means are around 0. The logarithms of
 * the spreads are around that of SPREAD; they share a deviation for the latent
 * (flat or rich pictures), and each channel has one of its own. The numbers
 * allow for all sample clips, with latents multiplied by 0.1 to 2.
 */
#define MEAN_SD 0.5
#define SPREAD 0.8
#define COMMON_SD 0.5
#define OWN_SD 0.35

/* The other normalization must be more likely by MARGIN, in nats per channel
 * (sample clips with the wrong normalization have 1.1 or more), and its fit
 * must be at most GOOD_FIT. */
#define MARGIN 0.75
#define GOOD_FIT 1.5

typedef struct Channel {
    gdouble mean, log_spread;
} Channel;

static Channel
measure(const guint8 *data, VaeType type, gsize n)
{
    const gsize size = vae_type_size(type);
    gdouble sum = 0, squares = 0, mean;
    gfloat block[256];

    for (gsize i = 0; i < n; i += G_N_ELEMENTS(block)) {
        const gsize m = MIN(n - i, G_N_ELEMENTS(block));

        vae_type_to_float(block, data + i * size, type, m);
        for (gsize j = 0; j < m; j++) {
            sum += block[j];
            squares += (gdouble) block[j] * block[j];
        }
    }
    mean = sum / n;
    /* A constant channel counts as one with a spread of 0.001. */
    squares = MAX(squares / n - mean * mean, 1e-6);
    return (Channel){mean, log(squares) / 2};
}

/* Returns the logarithm of the likelihood of n channels, if numbers have these
 * means and standard deviations (NULL: 0 and 1). *fit: receives the squared
 * distance per degree of freedom, which is about 1 if the model is right. */
static gdouble
likelihood(const Channel *channels, gint n, const gfloat *mean,
           const gfloat *std, gdouble *fit)
{
    const gdouble own = OWN_SD * OWN_SD, common = COMMON_SD * COMMON_SD;
    gdouble means = 0, squares = 0, sum = 0, logs = 0, spreads;

    for (gint i = 0; i < n; i++) {
        const gdouble m = mean ? mean[i] : 0, s = std ? std[i] : 1;
        const gdouble off = (channels[i].mean - m) / (s * MEAN_SD);
        const gdouble wide = channels[i].log_spread - log(s * SPREAD);

        means += off * off;
        squares += wide * wide;
        sum += wide;
        logs += log(s);
    }
    /* The inverse of own * I + common * 1 1^T. */
    spreads = squares / own - common * sum * sum / (own * (own + n * common));
    *fit = (means + spreads) / (2 * n);
    return -(means + spreads) / 2 - logs;
}

/* Returns TRUE if the latent clearly does not have the stated normalization. */
static gboolean
looks_other(const Channel *channels, const VaeModelInfo *info,
            VaeNormalization declared)
{
    const gint n = info->latent_channels;
    gdouble fit[2], logs[2];

    logs[VAE_NORMALIZED] =
        likelihood(channels, n, NULL, NULL, &fit[VAE_NORMALIZED]);
    logs[VAE_RAW] =
        likelihood(channels, n, info->mean, info->std, &fit[VAE_RAW]);
    return logs[!declared] - logs[declared] > n * MARGIN &&
           fit[!declared] < GOOD_FIT;
}

static void
warn(GstVaeDecode *self, const VaeModelInfo *info, VaeNormalization declared)
{
    const gchar *other =
        vae_normalization_name(declared == VAE_RAW ? VAE_NORMALIZED : VAE_RAW);

    GST_ELEMENT_WARNING(
        self, STREAM, FORMAT,
        ("The latents are taken as %s, but look %s by the statistics of %s: "
         "set normalization=%s here or where the caps come from "
         "(latentdemux normalization=%s)",
         vae_normalization_name(declared), other, info->space, other, other),
        (NULL));
}

void
gst_vae_decode_check(GstVaeDecode *self, const GstVaeItem *item,
                     const VaeLatentIn *latent)
{
    const GstVaeSession *session = item->session;
    const VaeModelInfo *info = gst_vae_model_info(session->model);
    const gsize step = gst_vae_latent_info_step_size(&session->latent);
    const gsize plane = step / info->latent_channels;
    Channel channels[VAE_MAX_LATENT_CHANNELS];

    if (item->start)
        self->judged = 0;
    if (self->judged > LAST_JUDGED || self->judged++ < FIRST_JUDGED)
        return;
    for (gint i = 0; i < info->latent_channels; i++)
        channels[i] =
            measure((const guint8 *) latent->data + i * plane, latent->type,
                    plane / vae_type_size(latent->type));
    if (looks_other(channels, info, session->params.normalization)) {
        warn(self, info, session->params.normalization);
        self->judged = LAST_JUDGED + 1;
    }
}
