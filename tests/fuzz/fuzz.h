/*
 * Fuzz - shared by the fuzzers, beside libFuzzer
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

/* An assert that is active in every build. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_found(#condition, __FILE__, __LINE__))

/* The secret that no line may contain, and a byte of it. */
#define FUZZ_PASSWORD "sesame~"
#define FUZZ_PASSWORD_BYTE '~'

/* A sink for relock_log that checks each line. A server that received the password may repeat it
 * in any reply. So a line may contain the password if its byte occurs in the replies. Even then,
 * no line about the login may, because a server cannot imitate such a line without a colon. */
struct fuzz_play {
    const uint8_t *data;
    size_t size;
    bool has_password; /* otherwise the line is not ours */
};

void fuzz_log(int level, const char *line, void *play);

/* The same for one text, which may be truncated. */
void fuzz_check_text(const struct fuzz_play *play, const char *text);

#endif
