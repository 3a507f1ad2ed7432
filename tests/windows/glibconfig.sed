# Turns glibconfig.h of 64-bit Linux into that of 64-bit Windows, where a long
# has 32 bits.
s/^\(typedef \(un\)\{0,1\}signed long\) /\1 long /
s/(val##\(U\{0,1\}\)L)/(val##\1LL)/
s/"l\([iu]\{0,1\}\)"/"ll\1"/
s/\(GLIB_SIZEOF_LONG *\)8/\14/
s/G_MAXULONG$/G_MAXUINT64/
s/G_M\(IN\|AX\)LONG$/G_M\1INT64/
/POINTER/s/(g\(u\{0,1\}\)long)/(g\1intptr)/
/^#define GU\{0,1\}LONG_TO/s/INT64/INT32/
s/\(G_POLLFD_FORMAT\) .*/\1 "%#llx"/
s/^#define G_OS_UNIX/#define G_OS_WIN32/
s/G_THREADS_IMPL_POSIX/G_THREADS_IMPL_WIN32/
s/\(G_MODULE_SUFFIX\) "so"/\1 "dll"/
s/typedef int GPid/typedef void *GPid/
s/\(G_PID_FORMAT\) "i"/\1 "p"/
s/\(AF_INET6\) .*/\1 23/
s/\(SEARCHPATH_SEPARATOR.* \)\(.\):/\1\2;/
s,\(DIR_SEPARATOR.* \)\(.\)/,\1\2\\\\,
