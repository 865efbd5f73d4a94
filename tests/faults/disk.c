/* A disk that can lose what was not flushed, and that can refuse: preloaded (LD_PRELOAD) into the broker.

   DISK_ROOT      the directory that is on this disk
   DISK_IMAGES    where it keeps what a power cut would leave; unset: no cuts
   DISK_TROUBLE   a file of `struct trouble`, written by the test while the broker runs; unset: none
   DISK_SLEEP_US  how long a flush takes, at most
   DISK_BOOT      a file that is read instead of /proc/sys/kernel/random/boot_id

   Files are what they always are: written and read through the kernel. Beside them, for each file ROOT/a/b:
     IMAGES/a%b.image   its content as of the last fsync or fdatasync, and of later writes with O_DSYNC
     IMAGES/a%b.dirty   ranges written since, a `struct range` each; noted before they are written
   A flush copies those ranges from the file into the image, then forgets them. SIGKILL leaves all three as they are, and
   tests/faults/disk.py makes of them what a disk might hold: the image and any part of the dirty ranges.
   A flush that is made to fail forgets them as well, without copying: Linux marks such pages clean, and a later flush
   that succeeds says nothing about them.
   Simpler than a disk: making, renaming and removing a file last at once. Writes through a map are not seen; neither
   LMDB (without WRITEMAP) nor SQLite keeps anything by those.  */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, RESIZE = 4, OPEN = 8, SHORT = 16 };

struct trouble {
    int32_t error; /* errno to fail with; 0: no trouble */
    int32_t calls; /* which calls, of the above; SHORT: writes take half of what they are given */
    int32_t one_in; /* every one of them, or one in so many */
    uint32_t hits; /* how many have failed, counted here */
};

struct range {
    int64_t start;
    int64_t size; /* -1: cut to `start` octets */
};

static const char *root, *images, *boot;
static size_t root_size;
static struct trouble *trouble;
static unsigned sleep_us;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A variable of the environment, or NULL; a copy, for a process that sets its title overwrites where it was. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? strdup(value) : NULL;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("DISK_TROUBLE"), *us = getenv("DISK_SLEEP_US");
    root = variable("DISK_ROOT");
    root_size = root ? strlen(root) : 0;
    images = variable("DISK_IMAGES");
    boot = variable("DISK_BOOT");
    sleep_us = us ? (unsigned)atoi(us) : 0;
    if (path) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
        void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *trouble, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) {
            perror(path);
            abort();
        }
        trouble = at;
        syscall(SYS_close, fd);
    }
}

static int below_root(const char *path)
{
    return root_size && strncmp(path, root, root_size) == 0 && path[root_size] == '/';
}

/* The path of a descriptor if it is a file on this disk. */
static int on_disk(int fd, char *path)
{
    struct stat facts;
    char link[64];
    ssize_t size;
    int error = errno;
    if (!root_size || fstat(fd, &facts) < 0 || !S_ISREG(facts.st_mode) || facts.st_nlink == 0) {
        errno = error;
        return 0;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, PATH_MAX - 1);
    errno = error;
    if (size < 0)
        return 0;
    path[size] = 0;
    return below_root(path);
}

/* Whether this call is to fail; errno says how. */
static int refused(int call)
{
    static __thread unsigned dice;
    if (!trouble || !trouble->error || !(trouble->calls & call))
        return 0;
    if (!dice)
        dice = (unsigned)(uintptr_t)&dice ^ (unsigned)getpid();
    if (trouble->one_in > 1 && rand_r(&dice) % (unsigned)trouble->one_in)
        return 0;
    __atomic_add_fetch(&trouble->hits, 1, __ATOMIC_RELAXED);
    errno = trouble->error;
    return 1;
}

static void kept_at(const char *path, const char *kind, char *kept)
{
    int size = snprintf(kept, PATH_MAX, "%s/", images), at = size;
    snprintf(kept + size, PATH_MAX - (size_t)size, "%s%s", path + root_size + 1, kind);
    for (; kept[at]; at++)
        if (kept[at] == '/')
            kept[at] = '%';
}

static int open_kept(const char *path, const char *kind, int flags)
{
    char kept[PATH_MAX];
    kept_at(path, kind, kept);
    return (int)syscall(SYS_openat, AT_FDCWD, kept, flags | O_CLOEXEC, 0600);
}

static void broken(const char *what)
{
    perror(what);
    abort();
}

