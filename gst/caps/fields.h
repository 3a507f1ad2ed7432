/*
 * fields.h: properties whose values are plain fields of their object.
 */
#ifndef GST_VAE_FIELDS_H
#define GST_VAE_FIELDS_H

#include <gst/gst.h>

G_BEGIN_DECLS

/* The field of a property: a gint for booleans, integers and enums, two in a
 * row for a fraction, else guint, guint64 or an owned string. Under the object
 * lock. */
typedef struct GstVaeField {
    guint id; /* of the property; 0 ends a table */
    gulong offset;
} GstVaeField;

#define GST_VAE_FIELD(id, Type, member)                                        \
    {                                                                          \
        id, G_STRUCT_OFFSET(Type, member)                                      \
    }

/* Set and get the field of a property; they warn where the table has none. */
void gst_vae_fields_set(const GstVaeField *fields, GObject *object, guint id,
                        const GValue *value, GParamSpec *spec);
void gst_vae_fields_get(const GstVaeField *fields, GObject *object, guint id,
                        GValue *value, GParamSpec *spec);

G_END_DECLS
#endif
