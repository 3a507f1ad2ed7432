/*
 * log.c: see log.h.
 */
#include <stdarg.h>
#include <stdio.h>

#include "log.h"

void
vae_log(const VaeLog *log, const char *format, ...)
{
    char line[1024];
    va_list args;
    if (!log->func)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log->func(log->user, line);
}
