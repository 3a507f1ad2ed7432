/*
 * The safetensors format: a little-endian u64 with the length of the header,
 * the header in JSON, the data. The header maps names of tensors to
 * {"dtype", "shape", "data_offsets": [begin, end]}, counted from the end of the
 * header, and "__metadata__" to strings. The tensors cover the data exactly.
 */
#include "alloc.h"
#include "files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8
/* The format nests three deep; unknown keys may nest deeper. */
#define MAX_DEPTH 8

/* Element types and their widths. A tensor takes whole bytes, also with
 * elements of less than 8 bits. */
static const struct {
    const char *name;
    int bits;
    bool supported;
    VaeType type;
} dtypes[] = {
    {"F32", 32, true, VAE_TYPE_F32},
    {"F16", 16, true, VAE_TYPE_F16},
    {"BF16", 16, true, VAE_TYPE_BF16},
    {"U8", 8, true, VAE_TYPE_U8},
    {"F64", 64, true, VAE_TYPE_F64},
    {"I64", 64, false, 0},
    {"U64", 64, false, 0},
    {"C64", 64, false, 0},
    {"I32", 32, false, 0},
    {"U32", 32, false, 0},
    {"I16", 16, false, 0},
    {"U16", 16, false, 0},
    {"I8", 8, false, 0},
    {"BOOL", 8, false, 0},
    {"F8_E4M3", 8, false, 0},
    {"F8_E5M2", 8, false, 0},
    {"F8_E8M0", 8, false, 0},
    {"F8_E4M3FNUZ", 8, false, 0},
    {"F8_E5M2FNUZ", 8, false, 0},
    {"F6_E2M3", 6, false, 0},
    {"F6_E3M2", 6, false, 0},
    {"F4", 4, false, 0},
};

/* The tensor that an error is about. */
typedef struct Place {
    const char *label, *tensor;
    VaeError *error;
} Place;

/* Fails with VAE_ERR_FORMAT and "file: tensor "name": what". */
static VaeStatus VAE_PRINTF(2, 3)
    fail_at(const Place *at, const char *format, ...)
{
    char what[640];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return vae_fail_parts(
        at->error, VAE_ERR_FORMAT, (VaeErrorParts){.tensor = at->tensor},
        "%s: tensor \"%.*s\": %s", at->label, VAE_NAME_SHOWN, at->tensor, what);
}

#define FILES "safetensors, npy or PyTorch file"

static uint64_t
read_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

VaeStatus
vae_safetensors_need(const uint8_t *bytes, size_t size, uint64_t total,
                     const char *label, uint64_t *need, VaeError *error)
{
    if (size < LENGTH_BYTES + 2)
        return vae_fail(error, VAE_ERR_FORMAT, "%s: %s, too short for a " FILES,
                        label, VAE_COUNTED(size, "byte"));
    const uint64_t length = read_u64(bytes);
    const bool plausible = length >= 2 && length <= VAE_MAX_HEADER;
    const char *advice = "", *other = NULL;
    if (!plausible || bytes[LENGTH_BYTES] != '{')
        other = vae_file_other(bytes, size, &advice);
    if (other)
        return vae_mismatch(error, VAE_ERR_FORMAT, NULL,
                            "%s: is {%s}; expected a {=" FILES "}%s", label,
                            other, advice);
    if (!plausible)
        return vae_fail_parts(
            error, VAE_ERR_FORMAT, (VaeErrorParts){.expected = FILES},
            "%s: no " FILES ": the first 8 bytes "
            "state a header of %s, expected 2 to %zu",
            label, VAE_COUNTED(length, "byte"), VAE_MAX_HEADER);
    if (bytes[LENGTH_BYTES] != '{')
        return vae_fail_parts(
            error, VAE_ERR_FORMAT, (VaeErrorParts){.expected = FILES},
            "%s: no " FILES
            ": the header begins with byte 0x%02x, expected '{'",
            label, bytes[LENGTH_BYTES]);
    *need = LENGTH_BYTES + length;
    char what[48];
    snprintf(what, sizeof what, "a header of %" PRIu64 " bytes", length);
    return *need <= total
               ? VAE_OK
               : vae_file_too_short(label, "", what, total, *need, error);
}

