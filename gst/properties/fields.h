/*
 * fields.h: properties that are stored in a member of their object.
 */
#ifndef GST_VAE_FIELDS_H
#define GST_VAE_FIELDS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* The member of a property: a gint for booleans, integers and enums, two gints
 * for a fraction, else guint, guint64 or an owned string. That of
 * GST_VAE_PARAMS_ID is a VaeStreamParams. Guarded by the object lock. */
typedef struct GstVaeField {
    guint id; /* property id; 0 ends a table */
    gulong offset;
} GstVaeField;

#define GST_VAE_FIELD(id, Type, member)                                        \
    {                                                                          \
        id, G_STRUCT_OFFSET(Type, member)                                      \
    }

/* Set and get the member of a property. They warn if the table has none. */
void gst_vae_fields_set(const GstVaeField *fields, GObject *object, guint id,
                        const GValue *value, GParamSpec *spec);
void gst_vae_fields_get(const GstVaeField *fields, GObject *object, guint id,
                        GValue *value, GParamSpec *spec);

/* For a class whose properties are all in the table. */
void gst_vae_fields_install(GObjectClass *klass, const GstVaeField *fields);

G_END_DECLS
#endif
