/*
 * typefind.c: recognises safetensors, npy and PyTorch files by their content.
 */
#include "demux.h"

#include <string.h>

#include "vae-private/tensors.h"

/* The first tensor's entry begins within so many bytes unless its name is
 * absurd. */
#define SAFETENSORS_PEEK 4096

static gboolean
contains(const guint8 *data, gsize size, const gchar *word)
{
    return g_strstr_len((const gchar *) data, (gssize) size, word) != NULL;
}

/* The format has no magic: a plausible header length, then JSON with one of
 * the keys that every such header has. */
static void
find_safetensors(GstTypeFind *find, gpointer data)
{
    const guint8 *head = gst_type_find_peek(find, 0, 9);
    if (!head || head[8] != '{')
        return;
    const guint64 length = GST_READ_UINT64_LE(head);
    if (length < 2 || length > VAE_MAX_HEADER)
        return;
    gsize n = MIN(8 + length, SAFETENSORS_PEEK);
    const guint64 total = gst_type_find_get_length(find);
    if (total > 0)
        n = MIN(n, total);
    /* Without a known length fewer bytes than expected may be at hand. */
    while (!(head = gst_type_find_peek(find, 0, n)) && n > 32)
        n /= 2;
    if (head && (contains(head + 8, n - 8, "\"dtype\"") ||
                 contains(head + 8, n - 8, "\"__metadata__\"")))
        gst_type_find_suggest_empty_simple(find, GST_TYPE_FIND_LIKELY,
                                           "application/x-safetensors");
}

static void
find_npy(GstTypeFind *find, gpointer data)
{
    const guint8 *head = gst_type_find_peek(find, 0, 6);
    if (head && memcmp(head, "\x93NUMPY", 6) == 0)
        gst_type_find_suggest_empty_simple(find, GST_TYPE_FIND_MAXIMUM,
                                           "application/x-npy");
}

/* A zip file whose first entry is "NAME/data.pkl". Other zip files are
 * application/zip. */
static void
find_torch(GstTypeFind *find, gpointer data)
{
    const guint8 *head = gst_type_find_peek(find, 0, 30);
    if (!head || memcmp(head, "PK\3\4", 4) != 0)
        return;
    const guint n = GST_READ_UINT16_LE(head + 26);
    const guint8 *name = gst_type_find_peek(find, 30, MAX(n, 1));
    if (name && n >= 9 && memcmp(name + n - 9, "/data.pkl", 9) == 0)
        gst_type_find_suggest_empty_simple(find, GST_TYPE_FIND_MAXIMUM,
                                           "application/x-pytorch");
}

static gboolean
add(GstPlugin *plugin, const gchar *type, GstTypeFindFunction find,
    const gchar *endings)
{
    GstCaps *caps = gst_caps_new_empty_simple(type);
    const gboolean ok = gst_type_find_register(plugin, type, GST_RANK_PRIMARY,
                                               find, endings, caps, NULL, NULL);
    gst_caps_unref(caps);
    return ok;
}

gboolean
gst_vae_latent_typefind_register(GstPlugin *plugin)
{
    return add(plugin, "application/x-safetensors", find_safetensors,
               "safetensors,latent") &&
           add(plugin, "application/x-npy", find_npy, "npy") &&
           add(plugin, "application/x-pytorch", find_torch, "pt,pth");
}
