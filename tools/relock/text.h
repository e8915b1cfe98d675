/* Text - names of locks may have any bytes; these make them safe to print */
#ifndef RELOCK_TOOL_TEXT_H
#define RELOCK_TOOL_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* The text with each byte that is not printable UTF-8 as \xNN. The caller frees it; NULL: no
 * memory. */
char *text_escape(const char *text);

/* Prints the text in this form. */
void text_print(FILE *out, const char *text);

/* Prints a word of a command, quoted for a shell if it needs that. */
void text_print_word(FILE *out, const char *word);

/* Begins a line on stderr: "relock COMMAND: ABOUT: ", the second one in this form. Until
 * text_end(), other threads wait to write there. */
void text_begin(const char *command, const char *about);
void text_end(void);

/* The text as a string of JSON, with its quotes; what is not UTF-8 is U+FFFD. The caller
 * frees it; NULL: no memory. */
char *text_json(const char *text);

/* The columns that an escaped text takes, as far as each character takes one. */
size_t text_width(const char *text);

/* The name as a pattern for relock_locks() that matches no other. The caller frees it; NULL: no
 * memory. */
char *text_pattern(const char *name);

#endif
