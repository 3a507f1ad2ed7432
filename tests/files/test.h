/*
 * test.h: functions that the tests of the file readers share.
 */
#ifndef VAE_FILES_TEST_H
#define VAE_FILES_TEST_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../scoped.h"
#include "vae-private/tensors.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

__attribute__((weak)) int test_failures; /* of all files of a program */

/* Prints the result of one named check. */
static inline void VAE_PRINTF(2, 3) check(bool good, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s ", good ? "ok" : "not ok");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    test_failures += !good;
}

static inline int
test_end(void)
{
    printf("%d failed\n", test_failures);
    return test_failures == 0 ? 0 : 1;
}

/* Checks a refusal: its status, that its message begins with the name, and that
 * it contains each of the words, which '|' separates. If the message says what
 * is expected, this is a part of the error, too. If it says that the file is
 * too short, the error has both its size and the size expected. */
static inline void
check_refused(const char *what, VaeStatus status, const VaeError *error,
              VaeStatus expected, const char *words)
{
    bool good =
        status == expected && error->status == expected &&
        (!strstr(error->message, ", expected ") || error->expected[0]) &&
        (!strstr(error->message, "past the end of the file") ||
         (strstr(error->found, " bytes") && strstr(error->expected, " bytes")));
    char copy[400];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok(copy, "|"); w != NULL; w = strtok(NULL, "|"))
        good = good && strstr(error->message, w) != NULL;
    check(good, "%s", what);
    printf("    %s: %s\n", vae_status_name(status),
           status == VAE_OK ? "" : error->message);
}

/* Checks the parts of an error; NULL: "". */
static inline void
check_error_parts(const char *what, const VaeError *error, const char *tensor,
                  const char *found, const char *expected)
{
    check(strcmp(error->tensor, tensor ? tensor : "") == 0 &&
              strcmp(error->found, found ? found : "") == 0 &&
              strcmp(error->expected, expected ? expected : "") == 0,
          "%s: tensor \"%s\", found \"%s\", expected \"%s\"", what,
          error->tensor, error->found, error->expected);
}

/* Returns a safetensors file with this header and data_size bytes 1, 2, 3 ...
 * The caller frees it. */
static inline uint8_t *
make_file(const char *json, size_t json_size, size_t data_size, size_t *size)
{
    const uint64_t length = json_size;
    *size = 8 + json_size + data_size;
    uint8_t *bytes = malloc(*size);
    if (bytes == NULL)
        abort();
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, json, json_size);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + json_size + i] = (uint8_t) (i + 1);
    return bytes;
}

/* The same for an npy file of version major.0. */
static inline uint8_t *
make_npy(int major, const char *dict, size_t data_size, size_t *size)
{
    const size_t length = strlen(dict), prefix = major == 1 ? 10 : 12;
    *size = prefix + length + data_size;
    uint8_t *bytes = calloc(1, *size);
    if (bytes == NULL)
        abort();
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (uint8_t) major;
    bytes[8] = (uint8_t) length;
    bytes[9] = (uint8_t) (length >> 8);
    memcpy(bytes + prefix, dict, length);
    for (size_t i = 0; i < data_size; i++)
        bytes[prefix + length + i] = (uint8_t) (i + 1);
    return bytes;
}

/* Makes a new folder, which the caller removes. */
static inline const char *
test_folder(void)
{
    static char path[400];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/vae-files-XXXXXX",
             base != NULL ? base : P_tmpdir);
    if (mkdtemp(path) == NULL) {
        perror(path);
        exit(1);
    }
    return path;
}

#endif
