/*
 * error.h: converts the engine's errors to GStreamer's.
 */
#ifndef GST_VAE_ERROR_H
#define GST_VAE_ERROR_H

#include <gst/gst.h>

#include "vae-private/status.h"

G_BEGIN_DECLS

/* Converts the error of an engine call. This is the only place that chooses the
 * domain and the code. (transfer full) */
GError *gst_vae_error_to_gerror(const VaeError *error);

/* Returns the members tensor, found and expected of an error as a structure, or
 * NULL if all are empty. (transfer full) */
GstStructure *gst_vae_error_parts(const VaeError *error);

/* Returns the details of a message, so that an application need not parse its
 * text. An argument is NULL if it is unknown. (transfer full) */
GstStructure *gst_vae_error_context(const gchar *model, const gchar *space);

/* Posts an error as a message of that type and frees it. context: further
 * fields of the message's details; may be NULL. (takes context) */
void gst_vae_post(GstElement *element, GstMessageType type, GError *error,
                  GstStructure *context);
/* Posts it as an error message. */
void gst_vae_post_gerror(GstElement *element, GError *error,
                         GstStructure *context);
/* Posts a WARNING about the input. file: its name, or NULL. line: begins with a
 * small letter. debug: or NULL. */
void gst_vae_warn_input(GstElement *element, const gchar *file,
                        const gchar *line, const gchar *debug);
/* Posts an INFO message. */
void gst_vae_inform(GstElement *element, const gchar *format, ...)
    G_GNUC_PRINTF(2, 3);

G_END_DECLS
#endif
