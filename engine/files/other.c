/*
 * other.c: files of other formats, which users give by mistake.
 */
#include <string.h>

#include "files.h"

#define PICKLE                                                                 \
    "a Python pickle that PyTorch did not write",                              \
        "; save its array by numpy.save() or torch.save()"

static const struct {
    const char *magic;
    size_t length;
    const char *words;
    const char *advice; /* follows the sentence; or NULL */
    size_t at;          /* offset of magic; it ends within the first 10 bytes */
} others[] = {
    {"\x80\2\x8a\x0a\x6c\xfc\x9c\x46", 8,
     "a file of PyTorch before 1.6, or written for it",
     "; convert it with torch.save(torch.load(old, weights_only=True), new)"},
    {"\x80\2", 2, PICKLE},
    {"\x80\3", 2, PICKLE},
    {"\x80\4", 2, PICKLE},
    {"\x80\5", 2, PICKLE},
    {"GGUF", 4, "a GGUF file", "; use the file that it was made of"},
    {"\x89HDF", 4, "an HDF5 file", "; save its array by numpy.save()"},
    {"version ", 8, "a pointer of git LFS: the file itself was not fetched",
     "; git lfs pull fetches it"},
    {"<!DOCTYP", 8, "a web page", "; download the file itself"},
    {"<html", 5, "a web page", "; download the file itself"},
    {"ftyp", 4, "a video file (MP4 or MOV)", NULL, 4},
    {"\x1a\x45\xdf\xa3", 4, "a video file (WebM or Matroska)"},
    {"YUV4MPEG", 8, "a video file (Y4M)"},
    {"RIFF", 4, "a RIFF file, such as AVI"},
    {"\x89PNG", 4, "a picture (PNG)"},
    {"\xff\xd8\xff", 3, "a picture (JPEG)"},
};

/* True if the first bytes are ASCII text. */
static bool
is_text(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size && i < VAE_FILE_HEAD; i++) {
        const char c = (char) bytes[i];
        if ((c < ' ' || c > '~') && c != '\t' && c != '\n' && c != '\r')
            return false;
    }
    return true;
}

const char *
vae_file_other(const uint8_t *bytes, size_t size, const char **advice)
{
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const size_t end = others[i].at + others[i].length;
        if (end > size || memcmp(bytes + others[i].at, others[i].magic,
                                 others[i].length) != 0)
            continue;
        if (others[i].advice)
            *advice = others[i].advice;
        return others[i].words;
    }
    return is_text(bytes, size) ? "a text file" : NULL;
}
