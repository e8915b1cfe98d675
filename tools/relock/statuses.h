/* Statuses - the exit statuses of the tool itself, chosen as env(1) and timeout(1) choose theirs */
#ifndef RELOCK_TOOL_STATUSES_H
#define RELOCK_TOOL_STATUSES_H

enum {
    STATUS_OK = 0,
    STATUS_NO = 1,          /* the answer is no: a lock is free, a check failed, not confirmed */
    STATUS_OTHER = 2,       /* status: a name has data that is no lock */
    STATUS_LOST = 123,      /* run: the lock was lost before the command ended */
    STATUS_CONFLICT = 124,  /* run: RELOCK_BUSY or RELOCK_TIMEOUT */
    STATUS_FAILED = 125,    /* wrong usage, Redis unreachable, or another failure of the tool */
    STATUS_NO_EXEC = 126,   /* run: the command cannot be executed */
    STATUS_NOT_FOUND = 127, /* run: the command was not found */
    STATUS_OF_SIGNAL = 128, /* run: and the number of the signal that ended the command */
};

#endif
