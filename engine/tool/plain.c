/*
 * plain.c: prints texts from files, and errors, safely on a terminal.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum {
    SHOWN = 200, /* bytes */
    DIGITS = 15  /* no real count has more */
};

const char *
plain(const char *words, Plain *buffer)
{
    const size_t n = strlen(words);
    const size_t shown = n < SHOWN ? n : SHOWN;
    memcpy(buffer->text, words, shown);
    buffer->text[shown] = 0;
    vae_text_printable(buffer->text);
    if (n > SHOWN)
        snprintf(buffer->text + strlen(buffer->text),
                 sizeof buffer->text - strlen(buffer->text), "... (%zu bytes)",
                 n);
    return buffer->text;
}

void
print_plain(const char *words)
{
    char *copy = strdup(words);
    if (copy)
        vae_text_printable(copy);
    printf("%s\n", copy ? copy : "no memory");
    free(copy);
}

int64_t
plain_count(const char *words)
{
    const size_t n = strlen(words);
    if (n < 1 || n > DIGITS || strspn(words, "0123456789") != n)
        return -1;
    return strtoll(words, NULL, 10);
}

static void print_message(const char *kind, const char *format, va_list args)
    VAE_PRINTF(2, 0);

static void
print_message(const char *kind, const char *format, va_list args)
{
    char *text = NULL;
    fflush(stdout);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    if (text)
        vae_text_printable(text);
    fprintf(stderr, "vaetool: %s%s\n", kind, text ? text : "no memory");
    free(text);
}

int
fail_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message("", format, args);
    va_end(args);
    return EXIT_FAILED;
}

void
tell_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message("", format, args);
    va_end(args);
}

void
warn_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message("warning: ", format, args);
    va_end(args);
}

int
fail(const VaeError *error)
{
    return fail_text("%s", error->message);
}
