#include "support/alloc.h"

#include "support/late.h"
#include "support/wait.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <execinfo.h>
#else /* Other C libraries tell no stack, and this file replaces none of their functions. */
#define backtrace(frames, n) ((void)(frames), 0)
#define backtrace_symbols_fd(frames, n, fd) ((void)(frames))
#endif

#define MAX_BLOCKS 65536 /* a power of two, and never half full: OpenSSL keeps thousands */
#define MAX_FRAMES 8

/* A block that was taken since the first mark. */
struct block {
    void *at; /* NULL: none */
    size_t size;
    void *frames[MAX_FRAMES]; /* the stack of its allocation */
    int n_frames;
    size_t serial;
};

/* Where the code of a shared library lies. */
struct range {
    uintptr_t from, to;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct {
    size_t n_calls; /* ever */
    enum alloc_whose whose;
    pthread_t who;
    size_t nth, n;  /* the first to be refused, and how many */
    size_t seen;    /* of those that may be */
    size_t refused; /* of these */
    size_t n_blocks;
    struct block blocks[MAX_BLOCKS]; /* by address; a place that is taken moves it to the next */
} guarded;                           /* by mutex */

static atomic_bool watching;
static _Thread_local bool spared;

#ifndef ALLOC_KEEPS

/* ---- the caller ---------------------------------------------------------------------------- */

static struct range libev, linker; /* written once, before there are threads */

static int note_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct range *range = NULL;

    (void)size;
    (void)arg;
    if (strstr(info->dlpi_name, "/libev.so"))
        range = &libev;
    else if (strstr(info->dlpi_name, "/ld-") || strstr(info->dlpi_name, "/ld."))
        range = &linker;
    for (int i = 0; range && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
            range->from = info->dlpi_addr + part->p_vaddr;
            range->to = range->from + part->p_memsz;
        }
    }
    return 0;
}

__attribute__((constructor)) static void note_libraries(void)
{
    dl_iterate_phdr(note_library, NULL);
}

static bool is_in(const struct range *range, const void *caller)
{
    return (uintptr_t)caller >= range->from && (uintptr_t)caller < range->to;
}

/* Only the direct caller counts: a callback from libev is our own code. */
static bool may_be_refused(const void *caller)
{
    bool is_mine = pthread_equal(guarded.who, pthread_self());

    if (is_in(&libev, caller))
        return false;
    switch (guarded.whose) {
    case ALLOC_NOBODYS:
        break;
    case ALLOC_MINE:
        return is_mine;
    case ALLOC_OTHERS:
        return !is_mine && !spared;
    case ALLOC_ALL:
        return !spared;
    }
    return false;
}

static bool is_refused(const void *caller)
{
    bool refused;

    pthread_mutex_lock(&mutex);
    guarded.n_calls++;
    refused = may_be_refused(caller) && ++guarded.seen >= guarded.nth &&
              guarded.seen - guarded.nth < guarded.n;
    guarded.refused += refused;
    pthread_mutex_unlock(&mutex);
    return refused;
}

/* ---- blocks in use ------------------------------------------------------------------------- */

