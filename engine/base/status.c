/*
 * status.c: errors and their messages. See vae-private/status.h.
 */
#include "vae-private/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *
vae_status_name(VaeStatus status)
{
    switch (status) {
    case VAE_OK:
        return "ok";
    case VAE_ERR_ARGUMENT:
        return "argument";
    case VAE_ERR_NOT_FOUND:
        return "not found";
    case VAE_ERR_READ:
        return "read";
    case VAE_ERR_WRITE:
        return "write";
    case VAE_ERR_NO_SPACE:
        return "no space";
    case VAE_ERR_FORMAT:
        return "file format";
    case VAE_ERR_MODEL:
        return "model";
    case VAE_ERR_SIZE:
        return "size";
    case VAE_ERR_MEMORY:
        return "memory";
    case VAE_ERR_UNSUPPORTED:
        return "unsupported";
    case VAE_ERR_BACKEND:
        return "backend";
    case VAE_ERR_CANCELLED:
        return "cancelled";
    case VAE_AGAIN:
        return "again";
    case VAE_END:
        return "end";
    }
    return "unknown status";
}

/* Length of the UTF-8 sequence at s (at most n); 0 if it is not valid. */
static size_t
sequence_length(const unsigned char *s, size_t n)
{
    const unsigned char c = s[0];
    const size_t length = c < 0x80                ? 1
                          : c >= 0xc2 && c < 0xe0 ? 2
                          : c >= 0xe0 && c < 0xf0 ? 3
                          : c >= 0xf0 && c < 0xf5 ? 4
                                                  : 0;
    if (length == 0 || length > n)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    const bool bad = (c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) ||
                     (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] > 0x8f);
    return bad ? 0 : length;
}

/* True for a character that ends a line or changes the direction of the text:
 * U+200e, U+200f, U+2028 to U+202e and U+2066 to U+2069. */
static bool
is_layout(const unsigned char *s)
{
    if (s[0] != 0xe2 || s[1] < 0x80 || s[1] > 0x81)
        return false;
    return s[1] == 0x80
               ? s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae)
               : s[2] >= 0xa6 && s[2] <= 0xa9;
}

/* True for a control character: one byte, or U+0080 to U+009f in two. */
static bool
is_control(const unsigned char *s, size_t length)
{
    switch (length) {
    case 1:
        return *s < 0x20 || *s == 0x7f;
    case 2:
        return s[0] == 0xc2 && s[1] < 0xa0;
    case 3:
        return is_layout(s);
    default:
        return false;
    }
}

void
vae_text_printable(char *text)
{
    unsigned char *s = (unsigned char *) text;
    size_t left = strlen(text);
    while (left > 0 && (s[left - 1] == '\n' || s[left - 1] == '\r'))
        s[--left] = '\0';
    while (left > 0) {
        const size_t length = sequence_length(s, left);
        const size_t step = length > 0 ? length : 1;
        if (*s == '\n' || *s == '\r' || *s == '\t')
            *s = ' ';
        else if (length == 0 || is_control(s, length))
            memset(s, '?', step);
        s += step;
        left -= step;
    }
}

const char *
vae_counted(uint64_t n, const char *noun, VaeCounted *buffer)
{
    snprintf(buffer->text, sizeof buffer->text, "%" PRIu64 " %s%s", n, noun,
             n == 1 ? "" : "s");
    return buffer->text;
}

static void
set_part(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text == NULL ? "" : text);
    vae_text_printable(to);
}

/* An argument or a part may point into the old error. */
static void VAE_PRINTF(4, 0)
    fill(VaeError *error, VaeStatus status, VaeErrorParts parts,
         const char *format, va_list args)
{
    VaeError new = {.status = status};
    vsnprintf(new.message, sizeof new.message, format, args);
    vae_text_printable(new.message);
    set_part(new.tensor, sizeof new.tensor, parts.tensor);
    set_part(new.found, sizeof new.found, parts.found);
    set_part(new.expected, sizeof new.expected, parts.expected);
    *error = new;
}

/* The functions, not the macros that call them. */
#undef vae_fail
#undef vae_fail_parts
#undef vae_mismatch

VaeStatus
vae_fail(VaeError *error, VaeStatus status, const char *format, ...)
{
    if (error == NULL)
        return status;
    va_list args;
    va_start(args, format);
    fill(error, status, (VaeErrorParts){0}, format, args);
    va_end(args);
    return status;
}

VaeStatus
vae_fail_parts(VaeError *error, VaeStatus status, VaeErrorParts parts,
               const char *format, ...)
{
    if (error == NULL)
        return status;
    va_list args;
    va_start(args, format);
    fill(error, status, parts, format, args);
    va_end(args);
    return status;
}

/* The bytes of what the format prints. */
static size_t VAE_PRINTF(1, 0) length_of(const char *format, va_list args)
{
    va_list copy;
    va_copy(copy, args);
    const int n = vsnprintf(NULL, 0, format, copy);
    va_end(copy);
    return n < 0 ? 0 : (size_t) n;
}

VaeStatus
vae_mismatch(VaeError *error, VaeStatus status, const char *tensor,
             const char *format, ...)
{
    enum { FOUND, EXPECTED, PARTS };
    char plain[512] = "", text[4096];
    char parts[PARTS][sizeof error->found];
    size_t begin[PARTS] = {0}, end[PARTS] = {0}, n = 0;
    int part = FOUND;
    va_list args;
    if (error == NULL)
        return status;
    assert(strlen(format) < sizeof plain);
    va_start(args, format);
    for (; *format; format++) {
        if (*format == '{') {
            part = format[1] == '=' ? EXPECTED : FOUND;
            format += part == EXPECTED;
            begin[part] = length_of(plain, args);
        } else if (*format == '}') {
            end[part] = length_of(plain, args);
        } else {
            plain[n++] = *format;
            plain[n] = '\0';
        }
    }
    vsnprintf(text, sizeof text, plain, args);
    va_end(args);
    n = strlen(text);
    for (int i = 0; i < PARTS; i++)
        snprintf(parts[i], sizeof parts[i], "%.*s", (int) (end[i] - begin[i]),
                 text + (begin[i] < n ? begin[i] : n));
    return vae_fail_parts(
        error, status, (VaeErrorParts){tensor, parts[FOUND], parts[EXPECTED]},
        "%s", text);
}

VaeStatus
vae_pass_on(VaeError *error, const VaeError *why)
{
    if (error != NULL)
        *error = *why;
    return why->status;
}

VaeStatus
vae_fail_within(VaeError *error, const VaeError *why, const char *format, ...)
{
    char prefix[sizeof why->message];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    return vae_fail_parts(
        error, why->status,
        (VaeErrorParts){why->tensor, why->found, why->expected}, "%s%s", prefix,
        why->message);
}
