/* Adds DELAY_US microseconds to each sync; preloaded before the C library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int slowly(const char *name, int file)
{
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *given = getenv("DELAY_US");
    long delay = given ? atol(given) : 0;
    struct timespec rest = {delay / 1000000, delay % 1000000 * 1000};
    int result = sync(file);

    if (delay > 0)
        nanosleep(&rest, NULL);
    return result;
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
