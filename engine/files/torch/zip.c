/*
 * A zip archive has members, each after a local header; the directory, with one
 * record per member; and an end record. Larger archives have a 64-bit end
 * record and its locator before the end record. The directory counts; each
 * local header must agree with it.
 */
#include "zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define LOCAL_SIZE 30
#define RECORD_SIZE 46
#define END_SIZE 22
#define END64_SIZE 56
#define LOCATOR_SIZE 20
#define MAX_COMMENT 65535
#define EXTRA_64 1
#define ENCRYPTED 1

/* The directory of the archive, as the end record states it. */
typedef struct Directory {
    uint64_t offset, size, records;
} Directory;

static uint32_t
u16(const uint8_t *p)
{
    return p[0] | (uint32_t) p[1] << 8;
}

static uint32_t
u32(const uint8_t *p)
{
    return u16(p) | u16(p + 2) << 16;
}

static uint64_t
u64(const uint8_t *p)
{
    return u32(p) | (uint64_t) u32(p + 4) << 32;
}

static bool
is_record(const uint8_t *p, uint8_t a, uint8_t b)
{
    return p[0] == 'P' && p[1] == 'K' && p[2] == a && p[3] == b;
}

static VaeStatus
fail_zip(const VaeZip *zip, const char *what, VaeError *error)
{
    return vae_fail(error, VAE_ERR_FORMAT, "%s: broken zip archive: %s",
                    zip->label, what);
}

static VaeStatus
fail_member(const VaeZip *zip, const VaeZipMember *member, const char *what,
            VaeError *error)
{
    char name[VAE_NAME_SHOWN];
    return vae_fail(
        error, VAE_ERR_FORMAT, "%s: zip archive: member \"%s\" %s", zip->label,
        vae_shown(member->name, member->name_size, name, sizeof name), what);
}

bool
vae_zip_is(const uint8_t *bytes, size_t size)
{
    return size >= 4 && is_record(bytes, 3, 4);
}

/* The end record: the one whose comment ends at the end of the archive. */
static const uint8_t *
find_end(const VaeZip *zip)
{
    for (uint64_t comment = 0;
         comment <= MAX_COMMENT && END_SIZE + comment <= zip->size; comment++) {
        const uint8_t *p = zip->bytes + (zip->size - END_SIZE - comment);
        if (is_record(p, 5, 6) && u16(p + 20) == comment)
            return p;
    }
    return NULL;
}

/* Finds the 64-bit end record before `end`; *out is NULL if there is none. */
static VaeStatus
find_end64(const VaeZip *zip, const uint8_t *end, const uint8_t **out,
           VaeError *error)
{
    *out = NULL;
    const uint64_t place = (uint64_t) (end - zip->bytes);
    if (place < LOCATOR_SIZE || !is_record(end - LOCATOR_SIZE, 6, 7))
        return VAE_OK;
    const uint64_t offset = u64(end - LOCATOR_SIZE + 8);
    if (place < LOCATOR_SIZE + END64_SIZE ||
        offset != place - LOCATOR_SIZE - END64_SIZE ||
        !is_record(zip->bytes + offset, 6, 6))
        return fail_zip(zip,
                        "its 64-bit end record is not where its locator "
                        "points to",
                        error);
    *out = zip->bytes + offset;
    return VAE_OK;
}

