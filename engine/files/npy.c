/*
 * The npy format: magic, version, the length of the header, the header as the
 * text of a Python dictionary with the keys descr, fortran_order and shape,
 * and the array.
 */
#include "files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
/* Usual headers have some 120 bytes; the longest that this reader accepts has
 * fewer than 1000. */
#define MAX_HEADER 65536

/* A position in the header's text. */
typedef struct Scan {
    const char *begin, *at, *end;
    const char *label;
    VaeError *error;
} Scan;

bool
vae_npy_is(const uint8_t *bytes, size_t size)
{
    return size >= MAGIC_BYTES && memcmp(bytes, MAGIC, MAGIC_BYTES) == 0;
}

/* Bytes before the text: the length has two bytes in version 1, four in later
 * versions. */
static size_t
prefix_size(const uint8_t *bytes)
{
    return bytes[MAGIC_BYTES] == 1 ? 10 : 12;
}

VaeStatus
vae_npy_need(const uint8_t *bytes, size_t size, uint64_t total,
             const char *label, uint64_t *need, VaeError *error)
{
    if (size < 12)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: npy: %s, too short for a header", label,
                        VAE_COUNTED(size, "byte"));
    const int major = bytes[MAGIC_BYTES], minor = bytes[MAGIC_BYTES + 1];
    if (major < 1 || major > 3 || minor != 0)
        return vae_mismatch(
            error, VAE_ERR_FORMAT, NULL,
            "%s: npy: version {%d.%d}, expected {=1.0, 2.0 or 3.0}", label,
            major, minor);
    uint32_t length = (uint32_t) bytes[8] | (uint32_t) bytes[9] << 8;
    if (major > 1)
        length |= (uint32_t) bytes[10] << 16 | (uint32_t) bytes[11] << 24;
    if (length > MAX_HEADER)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: npy: a header of %" PRIu32
                        " bytes, at most %d are read",
                        label, length, MAX_HEADER);
    *need = prefix_size(bytes) + length;
    char what[48];
    snprintf(what, sizeof what, "npy: a header of %" PRIu32 " bytes", length);
    return *need <= total
               ? VAE_OK
               : vae_file_too_short(label, "", what, total, *need, error);
}

static bool
fail_scan(const Scan *s, const char *expected)
{
    const int shown = s->end - s->at < 12 ? (int) (s->end - s->at) : 12;
    vae_mismatch(s->error, VAE_ERR_FORMAT, NULL,
                 "%s: npy: header, byte %zu: found \"{%.*s}\", expected {=%s}",
                 s->label, (size_t) (s->at - s->begin), shown, s->at, expected);
    return false;
}

static void
skip_space(Scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n'))
        s->at++;
}

/* Skips spaces; takes c if it is next. */
static bool
accept(Scan *s, char c)
{
    skip_space(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool
expect(Scan *s, char c, const char *expected)
{
    return accept(s, c) || fail_scan(s, expected);
}

static bool
accept_word(Scan *s, const char *word)
{
    const size_t length = strlen(word);
    skip_space(s);
    if ((size_t) (s->end - s->at) < length || memcmp(s->at, word, length) != 0)
        return false;
    s->at += length;
    return true;
}

/* Reads a string without escapes, of fewer than size bytes. */
static bool
scan_string(Scan *s, char *out, size_t size, const char *expected)
{
    skip_space(s);
    const Scan start = *s;
    const char quote = s->at < s->end ? *s->at : '\0';
    if (quote != '\'' && quote != '"')
        return fail_scan(s, expected);
    s->at++;
    size_t used = 0;
    for (; s->at < s->end && *s->at != quote; s->at++) {
        if (used + 1 >= size || *s->at <= ' ' || *s->at >= 0x7f ||
            *s->at == '\\')
            return fail_scan(&start, expected);
        out[used++] = *s->at;
    }
    out[used] = '\0';
    return expect(s, quote, "a closing quote");
}

static bool
scan_integer(Scan *s, int64_t *out)
{
    skip_space(s);
    const Scan start = *s;
    int64_t v = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, *s->at - '0', &v))
            return fail_scan(&start, "a number of at most 63 bits");
    }
    *out = v;
    return s->at > start.at || fail_scan(s, "a number of 0 or more");
}

/* Reads "()", "(3,)", "(3, 4)" or "(3, 4,)"; "(3)" is a number in Python. */
static bool
scan_shape(Scan *s, VaeTensorInfo *info)
{
    bool comma = true;
    info->n_dims = 0;
    if (!expect(s, '(', "'(' of the shape"))
        return false;
    while (!accept(s, ')')) {
        if (!comma)
            return fail_scan(s, "',' or ')' in the shape");
        if (info->n_dims == VAE_MAX_DIMS)
            return fail_scan(s, "')': at most 8 dimensions are read");
        if (!scan_integer(s, &info->dims[info->n_dims++]))
            return false;
        comma = accept(s, ',');
    }
    return info->n_dims != 1 || comma || fail_scan(s, "(n,) as the shape");
}

static bool
fail_type(const Scan *s, const char *descr, const char *what)
{
    char words[40];
    const bool named =
        strcmp(vae_type_words(descr, words, sizeof words), descr);
    vae_mismatch(s->error, VAE_ERR_FORMAT, NULL,
                 "%s: npy: element type '{%s}' %s%s%s; expected {=float32, "
                 "float16 or float64, or uint8 for frames, in little-endian "
                 "order}",
                 s->label, words, what, named ? ": descr is " : "",
                 named ? descr : "");
    return false;
}

