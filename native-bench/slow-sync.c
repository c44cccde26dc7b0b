// Preloaded into a server (LD_PRELOAD), makes each fsync and fdatasync take SYNC_US longer: a disk
// that is slow to sync, as in many clouds.

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int slowly(const char *name, int fd) {
    const char *us = getenv("SYNC_US");
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);

    if (us != NULL) usleep((useconds_t)atoi(us));
    return sync(fd);
}

int fsync(int fd) { return slowly("fsync", fd); }

int fdatasync(int fd) { return slowly("fdatasync", fd); }
