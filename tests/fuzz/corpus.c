/* Runs the fuzzer's function on each file of the named folders: a bug once found stays fixed. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void feed(const char *folder, const char *name)
{
    char *path;
    uint8_t *data = NULL;
    size_t size = 0;
    size_t n;
    FILE *file;

    FUZZ_CHECK(asprintf(&path, "%s/%s", folder, name) > 0);
    file = fopen(path, "rb");
    FUZZ_CHECK(file);
    do {
        data = realloc(data, size + 4096);
        FUZZ_CHECK(data);
        n = fread(data + size, 1, 4096, file);
        size += n;
    } while (n > 0);
    fclose(file);
    /* Allocated with the exact length, so that tools detect a read beyond the end. */
    data = realloc(data, size > 0 ? size : 1);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    free(path);
}

int main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        const struct dirent *entry;

        FUZZ_CHECK(folder);
        while ((entry = readdir(folder))) {
            if (*entry->d_name == '.')
                continue;
            feed(argv[i], entry->d_name);
            n++;
        }
        closedir(folder);
    }
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1;
}
