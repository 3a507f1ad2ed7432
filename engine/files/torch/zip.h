/*
 * zip.h: the directory of a zip archive whose members are stored, as PyTorch
 * writes them.
 */
#ifndef VAE_ZIP_H
#define VAE_ZIP_H

#include "files.h"

typedef struct VaeZipMember {
    const char *name; /* in the archive, not terminated */
    size_t name_size;
    uint64_t header;       /* where the member begins */
    uint64_t offset, size; /* of its content */
} VaeZipMember;

typedef struct VaeZip {
    const char *label;
    const uint8_t *bytes; /* of the whole archive, borrowed */
    uint64_t size;
    VaeZipMember *members; /* by name, each name once */
    size_t n;
    const VaeZipMember *first; /* of the directory */
} VaeZip;

bool vae_zip_is(const uint8_t *bytes, size_t size);

/*
 * Reads the directory. When it returns VAE_OK every member is stored, lies
 * within the archive and shares no byte with another one. Checksums are not
 * looked at. Zeroed or filled, *zip is released by vae_zip_clear().
 */
VaeStatus vae_zip_open(VaeZip *zip, const uint8_t *bytes, uint64_t size,
                       const char *label, VaeError *error);
void vae_zip_clear(VaeZip *zip);

/* NULL where there is none. O(log n). */
const VaeZipMember *vae_zip_find(const VaeZip *zip, const char *name,
                                 size_t name_size);

#endif