/*
 * Limits the nesting (the JSON reader recurses) and the number of objects and
 * arrays (each takes two bytes in the file, but some hundred in memory). A
 * tensor has three of them in 50 bytes or more.
 */
static VaeStatus
check_nesting(const char *text, size_t n, const char *label, const char *part,
              VaeError *error)
{
    const size_t most = 16 + n / 16;
    size_t depth = 0, containers = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (c == '"')
            quoted = !quoted;
        else if (quoted && c == '\\')
            i++;
        else if (!quoted && (c == '{' || c == '[')) {
            depth++;
            containers++;
        } else if (!quoted && (c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > MAX_DEPTH)
            return vae_fail(error, VAE_ERR_FORMAT,
                            "%s: %snested deeper than %d at byte %zu", label,
                            part, MAX_DEPTH, i);
        if (containers > most)
            return vae_fail(error, VAE_ERR_FORMAT,
                            "%s: %smore than %zu objects and arrays in "
                            "%zu bytes, too many for a list of tensors",
                            label, part, most, n);
    }
    return VAE_OK;
}

static VaeStatus
parse_metadata(VaeTensorFile *file, json_t *value, VaeError *error)
{
    if (!json_is_object(value))
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: header: __metadata__ is no object of strings",
                        file->label);
    const char *key;
    json_t *text;
    json_object_foreach(value, key, text)
    {
        if (!json_is_string(text))
            return vae_fail(error, VAE_ERR_FORMAT,
                            "%s: header: the value of \"%.*s\" in __metadata__ "
                            "is no string",
                            file->label, VAE_NAME_SHOWN, key);
    }
    file->metadata = value;
    return VAE_OK;
}

static VaeStatus
parse_dtype(const Place *at, const json_t *entry, VaeTensorInfo *info,
            int *bits)
{
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (name == NULL)
        return fail_at(at, "no \"dtype\" with a string");
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(name, dtypes[i].name) != 0)
            continue;
        info->type_name = dtypes[i].name;
        info->supported = dtypes[i].supported;
        info->type = dtypes[i].type;
        *bits = dtypes[i].bits;
        return VAE_OK;
    }
    return fail_at(at, "dtype \"%.*s\" is not known", VAE_NAME_SHOWN, name);
}

static VaeStatus
parse_shape(const Place *at, const json_t *entry, VaeTensorInfo *info)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return fail_at(at, "no \"shape\" with an array");
    const size_t n = json_array_size(shape);
    if (n > VAE_MAX_DIMS)
        return fail_at(at, "shape has %zu dimensions, at most %d are read", n,
                       VAE_MAX_DIMS);
    info->n_dims = (int) n;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(shape, i);
        info->dims[i] = json_integer_value(value);
        if (!json_is_integer(value) || info->dims[i] < 0)
            return fail_at(at, "shape[%zu] is no integer of 0 or more", i);
    }
    return VAE_OK;
}

static const char *
shape_text(const VaeTensorInfo *info, char text[200])
{
    return vae_dims_text(info->dims, info->n_dims, text, 200);
}

/* The offsets are checked, except for the end of the file. */
static VaeStatus
fail_past_end(const Place *at, const json_t *pair, uint64_t data_start,
              uint64_t total)
{
    char what[640];
    const json_int_t begin = json_integer_value(json_array_get(pair, 0));
    const json_int_t end = json_integer_value(json_array_get(pair, 1));
    snprintf(what, sizeof what,
             "tensor \"%.*s\": data_offsets [%lld, %lld], counted from byte "
             "%" PRIu64 ",",
             VAE_NAME_SHOWN, at->tensor, (long long) begin, (long long) end,
             data_start);
    return vae_file_too_short(at->label, at->tensor, what, total,
                              data_start + (uint64_t) end, at->error);
}