static void copy(int from, int to, int64_t start, int64_t size)
{
    static char buffer[1 << 16]; /* under the lock */
    while (size > 0) {
        size_t piece = size < (int64_t)sizeof buffer ? (size_t)size : sizeof buffer;
        long got = syscall(SYS_pread64, from, buffer, piece, start);
        if (got <= 0)
            return; /* cut off since */
        if (syscall(SYS_pwrite64, to, buffer, got, start) != got)
            broken("image");
        start += got;
        size -= got;
    }
}

/* Note a range before it is written. What the file had before it was first seen counts as flushed. */
static void dirty(int fd, const char *path, int64_t start, int64_t size)
{
    struct range range = {start, size};
    struct stat facts;
    int image, journal;
    if (!images || size == 0)
        return;
    journal = open_kept(path, ".dirty", O_WRONLY | O_APPEND);
    if (journal < 0) {
        if (fstat(fd, &facts) == 0 && facts.st_size > 0) {
            image = open_kept(path, ".image", O_WRONLY | O_CREAT | O_EXCL);
            if (image >= 0) {
                char again[64];
                int reader;
                snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
                reader = (int)syscall(SYS_openat, AT_FDCWD, again, O_RDONLY | O_CLOEXEC, 0);
                copy(reader, image, 0, facts.st_size);
                syscall(SYS_close, reader);
                syscall(SYS_close, image);
            }
        }
        journal = open_kept(path, ".dirty", O_WRONLY | O_APPEND | O_CREAT);
    }
    if (journal < 0 || syscall(SYS_write, journal, &range, sizeof range) != sizeof range)
        broken("dirty");
    syscall(SYS_close, journal);
}

/* Copy what is dirty, or one range, into the image. */
static void flush(const char *path, const struct range *only)
{
    struct range range;
    struct stat facts;
    int file, image, journal;
    if (!images)
        return;
    file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0)
        return; /* removed meanwhile */
    image = open_kept(path, ".image", O_RDWR | O_CREAT);
    journal = open_kept(path, ".dirty", O_RDWR | O_CREAT);
    if (image < 0 || journal < 0)
        broken("image");
    if (only) {
        copy(file, image, only->start, only->size);
    } else {
        while (syscall(SYS_read, journal, &range, sizeof range) == sizeof range)
            if (range.size > 0)
                copy(file, image, range.start, range.size);
        if (fstat(file, &facts) < 0 || syscall(SYS_ftruncate, image, facts.st_size) < 0
            || syscall(SYS_ftruncate, journal, 0) < 0)
            broken("image");
    }
    syscall(SYS_close, journal);
    syscall(SYS_close, image);
    syscall(SYS_close, file);
}

static int64_t place_of(int fd)
{
    struct stat facts;
    if (fcntl(fd, F_GETFL) & O_APPEND)
        return fstat(fd, &facts) < 0 ? 0 : facts.st_size;
    return lseek(fd, 0, SEEK_CUR);
}

enum kind { PLAIN, AT, VECTOR, VECTOR_AT };

static long system_write(enum kind kind, int fd, const void *what, size_t count, int64_t start)
{
    switch (kind) {
    case PLAIN:
        return syscall(SYS_write, fd, what, count);
    case AT:
        return syscall(SYS_pwrite64, fd, what, count, start);
    case VECTOR:
        return syscall(SYS_writev, fd, what, count);
    default:
        return syscall(SYS_pwritev, fd, what, count, (long)start, 0L);
    }
}

static int64_t octets(enum kind kind, const void *what, size_t count)
{
    const struct iovec *parts = what;
    int64_t size = 0;
    size_t at;
    if (kind == PLAIN || kind == AT)
        return (int64_t)count;
    for (at = 0; at < count; at++)
        size += (int64_t)parts[at].iov_len;
    return size;
}