static VaeStatus
read_end(const VaeZip *zip, Directory *dir, VaeError *error)
{
    const uint64_t most = END64_SIZE + LOCATOR_SIZE + END_SIZE + MAX_COMMENT;
    const uint64_t n = zip->size < most ? zip->size : most;
    VaeStatus status = vae_file_bytes(zip->file, zip->size - n, n, error);
    if (status != VAE_OK)
        return status;
    const uint8_t *end64, *end = find_end(zip);
    if (end == NULL)
        return fail_zip(zip, "no directory at its end; was it cut short?",
                        error);
    status = find_end64(zip, end, &end64, error);
    if (status != VAE_OK)
        return status;
    bool whole = u16(end + 4) == 0 && u16(end + 6) == 0;
    *dir = (Directory){u32(end + 16), u32(end + 12), u16(end + 10)};
    if (end64 != NULL) {
        /* Values that fit into the old record are in both. */
        whole = whole && u32(end64 + 16) == 0 && u32(end64 + 20) == 0;
        const Directory big = {u64(end64 + 48), u64(end64 + 40),
                               u64(end64 + 32)};
        if ((dir->offset != UINT32_MAX && dir->offset != big.offset) ||
            (dir->size != UINT32_MAX && dir->size != big.size) ||
            (dir->records != UINT16_MAX && dir->records != big.records))
            return fail_zip(zip, "its two end records differ", error);
        *dir = big;
    }
    if (!whole)
        return fail_zip(zip, "it is one part of several", error);
    const uint64_t place =
        (uint64_t) ((end64 != NULL ? end64 : end) - zip->bytes);
    if (dir->offset > place || dir->size != place - dir->offset)
        return fail_zip(zip, "its directory is not where its end says", error);
    if (dir->records > dir->size / RECORD_SIZE)
        return fail_zip(zip, "its directory is too small for its members",
                        error);
    if (dir->size > VAE_MAX_HEADER)
        return fail_zip(zip, "its directory is too large", error);
    if (dir->records == 0)
        return fail_zip(zip, "it has no member", error);
    return VAE_OK;
}

/* Reads the values that do not fit into 32 bits from the 64-bit extra field. */
static bool
read_extra64(const uint8_t *extra, size_t n, uint64_t **wanted, size_t n_wanted)
{
    while (n_wanted > 0 && n >= 4) {
        const size_t size = u16(extra + 2);
        if (size > n - 4)
            return false;
        if (u16(extra) == EXTRA_64) {
            if (size < 8 * n_wanted)
                return false;
            for (size_t i = 0; i < n_wanted; i++)
                *wanted[i] = u64(extra + 4 + 8 * i);
            return true;
        }
        extra += 4 + size;
        n -= 4 + size;
    }
    return n_wanted == 0;
}

/* Checks the local header and finds the content after it. */
static VaeStatus
read_local(const VaeZip *zip, const Directory *dir, VaeZipMember *m,
           VaeError *error)
{
    if (m->header > dir->offset || dir->offset - m->header < LOCAL_SIZE)
        return fail_member(zip, m, "begins past the end of the members", error);
    const uint8_t *p = zip->bytes + m->header;
    const uint64_t room = dir->offset - m->header - LOCAL_SIZE;
    VaeStatus status = vae_file_bytes(
        zip->file, m->header,
        LOCAL_SIZE + (m->name_size < room ? m->name_size : room), error);
    if (status != VAE_OK)
        return status;
    if (!is_record(p, 3, 4))
        return fail_member(zip, m, "has no local header", error);
    const uint64_t names = u16(p + 26) + (uint64_t) u16(p + 28);
    if (names > room || u16(p + 26) != m->name_size ||
        memcmp(p + LOCAL_SIZE, m->name, m->name_size) != 0)
        return fail_member(zip, m, "has another name in its local header",
                           error);
    if (u16(p + 8) != 0 || (u16(p + 6) & ENCRYPTED) != 0)
        return fail_member(zip, m,
                           "is stored in the directory, but not in its local "
                           "header",
                           error);
    if (m->size > room - names)
        return fail_member(zip, m, "reaches past the end of the members",
                           error);
    m->offset = m->header + LOCAL_SIZE + names;
    return VAE_OK;
}

