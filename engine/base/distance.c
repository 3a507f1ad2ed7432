/*
 * distance.c: compares names, to find the one that somebody means.
 */
#include "distance.h"

#include <string.h>

int
vae_distance(const char *a, const char *b)
{
    enum { LONGEST = 32 };
    int row[LONGEST + 1];
    const int n = (int) strnlen(a, LONGEST), m = (int) strnlen(b, LONGEST);
    for (int k = 0; k <= m; k++)
        row[k] = k;
    for (int i = 1; i <= n; i++) {
        int before = row[0]++;
        for (int k = 1; k <= m; k++) {
            const int replaced = before + (a[i - 1] != b[k - 1]);
            const int other = (row[k] < row[k - 1] ? row[k] : row[k - 1]) + 1;
            before = row[k];
            row[k] = replaced < other ? replaced : other;
        }
    }
    int alike = 0;
    while (alike < n && alike < m && a[alike] == b[alike])
        alike++;
    return row[m] - 2 * alike;
}