static size_t place_of(const void *at)
{
    return (size_t)(((uintptr_t)at >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % MAX_BLOCKS;
}

static void remember(void *at, size_t size, const void *caller)
{
    struct block block = {.at = at, .size = size};
    size_t place = place_of(at);

    if (!atomic_load(&watching) || is_in(&linker, caller))
        return;
    block.n_frames = backtrace(block.frames, MAX_FRAMES);
    pthread_mutex_lock(&mutex);
    block.serial = guarded.n_calls;
    if (guarded.n_blocks < MAX_BLOCKS / 2) {
        while (guarded.blocks[place].at)
            place = (place + 1) % MAX_BLOCKS;
        guarded.blocks[place] = block;
        guarded.n_blocks++;
    }
    pthread_mutex_unlock(&mutex);
}

/* Closes the gap: later entries may have been displaced by the removed one. */
static void take_out(size_t gap)
{
    size_t place = gap;

    guarded.n_blocks--;
    for (;;) {
        guarded.blocks[gap].at = NULL;
        do {
            place = (place + 1) % MAX_BLOCKS;
            if (!guarded.blocks[place].at)
                return;
        } while ((place - place_of(guarded.blocks[place].at)) % MAX_BLOCKS <
                 (place - gap) % MAX_BLOCKS);
        guarded.blocks[gap] = guarded.blocks[place];
        gap = place;
    }
}

static void forget(const void *at)
{
    size_t place = place_of(at);

    if (!at || !atomic_load(&watching))
        return;
    pthread_mutex_lock(&mutex);
    while (guarded.blocks[place].at && guarded.blocks[place].at != at)
        place = (place + 1) % MAX_BLOCKS;
    if (guarded.blocks[place].at)
        take_out(place);
    pthread_mutex_unlock(&mutex);
}

/* ---- in place of libc's -------------------------------------------------------------------- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *at);

#define CALLER __builtin_return_address(0)

static void *refuse(void)
{
    errno = ENOMEM;
    return NULL;
}

static void *taken(void *at, size_t size, const void *caller)
{
    if (at)
        remember(at, size, caller);
    return at;
}

void *malloc(size_t size)
{
    return is_refused(CALLER) ? refuse() : taken(__libc_malloc(size), size, CALLER);
}

void *calloc(size_t n, size_t size)
{
    return is_refused(CALLER) ? refuse() : taken(__libc_calloc(n, size), n * size, CALLER);
}

void *realloc(void *at, size_t size)
{
    void *moved;

    if (is_refused(CALLER))
        return refuse();
    forget(at); /* as soon as it is free another thread may have it */
    moved = __libc_realloc(at, size);
    if (moved || size > 0)
        (void)taken(moved ? moved : at, size, CALLER);
    return moved;
}

void free(void *at)
{
    forget(at);
    __libc_free(at);
}

void *memalign(size_t alignment, size_t size)
{
    return is_refused(CALLER) ? refuse() : taken(__libc_memalign(alignment, size), size, CALLER);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return is_refused(CALLER) ? refuse() : taken(__libc_memalign(alignment, size), size, CALLER);
}

int posix_memalign(void **at, size_t alignment, size_t size)
{
    void *block = is_refused(CALLER) ? NULL : __libc_memalign(alignment, size);

    if (!block)
        return ENOMEM;
    *at = taken(block, size, CALLER);
    return 0;
}

/* A thread whose stack is there from one before it asks for no memory, and may be refused too. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (is_refused(CALLER))
        return EAGAIN;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attr, run, arg);
}

#endif

/* ---- for tests ----------------------------------------------------------------------------- */

/* Under the mutex, for the compiler believes that asking for memory changes nothing here. */
static size_t n_calls(void)
{
    size_t n;

    pthread_mutex_lock(&mutex);
    n = guarded.n_calls;
    pthread_mutex_unlock(&mutex);
    return n;
}

bool alloc_is_ours(void)
{
    size_t before = n_calls();
    char *volatile copy = strdup("of libc, which asks in turn");
    bool is_ours = n_calls() > before;

    free(copy);
    return is_ours;
}

void alloc_spare(void)
{
    spared = true;
}

void alloc_fail(enum alloc_whose whose, size_t nth, size_t n)
{
    pthread_mutex_lock(&mutex);
    guarded.whose = whose;
    guarded.who = pthread_self();
    guarded.nth = nth;
    guarded.n = n;
    guarded.seen = 0;
    guarded.refused = 0;
    pthread_mutex_unlock(&mutex);
}

size_t alloc_refused(void)
{
    size_t refused;

    pthread_mutex_lock(&mutex);
    refused = guarded.refused;
    pthread_mutex_unlock(&mutex);
    return refused;
}

size_t alloc_stop(void)
{
    size_t refused;

    pthread_mutex_lock(&mutex);
    guarded.whose = ALLOC_NOBODYS;
    refused = guarded.refused;
    pthread_mutex_unlock(&mutex);
    return refused;
}

struct alloc_mark alloc_mark(void)
{
    void *frames[MAX_FRAMES];
    struct alloc_mark mark;

    if (!atomic_load(&watching))
        (void)backtrace(frames, MAX_FRAMES); /* the first loads a library */
    atomic_store(&watching, true);
    pthread_mutex_lock(&mutex);
    mark = (struct alloc_mark){.n_blocks = guarded.n_blocks, .serial = guarded.n_calls};
    pthread_mutex_unlock(&mutex);
    return mark;
}

static bool has_no_more(void *arg)
{
    const struct alloc_mark *mark = arg;
    size_t n;

    pthread_mutex_lock(&mutex);
    n = guarded.n_blocks;
    pthread_mutex_unlock(&mutex);
    return n <= mark->n_blocks;
}

static void print_blocks(const struct alloc_mark *mark)
{
    for (size_t i = 0; i < MAX_BLOCKS; i++) {
        const struct block *block = &guarded.blocks[i];

        if (!block->at || block->serial <= mark->serial)
            continue;
        fprintf(stderr, "%zu bytes were not given back, taken by\n", block->size);
        backtrace_symbols_fd(block->frames, block->n_frames, 2);
    }
}

bool alloc_nothing_since(const struct alloc_mark *mark)
{
    if (wait_until(has_no_more, (void *)mark, SOON_MS))
        return true;
    late_is_leak();
    print_blocks(mark);
    return false;
}