/* Reads the record at *place in the directory and advances *place. */
static VaeStatus
read_record(const VaeZip *zip, const Directory *dir, uint64_t *place,
            VaeZipMember *m, VaeError *error)
{
    const uint64_t left = dir->offset + dir->size - *place;
    const uint8_t *p = zip->bytes + *place;
    if (left < RECORD_SIZE || !is_record(p, 1, 2))
        return fail_zip(zip, "its directory ends before its last member",
                        error);
    const size_t name = u16(p + 28), extra = u16(p + 30);
    const uint64_t whole = RECORD_SIZE + name + extra + u16(p + 32);
    if (whole > left)
        return fail_zip(zip, "a record of its directory is cut short", error);
    *place += whole;
    *m = (VaeZipMember){.name = (const char *) p + RECORD_SIZE,
                        .name_size = name,
                        .header = u32(p + 42),
                        .size = u32(p + 24)};
    uint64_t packed = u32(p + 20), *wanted[3];
    size_t n_wanted = 0;
    if (m->size == UINT32_MAX)
        wanted[n_wanted++] = &m->size;
    if (packed == UINT32_MAX)
        wanted[n_wanted++] = &packed;
    if (m->header == UINT32_MAX)
        wanted[n_wanted++] = &m->header;
    if (!read_extra64(p + RECORD_SIZE + name, extra, wanted, n_wanted))
        return fail_member(zip, m, "has no readable 64-bit sizes", error);
    if (name > 4 && memcmp(m->name + name - 4, ".npy", 4) == 0)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: is an .npz archive of numpy, which is not read: "
                        "save the array alone, as .npy, with numpy.save()",
                        zip->label);
    if ((u16(p + 8) & ENCRYPTED) != 0)
        return fail_member(zip, m, "is encrypted", error);
    if (u16(p + 10) != 0)
        return fail_member(
            zip, m, "is compressed, only stored ones can be read", error);
    if (packed != m->size)
        return fail_member(zip, m, "is stored, but with two sizes", error);
    return read_local(zip, dir, m, error);
}

static int
compare_places(const void *a, const void *b)
{
    const VaeZipMember *x = a, *y = b;
    return (x->header > y->header) - (x->header < y->header);
}

static int
compare_text(const char *a, size_t n_a, const char *b, size_t n_b)
{
    const int order = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return order != 0 ? order : (n_a > n_b) - (n_a < n_b);
}

static int
compare_names(const void *a, const void *b)
{
    const VaeZipMember *x = a, *y = b;
    return compare_text(x->name, x->name_size, y->name, y->name_size);
}

/* Checks that no members overlap or share a name; sorts them by name. */
static VaeStatus
check_members(VaeZip *zip, VaeError *error)
{
    VaeZipMember *m = zip->members;
    qsort(m, zip->n, sizeof *m, compare_places);
    for (size_t i = 1; i < zip->n; i++) {
        if (m[i].header < m[i - 1].offset + m[i - 1].size)
            return fail_member(zip, &m[i], "overlaps the one before it", error);
    }
    qsort(m, zip->n, sizeof *m, compare_names);
    for (size_t i = 1; i < zip->n; i++) {
        if (compare_names(&m[i - 1], &m[i]) == 0)
            return fail_member(zip, &m[i], "appears twice", error);
    }
    return VAE_OK;
}

VaeStatus
vae_zip_open(VaeZip *zip, const VaeTensorFile *file, VaeError *error)
{
    *zip = (VaeZip){.file = file,
                    .label = file->label,
                    .bytes = file->bytes,
                    .size = file->size};
    Directory dir = {0};
    VaeStatus status = read_end(zip, &dir, error);
    if (status == VAE_OK)
        status = vae_file_bytes(file, dir.offset, dir.size, error);
    if (status != VAE_OK)
        return status;
    zip->members = vae_mem_alloc((size_t) dir.records * sizeof *zip->members);
    if (zip->members == NULL)
        return vae_fail(error, VAE_ERR_MEMORY,
                        "%s: no memory for %" PRIu64 " members of an archive",
                        file->label, dir.records);
    zip->n = (size_t) dir.records;
    uint64_t place = dir.offset;
    for (size_t i = 0; status == VAE_OK && i < zip->n; i++)
        status = read_record(zip, &dir, &place, &zip->members[i], error);
    if (status == VAE_OK && place != dir.offset + dir.size)
        status =
            fail_zip(zip, "its directory goes on after its last member", error);
    const VaeZipMember first = zip->members[0];
    if (status == VAE_OK)
        status = check_members(zip, error);
    if (status == VAE_OK)
        zip->first = vae_zip_find(zip, first.name, first.name_size);
    return status;
}

void
vae_zip_clear(VaeZip *zip)
{
    vae_mem_free(zip->members);
    *zip = (VaeZip){0};
}

const VaeZipMember *
vae_zip_find(const VaeZip *zip, const char *name, size_t name_size)
{
    const VaeZipMember key = {.name = name, .name_size = name_size};
    return bsearch(&key, zip->members, zip->n, sizeof key, compare_names);
}
