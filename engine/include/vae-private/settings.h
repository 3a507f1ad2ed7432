/*
 * vae-private/settings.h: the settings of a stream in one table. The options of
 * vaetool, the properties of the elements, the settings of the Python package,
 * the fields of checkpoints and the checks of VaeStreamParams come from it.
 */
#ifndef VAE_PRIVATE_SETTINGS_H
#define VAE_PRIVATE_SETTINGS_H

#include "vae-private/types.h"
#include "vae/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VAE_MAX_SIDE 65535 /* pixels, as the caps allow */

typedef enum VaeSettingKind {
    VAE_SETTING_WORD,
    VAE_SETTING_NUMBER,
    VAE_SETTING_SEED, /* any uint64_t */
    VAE_SETTING_SWITCH,
    VAE_SETTING_MEMORY /* memory_limit and memory_share as one text, see
                          vae_memory_limit_parse() */
} VaeSettingKind;

typedef struct VaeSetting {
    const char *name; /* of the member of VaeStreamParams, and in Python */
    VaeSettingKind kind;
    size_t offset, bytes; /* of the member */
    int64_t least, most, preset;
    /* Who may set it: the name of the option of vaetool without "--", the name
     * of the property of the elements and its title. NULL: it has none. */
    const char *option, *property, *title;
    bool only_decode, only_encode; /* the other direction ignores it */
    /* The key in a checkpoint, or NULL if no result depends on the setting. */
    const char *saved;
    const VaeWord *words; /* of WORD */
    /* What the further word "auto" means to who reads the input; a stream takes
     * it as the preset. NULL: there is no such word. */
    const char *automatic;
    const char *sentence; /* without a full stop; NULL if nobody prints it */
} VaeSetting;

/* Returns the rows from 0 on, then NULL. */
VAE_API const VaeSetting *vae_setting_at(int i);
/* Returns NULL for an unknown name. */
VAE_API const VaeSetting *vae_setting_find(const char *name);
/* Sets each setting to its preset. *params begins as
 * VAE_INIT(VaeStreamParams). */
VAE_API void vae_settings_init(VaeStreamParams *params);

/* The value as a number, of all kinds except MEMORY. */
VAE_API int64_t vae_setting_get(const VaeSetting *s, const VaeStreamParams *p);
VAE_API void vae_setting_set(const VaeSetting *s, VaeStreamParams *p,
                             int64_t value);
/* Sets the value that a text states. Returns false, and writes nothing, if it
 * states none. The words of a SWITCH are true and false. */
VAE_API bool vae_setting_parse(const VaeSetting *s, VaeStreamParams *p,
                               const char *text);
/* True if the text leaves the value to the input. */
VAE_API bool vae_setting_is_automatic(const VaeSetting *s, const char *text);
/* Writes the values that the setting can have: "0 to 1024", "mean or sample".
 */
VAE_API void vae_setting_expected(const VaeSetting *s, char *out, size_t size);

/* Fails if a value is not one that its setting can have. */
VaeStatus vae_settings_check(const VaeStreamParams *p, VaeError *error);

#ifdef __cplusplus
}
#endif
#endif
