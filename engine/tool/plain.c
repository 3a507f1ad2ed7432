/*
 * plain.c: prints texts from files safely on a terminal.
 */
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

int64_t
plain_count(const char *words)
{
    const size_t n = strlen(words);
    if (n < 1 || n > DIGITS || strspn(words, "0123456789") != n)
        return -1;
    return strtoll(words, NULL, 10);
}
