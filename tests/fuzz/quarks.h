/*
 * quarks.h: hides GLib's table of quarks from LeakSanitizer.
 *
 * Threads read the table without a lock. Therefore GLib replaces a full table
 * and never frees the old one. LeakSanitizer reports this as a leak. GLib has
 * no frame pointers, so that a suppression would have to name g_malloc() and
 * would hide every leak through GLib. Instead, the functions below create and
 * replace the table while the sanitizer is disabled.
 */
#ifndef VAE_FUZZ_QUARKS_H
#define VAE_FUZZ_QUARKS_H

#include <glib.h>
#include <sanitizer/lsan_interface.h>

#define QUARK_BLOCK 2048 /* GLib enlarges its table by this number */

/* GLib creates the first table when it is loaded. */
static void
before_libraries(void)
{
    __lsan_disable();
}

__attribute__((section(".preinit_array"),
               used)) static void (*preinit)(void) = before_libraries;

__attribute__((constructor)) static void
after_libraries(void)
{
    __lsan_enable();
}

/* Called before each input. Enlarges the table if less than half a block is
 * left. An input of 4 KiB needs less than that. */
static inline void
fuzz_reserve_quarks(void)
{
    static GQuark last;
    while (g_quark_to_string(last + 1))
        last++;
    if (last % QUARK_BLOCK < QUARK_BLOCK / 2)
        return;
    __lsan_disable();
    for (GQuark i = last % QUARK_BLOCK; i <= QUARK_BLOCK; i++) {
        gchar *name = g_strdup_printf("fuzz-%u-%u", last, i);
        g_quark_from_string(name);
        g_free(name);
    }
    __lsan_enable();
}

#endif
