/*
 * Fuzz - what the fuzzers share beside libFuzzer
 *
 * Without libFuzzer the main of corpus.c feeds the same function with the files of the corpus.
 */
#ifndef RELOCK_TEST_FUZZ_H
#define RELOCK_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

_Noreturn void fuzz_found(const char *what, const char *file, int line);

/* An assert that no build leaves out. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_found(#condition, __FILE__, __LINE__))

/* What no line may tell, and a byte of it. */
#define FUZZ_PASSWORD "sesame~"
#define FUZZ_PASSWORD_BYTE '~'

/*
 * Goes into relock_log: looks through each line. A server that was told the password can say it
 * whenever it likes. So it may stand in a line when the byte occurs in what the server says, but
 * not even then in one about the login, the like of which no server can say without a colon.
 */
struct fuzz_play {
    const uint8_t *data;
    size_t size;
    bool has_password; /* else it is none of ours */
};

void fuzz_log(int level, const char *line, void *play);

/* The same for one text, which may be cut off. */
void fuzz_check_text(const struct fuzz_play *play, const char *text);

#endif
