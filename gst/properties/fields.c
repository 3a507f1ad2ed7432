/*
 * fields.c: reads and sets properties whose values are plain fields of their
 * object.
 */
#include "fields.h"

#include "params.h"

/* Returns the field of a property, or warns and returns NULL if there is
 * none. */
static gpointer
find(const GstVaeField *fields, GObject *object, guint id, GParamSpec *spec)
{
    for (; fields->id != 0; fields++)
        if (fields->id == MIN(id, GST_VAE_PARAMS_ID))
            return G_STRUCT_MEMBER_P(object, fields->offset);
    G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    return NULL;
}

static void
set(gpointer field, const GValue *value)
{
    if (GST_VALUE_HOLDS_FRACTION(value)) {
        ((gint *) field)[0] = gst_value_get_fraction_numerator(value);
        ((gint *) field)[1] = gst_value_get_fraction_denominator(value);
    } else if (G_VALUE_HOLDS_STRING(value)) {
        g_free(*(gchar **) field);
        *(gchar **) field = g_value_dup_string(value);
    } else if (G_VALUE_HOLDS_UINT64(value)) {
        *(guint64 *) field = g_value_get_uint64(value);
    } else if (G_VALUE_HOLDS_UINT(value)) {
        *(guint *) field = g_value_get_uint(value);
    } else if (G_VALUE_HOLDS_ENUM(value)) {
        *(gint *) field = g_value_get_enum(value);
    } else if (G_VALUE_HOLDS_BOOLEAN(value)) {
        *(gint *) field = g_value_get_boolean(value);
    } else {
        *(gint *) field = g_value_get_int(value);
    }
}

static void
get(gconstpointer field, GValue *value)
{
    const gint *number = field;

    if (GST_VALUE_HOLDS_FRACTION(value))
        gst_value_set_fraction(value, number[0], number[1]);
    else if (G_VALUE_HOLDS_STRING(value))
        g_value_set_string(value, *(gchar *const *) field);
    else if (G_VALUE_HOLDS_UINT64(value))
        g_value_set_uint64(value, *(const guint64 *) field);
    else if (G_VALUE_HOLDS_UINT(value))
        g_value_set_uint(value, *(const guint *) field);
    else if (G_VALUE_HOLDS_ENUM(value))
        g_value_set_enum(value, *number);
    else if (G_VALUE_HOLDS_BOOLEAN(value))
        g_value_set_boolean(value, *number);
    else
        g_value_set_int(value, *number);
}

void
gst_vae_fields_set(const GstVaeField *fields, GObject *object, guint id,
                   const GValue *value, GParamSpec *spec)
{
    gpointer field = find(fields, object, id, spec);

    if (!field)
        return;
    GST_OBJECT_LOCK(object);
    if (id >= GST_VAE_PARAMS_ID)
        gst_vae_params_set(field, id, value);
    else
        set(field, value);
    GST_OBJECT_UNLOCK(object);
}

void
gst_vae_fields_get(const GstVaeField *fields, GObject *object, guint id,
                   GValue *value, GParamSpec *spec)
{
    gconstpointer field = find(fields, object, id, spec);

    if (!field)
        return;
    GST_OBJECT_LOCK(object);
    if (id >= GST_VAE_PARAMS_ID)
        gst_vae_params_get(field, id, value);
    else
        get(field, value);
    GST_OBJECT_UNLOCK(object);
}

/* The GType of a class holds its table, under this quark. */
static GQuark
table(void)
{
    return g_quark_from_static_string("gst-vae-fields");
}

static void
set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
    gst_vae_fields_set(g_type_get_qdata(spec->owner_type, table()), object, id,
                       value, spec);
}

static void
get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    gst_vae_fields_get(g_type_get_qdata(spec->owner_type, table()), object, id,
                       value, spec);
}

void
gst_vae_fields_install(GObjectClass *klass, const GstVaeField *fields)
{
    g_type_set_qdata(G_TYPE_FROM_CLASS(klass), table(), (gpointer) fields);
    klass->set_property = set_property;
    klass->get_property = get_property;
}
