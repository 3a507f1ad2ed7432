/*
 * zip.h: reads the directory of a zip archive whose members are stored without
 * compression, as PyTorch writes it.
 */
#ifndef VAE_ZIP_H
#define VAE_ZIP_H

#include "files.h"

typedef struct VaeZipMember {
    const char *name; /* in the archive, not terminated */
    size_t name_size;
    uint64_t header;       /* offset of the local header */
    uint64_t offset, size; /* of the content */
} VaeZipMember;

typedef struct VaeZip {
    const VaeTensorFile *file; /* the whole archive, borrowed */
    const char *label;
    const uint8_t *bytes; /* those that vae_file_bytes() has read */
    uint64_t size;
    VaeZipMember *members; /* sorted by name, each name once */
    size_t n;
    const VaeZipMember *first; /* of the directory */
} VaeZip;

bool vae_zip_is(const uint8_t *bytes, size_t size);

/*
 * Reads the directory. With VAE_OK, every member is stored without compression,
 * is within the archive and overlaps no other. Checksums are not verified.
 * vae_zip_clear() frees *zip, also after an error or if it is all zeros.
 */
VaeStatus vae_zip_open(VaeZip *zip, const VaeTensorFile *file, VaeError *error);
void vae_zip_clear(VaeZip *zip);

/* Finds a member by name in O(log n); NULL if there is none. */
const VaeZipMember *vae_zip_find(const VaeZip *zip, const char *name,
                                 size_t name_size);

#endif
