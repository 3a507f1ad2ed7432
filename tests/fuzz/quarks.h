/*
 * quarks.h: LeakSanitizer and GLib's table of quarks.
 *
 * Threads read the table without a lock, so GLib replaces it when it is full
 * and never frees the old one: a leak on purpose. Its functions have no frame
 * pointers, so that a suppression would have to name g_malloc(), and with it
 * every leak through GLib. Instead the table is made and replaced only while
 * the sanitizer does not look.
 */
#ifndef VAE_FUZZ_QUARKS_H
#define VAE_FUZZ_QUARKS_H

#include <glib.h>
#include <sanitizer/lsan_interface.h>

#define QUARK_BLOCK 2048 /* as in GLib: the table grows by so many */

/* GLib makes the first table when it is loaded. */
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

/* Before each input: makes the table longer where fewer than half a block are
 * left, which is more than an input of 4 KiB asks for. */
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