/* Reads byte order, kind and size of an element. Refuses other kinds: records,
 * text, objects, times. Sets info->bytes to the size of one element. */
static bool
read_descr(const Scan *s, const char *descr, VaeTensorInfo *info)
{
    static const char *const known[] = {"b1", "i1", "i2", "i4", "i8",
                                        "u1", "u2", "u4", "u8", "f2",
                                        "f4", "f8", "c8", "c16"};
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        found = found || (descr[0] != '\0' && strcmp(descr + 1, known[i]) == 0);
    if (!found || strchr("<>|=", descr[0]) == NULL)
        return fail_type(s, descr, "is not known");
    info->bytes = strtoul(descr + 2, NULL, 10);
    if (descr[0] == '>' && info->bytes > 1)
        return fail_type(s, descr, "is not read");
    if (descr[0] == '|' && info->bytes > 1)
        return fail_type(s, descr, "states no byte order");
    info->supported = true;
    if (strcmp(descr + 1, "f4") == 0)
        info->type = VAE_TYPE_F32;
    else if (strcmp(descr + 1, "f2") == 0)
        info->type = VAE_TYPE_F16;
    else if (strcmp(descr + 1, "u1") == 0)
        info->type = VAE_TYPE_U8;
    else if (strcmp(descr + 1, "f8") == 0)
        info->type = VAE_TYPE_F64;
    else
        info->supported = false;
    return true;
}

enum { HAS_DESCR = 1, HAS_ORDER = 2, HAS_SHAPE = 4, HAS_ALL = 7 };

static bool
scan_entry(Scan *s, VaeTensorFile *file, VaeTensorInfo *info, int *seen)
{
    char key[16];
    int which = 0;
    skip_space(s);
    const Scan start = *s;
    if (!scan_string(s, key, sizeof key,
                     "a key: 'descr', 'fortran_order' or 'shape'"))
        return false;
    if (strcmp(key, "descr") == 0)
        which = HAS_DESCR;
    else if (strcmp(key, "fortran_order") == 0)
        which = HAS_ORDER;
    else if (strcmp(key, "shape") == 0)
        which = HAS_SHAPE;
    if (which == 0 || (*seen & which) != 0)
        return fail_scan(&start, "each of descr, fortran_order, shape once");
    *seen |= which;
    if (!expect(s, ':', "':'"))
        return false;
    if (which == HAS_SHAPE)
        return scan_shape(s, info);
    if (which == HAS_DESCR)
        return scan_string(s, file->npy_type, sizeof file->npy_type,
                           "an element type like '<f4'") &&
               read_descr(s, file->npy_type, info);
    if (accept_word(s, "False"))
        return true;
    if (!accept_word(s, "True"))
        return fail_scan(s, "True or False");
    vae_mismatch(s->error, VAE_ERR_FORMAT, NULL,
                 "%s: npy: {fortran_order} is True, expected {=C order} "
                 "(numpy.ascontiguousarray)",
                 s->label);
    return false;
}

static bool
scan_header(Scan *s, VaeTensorFile *file, VaeTensorInfo *info)
{
    bool comma = true;
    int seen = 0;
    if (!expect(s, '{', "'{'"))
        return false;
    while (!accept(s, '}')) {
        if (!comma)
            return fail_scan(s, "',' or '}'");
        if (!scan_entry(s, file, info, &seen))
            return false;
        comma = accept(s, ',');
    }
    if (seen != HAS_ALL)
        return fail_scan(s, "each of descr, fortran_order, shape before '}'");
    skip_space(s);
    return s->at == s->end || fail_scan(s, "the end of the header");
}

/* The bytes after the header are not those of the shape. */
static VaeStatus
fail_size(const VaeTensorFile *file, const char *shape, uint64_t found,
          VaeError *error)
{
    const VaeTensorInfo *info = file->tensors;
    return vae_mismatch(error, VAE_ERR_FORMAT, info->name,
                        "%s: npy: {%" PRIu64 " bytes} follow the header, shape "
                        "%s of '%s' needs {=%" PRIu64 "}",
                        file->label, found, shape, info->type_name,
                        info->bytes);
}

VaeStatus
vae_npy_parse(VaeTensorFile *file, VaeError *error)
{
    uint64_t need = 0;
    VaeStatus status = vae_npy_need(file->bytes, file->size, file->total,
                                    file->label, &need, error);
    if (status == VAE_OK)
        status = vae_tensor_file_room(file, 1, error);
    if (status != VAE_OK)
        return status;
    const char *text = (const char *) file->bytes + prefix_size(file->bytes);
    Scan s = {text, text, (const char *) file->bytes + need, file->label,
              error};
    VaeTensorInfo *info = file->tensors;
    info->name = "npy";
    info->type_name = file->npy_type;
    if (!scan_header(&s, file, info))
        return VAE_ERR_FORMAT;

    char shape[200];
    uint64_t count;
    vae_dims_text(info->dims, info->n_dims, shape, sizeof shape);
    if (!vae_dims_count(info->dims, info->n_dims, &count) ||
        __builtin_mul_overflow(count, info->bytes, &info->bytes))
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: npy: shape %s of '%s' does not fit in 64 bits",
                        file->label, shape, info->type_name);
    info->offset = need;
    const uint64_t found = file->total - need;
    if (file->total != VAE_TOTAL_UNKNOWN && info->bytes != found)
        return fail_size(file, shape, found, error);
    return VAE_OK;
}
