/* SPDX-License-Identifier: MIT */
/* One row of a command's table of options (options.h). */
#ifndef COMMON_OPTION_H
#define COMMON_OPTION_H

#include <stdbool.h>

enum option_type {
    OPTION_TEXT,    /* const char *: borrowed until options_release() */
    OPTION_INTEGER, /* int64_t within [minimum, maximum], exact over all 64 bits */
    OPTION_REAL,    /* double within [minimum, maximum] */
    OPTION_FLAG,    /* bool */
    OPTION_CHOICE   /* const char *: one of `choices`, separated by '|' */
};

struct option {
    const char *name; /* with underscores: "learning_rate"; --help shows dashes */
    enum option_type type;
    void *target;         /* where the value goes; holds the default before options_parse() */
    const char *argument; /* what --help calls the value: "SECONDS" */
    const char *help;     /* one line or a few, without the default: --help adds it */
    long double minimum, maximum; /* both 0: no bounds; long double holds INT64_MAX exactly */
    const char *choices;          /* OPTION_CHOICE: "keep|drop|span" */
    const char *alias;            /* OPTION_CHOICE: NULL, or "warn=warning": another word for one */
    bool *given;                  /* NULL, or set to whether anything but the default named it */
    bool required;                /* absent everywhere: ERROR_USAGE */
    bool repeated;                /* OPTION_TEXT: may come several times on the command line; the
                                   * target gets all values, one a line */
    bool json;                    /* OPTION_TEXT: a JSON object */
    bool is_output;               /* OPTION_TEXT: a file to write, so not "-" */
    const char *instead;          /* NULL, or the option that says the same in another way: where
                                   * it comes from a stronger place, this one is not looked at */
};

/* What people look for under a name that is no option of the command. */
struct option_hint {
    const char *name;   /* with underscores: "batch_size" */
    const char *advice; /* behind "unknown option "batch-size": " */
};

#endif