/* Reads data_offsets and checks them against the shape. */
static VaeStatus
parse_offsets(const Place *at, const json_t *entry, int bits,
              uint64_t data_start, uint64_t total, VaeTensorInfo *info)
{
    const json_t *pair = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(pair, 0);
    const json_t *second = json_array_get(pair, 1);
    const json_int_t begin = json_integer_value(first);
    const json_int_t end = json_integer_value(second);
    if (json_array_size(pair) != 2 || !json_is_integer(first) ||
        !json_is_integer(second) || begin < 0 || end < 0)
        return fail_at(at,
                       "no \"data_offsets\" with two integers of 0 or more");
    if (begin > end)
        return fail_at(at, "data_offsets [%lld, %lld] end before they begin",
                       (long long) begin, (long long) end);
    if (total != VAE_TOTAL_UNKNOWN && (uint64_t) end > total - data_start)
        return fail_past_end(at, pair, data_start, total);

    char text[200];
    uint64_t count, n_bits;
    if (!vae_dims_count(info->dims, info->n_dims, &count) ||
        __builtin_mul_overflow(count, (uint64_t) bits, &n_bits))
        return fail_at(at, "shape %s of %s does not fit in 64 bits",
                       shape_text(info, text), info->type_name);
    if (n_bits % 8 != 0)
        return fail_at(at, "shape %s of %s takes no whole number of bytes",
                       shape_text(info, text), info->type_name);
    info->offset = data_start + (uint64_t) begin;
    info->bytes = (uint64_t) (end - begin);
    if (info->bytes != n_bits / 8)
        return fail_at(at,
                       "data_offsets [%lld, %lld] hold %" PRIu64
                       " bytes, shape %s of %s needs %" PRIu64,
                       (long long) begin, (long long) end, info->bytes,
                       shape_text(info, text), info->type_name, n_bits / 8);
    return VAE_OK;
}

static VaeStatus
parse_tensor(VaeTensorFile *file, const char *name, const json_t *entry,
             uint64_t data_start, VaeTensorInfo *info, VaeError *error)
{
    const Place at = {file->label, name, error};
    if (!json_is_object(entry))
        return fail_at(&at, "no object with dtype, shape and data_offsets");
    info->name = name;
    int bits = 0;
    VaeStatus status = parse_dtype(&at, entry, info, &bits);
    if (status == VAE_OK)
        status = parse_shape(&at, entry, info);
    if (status == VAE_OK)
        status = parse_offsets(&at, entry, bits, data_start, file->total, info);
    return status;
}

static int
compare_offsets(const void *a, const void *b)
{
    const VaeTensorInfo *x = *(const VaeTensorInfo *const *) a;
    const VaeTensorInfo *y = *(const VaeTensorInfo *const *) b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Checks that each byte of the data belongs to exactly one tensor. */
static VaeStatus
check_cover(VaeTensorFile *file, uint64_t data_start, VaeError *error)
{
    const size_t n = file->n_tensors;
    for (size_t i = 0; i < n; i++)
        file->sorted[i] = &file->tensors[i];
    if (n > 0)
        qsort(file->sorted, n, sizeof(VaeTensorInfo *), compare_offsets);
    uint64_t end = data_start;
    for (size_t i = 0; i < n; i++) {
        const VaeTensorInfo *info = file->sorted[i];
        const Place at = {file->label, info->name, error};
        if (info->offset < end)
            return fail_at(&at,
                           "its data begins at %" PRIu64
                           ", inside of tensor \"%.*s\" that ends at %" PRIu64,
                           info->offset - data_start, VAE_NAME_SHOWN,
                           file->sorted[i - 1]->name, end - data_start);
        if (info->offset > end)
            return fail_at(&at,
                           "its data begins at %" PRIu64 ", bytes %" PRIu64
                           " to %" PRIu64 " before it belong to no tensor",
                           info->offset - data_start, end - data_start,
                           info->offset - data_start - 1);
        end += info->bytes;
    }
    if (file->total != VAE_TOTAL_UNKNOWN && end != file->total)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: the last %s of the file (%s) belong to no tensor",
                        file->label, VAE_COUNTED(file->total - end, "byte"),
                        VAE_COUNTED(file->total, "byte"));
    return VAE_OK;
}

/* The key that ends before `end`, with its quotes and escapes. */
static const char *
key_before(const char *text, size_t end, size_t *length)
{
    size_t at = end;
    if (at > 0)
        at--;
    while (at > 0) {
        size_t escapes = 0;
        at--;
        while (escapes < at && text[at - 1 - escapes] == '\\')
            escapes++;
        if (text[at] == '"' && escapes % 2 == 0)
            break;
    }
    *length = end - at;
    return text + at;
}