static long put(enum kind kind, int fd, const void *what, size_t count, int64_t start)
{
    char path[PATH_MAX];
    struct range range;
    long done;
    int error;
    if (!on_disk(fd, path))
        return system_write(kind, fd, what, count, start);
    if (trouble && trouble->calls & SHORT && refused(SHORT)) {
        if (kind == PLAIN || kind == AT)
            count /= 2;
        else
            count = count > 1 ? count / 2 : count;
    } else if (refused(WRITE)) {
        return -1;
    }
    pthread_mutex_lock(&lock);
    range.start = kind == PLAIN || kind == VECTOR ? place_of(fd) : start;
    range.size = octets(kind, what, count);
    dirty(fd, path, range.start, range.size);
    done = system_write(kind, fd, what, count, start);
    error = errno;
    if (done > 0 && fcntl(fd, F_GETFL) & O_DSYNC)
        flush(path, &range);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

ssize_t write(int fd, const void *data, size_t size) { return put(PLAIN, fd, data, size, 0); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return put(AT, fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return put(AT, fd, data, size, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) { return put(VECTOR, fd, parts, (size_t)count, 0); }
ssize_t pwritev(int fd, const struct iovec *p, int count, off_t at) { return put(VECTOR_AT, fd, p, (size_t)count, at); }
ssize_t pwritev64(int fd, const struct iovec *p, int n, off64_t at) { return put(VECTOR_AT, fd, p, (size_t)n, at); }

/* Its flags (how to write, not what) are left out. */
ssize_t pwritev2(int fd, const struct iovec *p, int count, off_t at, int flags)
{
    (void)flags;
    return put(at == -1 ? VECTOR : VECTOR_AT, fd, p, (size_t)count, at);
}

ssize_t pwritev64v2(int fd, const struct iovec *p, int count, off64_t at, int flags)
{
    return pwritev2(fd, p, count, at, flags);
}

static int synced(int fd, long call)
{
    char path[PATH_MAX];
    int journal;
    if (!on_disk(fd, path))
        return (int)syscall(call, fd);
    if (sleep_us)
        usleep(sleep_us);
    if (refused(SYNC)) {
        int error = errno;
        pthread_mutex_lock(&lock);
        journal = images ? open_kept(path, ".dirty", O_WRONLY | O_TRUNC) : -1;
        if (journal >= 0)
            syscall(SYS_close, journal);
        pthread_mutex_unlock(&lock);
        errno = error;
        return -1;
    }
    if (!images)
        return (int)syscall(call, fd);
    pthread_mutex_lock(&lock);
    flush(path, NULL);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int ftruncate64(int fd, off64_t size)
{
    char path[PATH_MAX];
    int done, error;
    if (!on_disk(fd, path))
        return (int)syscall(SYS_ftruncate, fd, size);
    if (refused(RESIZE))
        return -1;
    pthread_mutex_lock(&lock);
    if (images) {
        dirty(fd, path, size, -1);
    }
    done = (int)syscall(SYS_ftruncate, fd, size);
    error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fallocate64(int fd, int mode, off64_t start, off64_t size)
{
    char path[PATH_MAX];
    if (on_disk(fd, path) && refused(RESIZE))
        return -1;
    return (int)syscall(SYS_fallocate, fd, mode, start, size);
}

int fallocate(int fd, int mode, off_t start, off_t size) { return fallocate64(fd, mode, start, size); }

int posix_fallocate64(int fd, off64_t start, off64_t size)
{
    int before = errno, error = fallocate64(fd, 0, start, size) < 0 ? errno : 0;
    errno = before;
    return error;
}

int posix_fallocate(int fd, off_t start, off_t size) { return posix_fallocate64(fd, start, size); }

static int opened(int directory, const char *path, int flags, mode_t mode)
{
    if (((flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT) && below_root(path) && refused(OPEN))
        return -1;
    if (boot && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
        path = boot;
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

#define MODE_AFTER(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list more; \
        va_start(more, last); \
        mode = (mode_t)va_arg(more, int); \
        va_end(more); \
    }

int open(const char *path, int flags, ...)
{
    MODE_AFTER(flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE_AFTER(flags)
    return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
    MODE_AFTER(flags)
    return opened(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...)
{
    MODE_AFTER(flags)
    return opened(directory, path, flags | O_LARGEFILE, mode);
}

/* Images go with their files. */
static void move_kept(const char *path, const char *to)
{
    static const char *kinds[] = {".image", ".dirty"};
    char from[PATH_MAX], target[PATH_MAX];
    int at, error = errno;
    for (at = 0; images && at < 2; at++) {
        if (!below_root(path))
            break;
        kept_at(path, kinds[at], from);
        if (to && below_root(to)) {
            kept_at(to, kinds[at], target);
            if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, target, 0) < 0)
                syscall(SYS_unlinkat, AT_FDCWD, target, 0);
        } else {
            syscall(SYS_unlinkat, AT_FDCWD, from, 0);
        }
    }
    errno = error;
}

int unlinkat(int directory, const char *path, int flags)
{
    int done = (int)syscall(SYS_unlinkat, directory, path, flags);
    if (done == 0)
        move_kept(path, NULL);
    return done;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int renameat2(int from, const char *path, int to, const char *target, unsigned flags)
{
    int done = (int)syscall(SYS_renameat2, from, path, to, target, flags);
    if (done == 0)
        move_kept(path, target);
    return done;
}

int renameat(int from, const char *path, int to, const char *target) { return renameat2(from, path, to, target, 0); }
int rename(const char *path, const char *target) { return renameat2(AT_FDCWD, path, AT_FDCWD, target, 0); }
