/*
 * windows_process.c: modules, processors, threads and the console of Windows.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <windows.h>

#if defined __x86_64__
#include <cpuid.h>
#endif

#include "vae-private/os.h"

/* What the library needs is searched first in the library's own folder. */
void *
vae_os_module(const char *path, char *why, size_t size)
{
    wchar_t name[4096], words[300] = L"";
    const int n = MultiByteToWideChar(CP_UTF8, 0, path, -1, name, 4096);
    for (int i = 0; i < n; i++)
        if (name[i] == L'/')
            name[i] = L'\\';
    const DWORD how = wcschr(name, L'\\') ? LOAD_WITH_ALTERED_SEARCH_PATH : 0;
    HMODULE module = n > 0 ? LoadLibraryExW(name, NULL, how) : NULL;
    if (!module) {
        char text[600] = "";
        const DWORD code = GetLastError();
        FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM |
                           FORMAT_MESSAGE_IGNORE_INSERTS |
                           FORMAT_MESSAGE_MAX_WIDTH_MASK,
                       NULL, code, 0, words, 300, NULL);
        WideCharToMultiByte(CP_UTF8, 0, words, -1, text, sizeof text, NULL,
                            NULL);
        snprintf(why, size, "%s: %s(error %lu)", path, text, code);
    }
    return module;
}

void *
vae_os_module_lazily(const char *path, char *why, size_t size)
{
    return vae_os_module(path, why, size);
}

void *
vae_os_module_symbol(void *module, const char *name)
{
    void *symbol;
    const FARPROC found = GetProcAddress(module, name);
    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}

char *
vae_os_module_of(const void *address)
{
    HMODULE module;
    wchar_t name[4096];
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            (LPCWSTR) address, &module))
        return NULL;
    const DWORD n = GetModuleFileNameW(module, name, 4096);
    char *out = n > 0 && n < 4096 ? malloc((size_t) n * 3 + 1) : NULL;
    if (out)
        WideCharToMultiByte(CP_UTF8, 0, name, -1, out, (int) n * 3 + 1, NULL,
                            NULL);
    return out;
}

int
vae_os_processors(void)
{
    DWORD_PTR own = 0, all;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all) || own == 0)
        return 1;
    return __builtin_popcountll(own);
}

/* Windows 10 and Wine do not have this function. */
bool
vae_os_allow_amx(void)
{
    typedef BOOL(WINAPI * Enable)(DWORD64 features);
    const DWORD64 tile_data = 1 << 18; /* its bit in XCR0 */
    Enable enable;
    void *found = vae_os_module_symbol(GetModuleHandleW(L"kernel32.dll"),
                                       "EnableProcessOptionalXStateFeatures");
    memcpy(&enable, &found, sizeof enable);
    return enable && enable(tile_data);
}

void
vae_os_processor_name(char *out, size_t size)
{
    char name[49] = "";
#if defined __x86_64__
    unsigned r[12];
    bool good = true;
    for (unsigned i = 0; i < 3; i++)
        good = good && __get_cpuid(0x80000002 + i, &r[4 * i], &r[4 * i + 1],
                                   &r[4 * i + 2], &r[4 * i + 3]);
    if (good)
        memcpy(name, r, sizeof r);
#endif
    snprintf(out, size, "%s",
             *name ? name + strspn(name, " ") : "unknown processor");
}

/* Windows has no signals. */
int
vae_os_thread(pthread_t *thread, void *(*run)(void *), void *user)
{
    return pthread_create(thread, NULL, run, user);
}

/* The clock of a thread has steps of 15 ms, which is too coarse. */
double
vae_os_thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------ */

static void (*_Atomic interrupt)(int number);

/* Called on a thread of the system. False: the process ends. */
static BOOL WINAPI
on_event(DWORD kind)
{
    void (*handler)(int) = atomic_exchange(&interrupt, NULL);
    if (!handler)
        return FALSE;
    handler((int) kind + 1);
    /* When the console closes, the process ends as soon as this returns. */
    if (kind != CTRL_C_EVENT && kind != CTRL_BREAK_EVENT)
        Sleep(INFINITE);
    return TRUE;
}

void
vae_os_catch_interrupts(void (*handler)(int number))
{
    atomic_store(&interrupt, handler);
    SetConsoleCtrlHandler(on_event, TRUE);
}

void
vae_os_release_interrupts(void)
{
    SetConsoleCtrlHandler(on_event, FALSE);
    atomic_store(&interrupt, NULL);
}