/*
 * jansson 2.14 ends the process if it has no memory to lengthen a string with
 * an escape. Therefore this checks first that the most it can need is
 * available.
 */
static bool
has_room(const char *text, size_t n)
{
    if (!memchr(text, '\\', n))
        return true;
    void *room = vae_mem_alloc(4 * n);
    vae_mem_free(room);
    return room != NULL;
}

VaeStatus
vae_json_load(const char *text, size_t n, const char *label, const char *part,
              json_t **out, VaeError *error)
{
    *out = NULL;
    const VaeStatus status = check_nesting(text, n, label, part, error);
    if (status != VAE_OK)
        return status;
    json_error_t problem = {0};
    /* Without memory, the reader reports an error in the text. */
    errno = has_room(text, n) ? 0 : ENOMEM;
    if (errno == 0)
        *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &problem);
    if (*out == NULL && errno == ENOMEM)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s: no memory for %zu bytes of JSON", label, n);
    if (*out == NULL && json_error_code(&problem) == json_error_duplicate_key) {
        size_t length;
        const char *key = key_before(text, (size_t) problem.position, &length);
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: %sduplicate key %.*s (byte %d)", label, part,
                        length < VAE_NAME_SHOWN ? (int) length : VAE_NAME_SHOWN,
                        key, problem.position);
    }
    if (*out == NULL)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: %sno valid JSON: %s (byte %d)", label, part,
                        problem.text, problem.position);
    return VAE_OK;
}

/* An open recording states that its one tensor has no rows. It has as many as
 * the file holds as a whole; the bytes after them do not count. In a stream of
 * unknown length it may have any number, so it has the largest one. */
static void
complete_recording(VaeTensorFile *file, uint64_t data_start)
{
    const char *state = vae_tensor_file_metadata(file, "vae.recording");
    VaeTensorInfo *info = &file->tensors[0];
    uint64_t row;
    if (state == NULL || strcmp(state, "open") != 0 || file->n_tensors != 1 ||
        !info->supported || info->n_dims < 2 || info->dims[0] != 0 ||
        info->offset != data_start)
        return;
    if (!vae_dims_count(info->dims + 1, info->n_dims - 1, &row) || row == 0 ||
        __builtin_mul_overflow(row, (uint64_t) vae_type_size(info->type), &row))
        return;
    if (file->total == VAE_TOTAL_UNKNOWN) {
        if (row <= INT64_MAX / VAE_MAX_LATENTS) {
            info->dims[0] = VAE_MAX_LATENTS;
            info->bytes = VAE_MAX_LATENTS * row;
        }
        return;
    }
    info->dims[0] = (int64_t) ((file->total - data_start) / row);
    info->bytes = (uint64_t) info->dims[0] * row;
    file->total = data_start + info->bytes;
}

VaeStatus
vae_safetensors_parse(VaeTensorFile *file, VaeError *error)
{
    const uint64_t length = read_u64(file->bytes);
    const uint64_t data_start = LENGTH_BYTES + length;
    char part[48];
    snprintf(part, sizeof part, "header of %" PRIu64 " bytes: ", length);
    VaeStatus status =
        vae_json_load((const char *) file->bytes + LENGTH_BYTES,
                      (size_t) length, file->label, part, &file->header, error);
    if (status != VAE_OK)
        return status;
    json_t *metadata = json_object_get(file->header, "__metadata__");
    if (metadata != NULL)
        status = parse_metadata(file, metadata, error);
    if (status != VAE_OK)
        return status;
    const size_t n = json_object_size(file->header) - (metadata != NULL);
    status = vae_tensor_file_room(file, n, error);
    if (status != VAE_OK)
        return status;

    size_t i = 0;
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry)
    {
        if (entry == metadata)
            continue;
        status = parse_tensor(file, name, entry, data_start,
                              &file->tensors[i++], error);
        if (status != VAE_OK)
            return status;
    }
    complete_recording(file, data_start);
    return check_cover(file, data_start, error);
}
