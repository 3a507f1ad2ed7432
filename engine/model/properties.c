/*
 * properties.c: properties of a file of weights, for recognise().
 */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "model.h"

bool
vae_model_rename(const VaeModel *model, const char *name, char *buffer)
{
    if (model->naming && model->arch->rename)
        return model->arch->rename(model->naming, name, buffer);
    return snprintf(buffer, 256, "%s", name) < 256;
}

const VaeTensorInfo *
vae_model_find(const VaeModel *model, const char *name)
{
    char renamed[256];
    if (!model->file || !vae_model_rename(model, name, renamed))
        return NULL;
    return vae_tensor_file_find(model->file, renamed);
}

int
vae_model_dim(const VaeModel *model, int dim, const char *format, ...)
{
    char name[200];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const VaeTensorInfo *t = vae_model_find(model, name);
    if (!t || dim >= t->n_dims || t->dims[dim] > 65536)
        return 0;
    return (int) t->dims[dim];
}

/* Tensors of the file whose first dimension is n. */
static size_t
count_wide(const VaeModel *m, int n)
{
    size_t count = 0;
    for (size_t i = 0; i < vae_tensor_file_count(m->file); i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(m->file, i);
        count += t->n_dims > 0 && t->dims[0] == n;
    }
    return count;
}

int
vae_model_likelier(const VaeModel *model, int a, int b)
{
    if (a == b || b == 0)
        return a;
    if (a == 0)
        return b;
    return count_wide(model, b) > count_wide(model, a) ? b : a;
}

int
vae_model_width(const VaeModel *model, const char *format, ...)
{
    char name[200];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return vae_model_likelier(model, vae_model_dim(model, 0, "%s.bias", name),
                              vae_model_dim(model, 0, "%s.weight", name));
}

bool
vae_model_has_prefix(const VaeModel *model, const char *prefix)
{
    return vae_tensor_file_has_prefix(model->file, prefix);
}

bool
vae_model_has_block(const VaeModel *model, const char *format, ...)
{
    char name[200], renamed[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return vae_model_rename(model, name, renamed) &&
           vae_tensor_file_has_prefix(model->file, renamed);
}

bool
vae_model_meta_number(const VaeModel *model, const char *key, double *out)
{
    const char *text = vae_tensor_file_metadata(model->file, key);
    if (text) {
        char *end;
        *out = strtod(text, &end);
        if (end == text || *end != '\0')
            *out = (double) NAN;
        return true;
    }
    const json_t *value = json_object_get(model->config, key);
    if (!value || json_is_null(value))
        return false;
    *out = json_is_number(value) ? json_number_value(value) : (double) NAN;
    return true;
}

bool
vae_model_config(const VaeModel *model, json_t **out, VaeError *error)
{
    const char *text = vae_tensor_file_metadata(model->file, "config");
    *out = text ? NULL : json_incref(model->config);
    return !text || vae_json_load(text, strlen(text), "config in __metadata__",
                                  "", out, error) == VAE_OK;
}

const char *
vae_model_variant(const VaeModel *model)
{
    if (model->variant)
        return model->variant;
    const char *text = vae_tensor_file_metadata(model->file, "vae.variant");
    return text ? text : vae_tensor_file_metadata(model->file, "variant");
}

void
vae_listing_add(VaeListing *list, const char *format, ...)
{
    const size_t length = strlen(list->text);
    const int most = list->most ? list->most : VAE_LISTED;
    if (list->count++ >= most || length + 80 > sizeof list->text)
        return;
    char item[160];
    va_list args;
    va_start(args, format);
    vsnprintf(item, sizeof item, format, args);
    va_end(args);
    snprintf(list->text + length, sizeof list->text - length, "%s%s",
             length ? ", " : "", item);
}
